"""Key-value stores in which a newer version of a key replaces an older one, whatever the order of arrival.

Here: what a store does (`port`), where it is (`address`), and each kind. Not here: records of streams.
"""
