"""All partitions of a feed in one pass: the skip-scan.

Here: walking over a feed, or over some of its partitions, in few requests; the latest update of every partition. Not
here: a single partition (`reading`), and everything that a feed holds (`contents`). Most of a listing would be old
history. So if a page ends inside the history of a partition, the listing jumps to the part that matters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from feed_assets.blackboard.listing import Wanted, list_jumping
from feed_assets.file_feed.control import recorded
from feed_assets.file_feed.errors import MixedFeedError
from feed_assets.file_feed.feed import CONTROL, Feed, Update
from feed_assets.file_feed.names import is_partition_name, is_update_name, update_name
from feed_assets.file_feed.reading import (
    EARLIEST,
    RECENT,
    Found,
    MovedError,
    latest,
    newest_valid,
    next_page,
    not_one_level,
    valid_as_listed,
)


@dataclass(slots=True)
class Scanned:
    """A partition ("" of an unpartitioned feed) as a skip-scan saw it: its updates by name, oldest first.

    `skipped` if the scan jumped over older history.
    """

    partition: str
    updates: dict[str, Found] = field(default_factory=dict)
    skipped: bool = False


def scan(
    feed: Feed,
    *,
    start: Callable[[str], str] = lambda _: "",
    first: str = "",
    last: str | None = None,
    only: Collection[str] | None = None,
    mixed: bool = False,
) -> Iterator[Scanned]:
    """Every partition from `first` to `last` that holds updates, in the order of their keys (`a.b/` is before `a/`).

    `only` leaves all other partitions out, and jumps over them. If the scan jumped over history of a partition, it
    shows only the updates after the jump.

    `start` returns, for a partition, the update name to jump to if a page ended before it ("", the default, does not
    jump). The scan always sees that update, even without its manifest. At most one LIST for each page of keys, and one
    or two for a long control area; with `only`, at most one more than pages for each partition. Raises MixedFeedError
    if updates and partitions lie at one level, unless `mixed`: then "" comes once for each group of its updates.
    """
    wanted = Wanted(first, last, only)
    progress = _Progress(wanted, start, wanted.start)
    for entry in list_jumping(feed.blackboard, feed.root, progress.jump, after=wanted.start):
        rest = entry.key.removeprefix(feed.root)
        if rest.startswith(f"{CONTROL}/"):
            continue
        partition, name, path = _split(rest)
        # Only folders sort like this: a stray file `a` is before `a.b/`, and `a/` after it.
        if "/" in rest and wanted.is_past(partition):
            break
        if name is None or (partition and partition not in wanted):
            continue
        if progress.current is None or progress.current.partition != partition:
            if progress.current is not None:
                if not mixed and "" in (progress.current.partition, partition):
                    raise MixedFeedError(not_one_level(feed, mixed=True))
                yield progress.current
            progress.current = Scanned(partition)
        progress.current.updates.setdefault(name, Found(name)).add(path, entry)
    if progress.current is not None:
        yield progress.current


@dataclass(slots=True)
class _Progress:
    """Where a scan continues after each page: `before` is the key after which the present page starts."""

    wanted: Wanted
    start: Callable[[str], str]
    before: str
    current: Scanned | None = None

    def jump(self, rest: str) -> str | None:
        """See `list_jumping`."""
        target = f"{CONTROL}0" if rest.startswith(f"{CONTROL}/") else self._past(rest)  # "0" comes right after "/"
        self.before = target or ""
        return target

    def _past(self, rest: str) -> str | None:
        inside = f"{self.current.partition}/" if self.current is not None and self.current.partition else ""
        if self.current is None or not rest.startswith(inside):
            return self.wanted.jump(rest)
        target = f"{inside}{self.start(self.current.partition)}"
        if rest >= target:
            return next_page(self.current.updates, inside, self.before, rest)
        # There may be newer updates, or the rest of the last one, between here and the target.
        self.current.skipped = True
        self.current.updates.clear()
        return target


def latest_of_all(
    feed: Feed, *, now: datetime, first: str = "", last: str | None = None, only: Collection[str] | None = None
) -> dict[str, Update]:
    """The updates that `latest_of_each` yields, as one dictionary."""
    return dict(latest_of_each(feed, now=now, first=first, last=last, only=only))


def latest_of_each(
    feed: Feed, *, now: datetime, first: str = "", last: str | None = None, only: Collection[str] | None = None
) -> Iterator[tuple[str, Update]]:
    """The latest valid update of every partition from `first` to `last`, or of `only` these, if it has one.

    An unpartitioned feed is under "". A skip-scan: one LIST a page, or one a partition if its history is longer than a
    page. It jumps over old history to the second newest recorded update, which it takes from a listing of the records;
    without records, to a day before `now`. If nothing is valid from there on, it calls `latest` for the partition.
    """
    recorded_names = _NewestRecorded(feed, last, only, otherwise=update_name(max(now, EARLIEST + RECENT) - RECENT))
    for scanned in scan(feed, start=recorded_names.start, first=first, last=last, only=only):
        partition = scanned.partition or None
        try:
            update = newest_valid(feed, partition, scanned.updates, valid=valid_as_listed)
            again = update is None and scanned.skipped
        except MovedError:
            again = True
        if again:
            update = latest(feed, partition, now=now)
        if update is not None:
            yield scanned.partition, update


class _NewestRecorded:
    """The update at which to look into a partition's history; called in the order of a scan.

    It is the second newest recorded update, as the newest may have been rejected. Lists the records only as far as the
    scan has come, and not at all if no history is longer than a page.
    """

    def __init__(self, feed: Feed, last: str | None, only: Collection[str] | None, *, otherwise: str) -> None:
        self._feed, self._last, self._only, self._otherwise = feed, last, only, otherwise
        self._records: Iterator[tuple[str, dict[str, str]]] | None = None
        self._at: tuple[str, Collection[str]] | None = None

    def start(self, partition: str) -> str:
        if not partition:
            return self._otherwise  # its records may fill more pages than its recent updates
        if self._records is None:
            rest = None if self._only is None else [name for name in self._only if f"{name}/" >= f"{partition}/"]
            self._records = recorded(self._feed, first=partition, last=self._last, only=rest)
            self._at = next(self._records, None)
        while self._at is not None and f"{self._at[0]}/" < f"{partition}/":
            self._at = next(self._records, None)
        if self._at is None or self._at[0] != partition:
            return self._otherwise
        return sorted(self._at[1])[-2:][0]


def _split(rest: str) -> tuple[str, str | None, str]:
    """Partition ("" if the feed has none), update (None if it is not an update's key), and path of a key in a feed."""
    head, _, tail = rest.partition("/")
    if is_update_name(head) and tail:
        return "", head, tail
    name, _, path = tail.partition("/")
    return head, name if is_partition_name(head) and is_update_name(name) and path else None, path
