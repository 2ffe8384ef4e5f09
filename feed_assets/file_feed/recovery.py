"""Undoing removals that stopped before they deleted anything.

Here: finding such removals, and restoring their manifests. Not here: removing updates (`removal`).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from feed_assets.blackboard.port import ConflictError, Entry
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.manifest import RECOVERABLE_BYTES, is_removal, replaced_by
from feed_assets.file_feed.reading import Found, read_manifest


def recover(feed: Feed, partition: str | None, updates: Iterable[Found]) -> bool:
    """Restore those of a partition's listed updates whose removal stopped before it deleted anything.

    A removal that still runs sees this, and leaves it alone. Returns whether it read a manifest: one GET for each.
    """
    # By size: reading every manifest would cost a request for each update.
    suspects = [each for each in updates if each.manifest is not None and each.manifest.size in RECOVERABLE_BYTES]
    for found in suspects:
        before = read_manifest(feed, partition, found.name)
        if before is not None and is_removal(before.data):
            give_back(feed, replaced_by(before.data), before.entry)
    return bool(suspects)


def give_back(feed: Feed, own: bytes | None, taken: Entry) -> None:
    """Restore the manifest `own` over that of a removal, unless somebody else replaced it meanwhile."""
    if own is None:
        return  # there was none; deleting has no condition, and the manifest may be another's by now
    with suppress(ConflictError):
        feed.blackboard.replace(taken.key, own, tag=taken.tag)
