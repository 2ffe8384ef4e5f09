"""Delivery: an update of a feed goes to a Kinesis stream, and from there into a key-value store; no row is lost.

Words: a *destination* is a named stream and its rules. A *delivery* is one update sent to one destination. Its
*edition* is a number that grows with each delivery of a partition. Its rows have *ordinals*, 0 to rows - 1. The
*version* (partition, edition, ordinal) says which value of a key stays.

Here: destinations (`destination`), what is sent (`staging`, `encoding`), the ledger of editions (`ledger`), the client
of streams (`client`), streams and stores (`streams`, `stores`), the consumer (`consuming`), and the audit of all hops
(`audit`). Not here: Dagster, and Spark.
"""
