"""Listings of any length, page by page as the caller consumes them.

Here: the loop over pages, and jumps over folders that are not wanted. Not here: which part of a folder is wanted
(`file_feed.scanning`), and a store's own pages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator

from feed_assets.blackboard.port import Blackboard, Entry, Page


class Wanted:
    """The wanted folders of a listing, by name: from `first` to `last`, or `only` these.

    Folders are in the order of their keys: `a.b/` comes before `a/`.
    """

    def __init__(self, first: str = "", last: str | None = None, only: Collection[str] | None = None) -> None:
        self._only = sorted(f"{name}/" for name in only or ())
        self._names = None if only is None else frozenset(only)
        self._last = None if last is None else f"{last}/"
        if only is not None:
            self._last = self._only[-1] if self._only else ""
        self.start = self._only[0] if self._only else f"{first}/" if first else ""
        """The key after which the listing starts, below its prefix."""

    def __contains__(self, name: str) -> bool:
        return f"{name}/" >= self.start if self._names is None else name in self._names

    def is_past(self, name: str) -> bool:
        """Whether this folder comes after all wanted folders."""
        return self._last is not None and f"{name}/" > self._last

    def jump(self, rest: str) -> str | None:
        """Where to continue after a page that ended at this key below the prefix; None if nothing wanted follows."""
        head, slash, _ = rest.partition("/")
        if slash and self.is_past(head):
            return None
        if self._names is None or head in self._names:
            return rest
        at = bisect_right(self._only, rest)
        return self._only[at] if at < len(self._only) else None


def list_all(blackboard: Blackboard, prefix: str, *, after: str = "") -> Iterator[Entry]:
    """All objects below a prefix with keys after `after`: one request a page, none beyond what the caller consumes."""
    yield from list_jumping(blackboard, prefix, lambda rest: rest, after=after.removeprefix(prefix))


def list_jumping(
    blackboard: Blackboard, prefix: str, jump: Callable[[str], str | None], *, after: str = ""
) -> Iterator[Entry]:
    """As `list_all`; after each page `jump` gets its last key below the prefix and returns where to continue, or None.

    `after` is below the prefix, too.
    """
    start: str | None = after
    while start is not None:
        page = blackboard.page(prefix, after=f"{prefix}{start}" if start else "")
        yield from page.entries
        start = None if page.next_after is None else jump(page.next_after.removeprefix(prefix))


def list_folders(blackboard: Blackboard, prefix: str, *, after: str = "") -> Iterator[str]:
    """The names of the folders directly below a prefix: one request a page."""
    next_after: str | None = after
    while next_after is not None:
        page = blackboard.page(prefix, after=next_after, folders=True)
        yield from _names(page, prefix)
        next_after = page.next_after


def first_folders(blackboard: Blackboard, prefix: str, *, after: str = "") -> list[str]:
    """The names of the folders directly below a prefix on the first page: one request."""
    return _names(blackboard.page(prefix, after=after, folders=True), prefix)


def _names(page: Page, prefix: str) -> list[str]:
    return [folder.removeprefix(prefix).removesuffix("/") for folder in page.folders]
