"""HTTP services: what every one of them has, whatever it is for. No Dagster, no Spark.

Here: running one (`service`), what connections, bodies and requests may cost (`connections`, `bodies`, `holding`,
`rate`), what a body is (`content`), who may ask (`tokens`, `tables`, `grants`), answers and refusals (`answers`), and
the document of an API (`documents`, `pages`). Not here: what a service does (`receiving.server`).
"""
