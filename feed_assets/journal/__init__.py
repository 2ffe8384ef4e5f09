"""Journals: bytes that are durable when an append returns, in order, and found again after any crash.

Here: records with checksums (`records`), numbered entries with one writer each (`numbered`), segments of records on a
disk and on a blackboard (`on_disk`, `on_blackboard`, their port `segments`), and the thread that writes for many
callers at once (`group_commit`). Not here: what a record means, and when a segment is over (`receiving.committing`).
"""
