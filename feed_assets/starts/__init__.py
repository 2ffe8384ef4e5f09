"""Which starts were requested, and the graph of feeds that decisions about starts need. No Dagster, no Spark.

Here: the attempts at slots of flows that have a trigger (`attempts`, by the rules in `attempt`); the ledger of the
requested starts of all others (`requests`); the tables of both (`tables`); and the graph as a protocol (`graph`). Not
here: why a run is due (`late_data`), and starting it (`sensors`).
"""
