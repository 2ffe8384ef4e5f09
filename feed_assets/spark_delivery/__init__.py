"""Large deliveries on Spark: what is sent is staged there (`staging`), and sent by its tasks (`stream_writer`).

Here: the backend of `feed_assets.delivery` that needs Spark (`backend`). Not here: everything else about deliveries,
which knows no Spark. Executors need the package, with its extra `delivery`.
"""
