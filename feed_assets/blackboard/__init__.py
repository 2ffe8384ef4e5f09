"""The storage everyone shares, behind one port: a directory, a bucket, or a dictionary in memory.

Here: the port, its stores, and the way from a URI to a store. Not here: what is kept in them (see
`feed_assets.file_feed`). `S3Blackboard` and `MemoryBlackboard` are in modules of their own:
a program that keeps its data on a local disk does not load an S3 client.
"""
