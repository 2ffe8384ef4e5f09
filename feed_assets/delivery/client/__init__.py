"""The client of streams: a future for each record, bounded memory, and the rates of the shards.

Three parts that know each other by protocols: `facade` buffers and gives futures, `limiter` blocks until a shard may
take more, `worker` sends and judges answers. Usable alone, without feeds, Spark and Dagster. Not here: how one
request is sent (`streams`).
"""
