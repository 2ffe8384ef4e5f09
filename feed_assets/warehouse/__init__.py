"""Tables of a database with the update in force of each partition of a feed: DuckDB, PostgreSQL, Snowflake.

Here: loading by partition in one transaction, and the log of all loads. Not here: when something is loaded (`sensors`),
and Dagster. A row has the columns of its feed, `_partition` and `_update`.

Readers who query all the while see the old update of a partition or the new one, never none and never both. If a load
is killed, at any statement, the old one stays, and the next load completes.
"""
