"""What files on a disk hold, where tags do not tell it: a copied file has another tag and the same content.

Here: the SHA-256 of files, several at a time. Not here: where digests are kept (`file_feed.record`,
`sources.known_contents`). On S3 and in memory, tags tell the content, and nothing is read.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path

from feed_assets.blackboard.local import digest_of
from feed_assets.blackboard.location import local_directory
from feed_assets.blackboard.port import Blackboard

AT_ONCE = 4
"""Files that are read at once: a disk and two cores are busy then."""


def local_root(board: Blackboard) -> Path | None:
    """The directory of a blackboard whose tags do not tell the content; None for others."""
    uri = board.uri("")
    return local_directory(uri) if uri.startswith("file:/") and board.tag_of(b"") is None else None


def digests(board: Blackboard, keys: Collection[str], *, until: float = inf) -> dict[str, tuple[str, str]]:
    """The tag and the SHA-256 of these objects, by key; empty where tags tell the content.

    Leaves out objects that are gone, or that change meanwhile, and all that are not begun at `until` (of the monotonic
    clock); one object is read in any case.
    """
    root = local_root(board)
    if root is None or not keys:
        return {}
    first, *others = keys

    def read(key: str) -> tuple[str, str] | None:
        if key is not first and time.monotonic() > until:
            return None
        return digest_of(root / key, root)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = zip(keys, pool.map(read, [first, *others]), strict=True)
        return {key: digest for key, digest in found if digest is not None}
