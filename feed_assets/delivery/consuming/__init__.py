"""The consumer: it reads the records of a stream, and brings them into a store.

Here: which shards a process reads (`consumer`), and what it does with a batch (`settling`). Not here: the stream, the
store, and how far shards were read (`tables`).
"""
