"""Declarations of feeds as plain values, the names of days, and the slots of datasets.

Not here: an asset's metadata with its declaration (`feed_events.declarations`), storage, and facts about slots.

A `Dataset` has grains, and a `Hierarchy` of members, each with a `Calendar`. A `Slot` is a window of a dataset at a
member. An instant is an integer: seconds since 1970-01-01 00:00 UTC. A day is an integer that names a batch date: days
since 1970-01-01.
"""
