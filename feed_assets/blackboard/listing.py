"""Listings of any length, page by page as they are taken.

Here: the one loop over pages. Not here: listings that jump (`file_feed.scanning`), and a store's own pages.
"""

from __future__ import annotations

from collections.abc import Iterator

from feed_assets.blackboard.port import Blackboard, Entry


def list_all(blackboard: Blackboard, prefix: str, *, after: str = "") -> Iterator[Entry]:
    """All objects below a prefix whose keys come after `after`: one request a page, none beyond what is taken."""
    next_after: str | None = after
    while next_after is not None:
        page = blackboard.page(prefix, after=next_after)
        yield from page.entries
        next_after = page.next_after


def list_folders(blackboard: Blackboard, prefix: str, *, after: str = "") -> Iterator[str]:
    """The names of the folders directly below a prefix, likewise."""
    next_after: str | None = after
    while next_after is not None:
        page = blackboard.page(prefix, after=next_after, folders=True)
        yield from (folder.removeprefix(prefix).removesuffix("/") for folder in page.folders)
        next_after = page.next_after
