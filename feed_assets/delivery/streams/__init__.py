"""Streams of records: Kinesis, and one in a file for one machine, the demo and tests.

Here: what a stream does (`port`), where it is (`address`), and each kind. Not here: buffers and rates (`client`), and
what records mean.
"""
