"""Which starts were requested, and the graph of feeds that decisions about starts need. No Dagster, no Spark.

Here: one ledger of requested starts (`requests`, its table in `tables`) and the graph as a protocol (`graph`). Not
here: why a run is due (`late_data`), and starting it (`sensors`).
"""
