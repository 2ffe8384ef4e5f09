"""Journals: bytes that are durable when an append returns, in order, and found again after any crash.

Here: records with checksums (`records`), numbered entries with one writer each (`numbered`), segments of records on a
disk and on a blackboard (`on_disk`, `on_blackboard`, their port `segments`), and the thread that writes for many
callers at once (`group_commit`). Not here: what a record means, and when a segment is over (`receiving.committing`).
"""

from feed_assets.journal.group_commit import GroupCommit, Work
from feed_assets.journal.numbered import FencedError, NumberedEntries, UndecidedError
from feed_assets.journal.on_blackboard import BlackboardSegments
from feed_assets.journal.on_disk import DiskSegments
from feed_assets.journal.records import JournalError, frame
from feed_assets.journal.segments import MEDIUM_ERRORS, Segments, age

__all__ = [
    "MEDIUM_ERRORS",
    "BlackboardSegments",
    "DiskSegments",
    "FencedError",
    "GroupCommit",
    "JournalError",
    "NumberedEntries",
    "Segments",
    "UndecidedError",
    "Work",
    "age",
    "frame",
]
