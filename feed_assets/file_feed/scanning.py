"""All partitions of a feed in one pass: the skip-scan.

Here: walking over a whole feed, or over some of its partitions, in few requests, and the latest of every partition
that way. Not here: one partition (`reading`), and all that a feed holds (`contents`). A listing only ascends, and old
history is what most of it would be; so where a page ends inside the history of a partition, the listing goes on at what
matters of it.
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

    `skipped` where history before the start that was asked for was jumped over.
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
) -> Iterator[Scanned]:
    """Every partition from `first` to `last` that holds updates, in the order of their keys (`a.b/` is before `a/`).

    `only` leaves all other partitions out, and jumps over them. Of a partition whose history was jumped over, only what
    comes after the jump is shown.

    `start` tells for a partition the name of the update where the listing may go on once a page has ended before it
    ("", the default, is the beginning: nothing is jumped over). That update itself is always seen, also where its
    manifest is gone. Takes at most one LIST for each page of keys, and one or two for a long control area; with `only`
    at most one more than pages for each of these partitions. Raises MixedFeedError where updates and partitions lie at
    one level.
    """
    wanted = Wanted(first, last, only)
    way = _Way(wanted, start, wanted.start)
    for entry in list_jumping(feed.blackboard, feed.root, way.jump, after=wanted.start):
        rest = entry.key.removeprefix(feed.root)
        if rest.startswith(f"{CONTROL}/"):
            continue
        partition, name, path = _split(rest)
        # Only folders are in this order: a stray file `a` is before `a.b/`, and `a/` after it.
        if "/" in rest and wanted.is_past(partition):
            break
        if name is None or (partition and partition not in wanted):
            continue
        if way.current is None or way.current.partition != partition:
            if way.current is not None:
                if "" in (way.current.partition, partition):
                    raise MixedFeedError(not_one_level(feed, mixed=True))
                yield way.current
            way.current = Scanned(partition)
        way.current.updates.setdefault(name, Found(name)).add(path, entry)
    if way.current is not None:
        yield way.current


@dataclass(slots=True)
class _Way:
    """Where a scan goes on after each page: `before` is the key after which the present page starts."""

    wanted: Wanted
    start: Callable[[str], str]
    before: str
    current: Scanned | None = None

    def jump(self, rest: str) -> str | None:
        """See `list_jumping`."""
        there = f"{CONTROL}0" if rest.startswith(f"{CONTROL}/") else self._past(rest)  # "0" comes right after "/"
        self.before = there or ""
        return there

    def _past(self, rest: str) -> str | None:
        inside = f"{self.current.partition}/" if self.current is not None and self.current.partition else ""
        if self.current is None or not rest.startswith(inside):
            return self.wanted.jump(rest)
        target = f"{inside}{self.start(self.current.partition)}"
        if rest >= target:
            return next_page(self.current.updates, inside, self.before, rest)
        # Between what was seen and the target there may be newer updates than what was seen, and the rest of it.
        self.current.skipped = True
        self.current.updates.clear()
        return target


def latest_of_all(
    feed: Feed, *, now: datetime, first: str = "", last: str | None = None, only: Collection[str] | None = None
) -> dict[str, Update]:
    """All that `latest_of_each` gives, at once."""
    return dict(latest_of_each(feed, now=now, first=first, last=last, only=only))


def latest_of_each(
    feed: Feed, *, now: datetime, first: str = "", last: str | None = None, only: Collection[str] | None = None
) -> Iterator[tuple[str, Update]]:
    """The latest valid update of every partition from `first` to `last`, or `only` of these; none where none is valid.

    That of an unpartitioned feed is under "". A skip-scan: one LIST a page, or one a partition where its history is
    longer than a page. It jumps over old history to the newest update but one on record, of which a listing of the
    records tells; where there is none, to a day before `now`. Where nothing is valid there, as `latest` for the one
    partition.
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
    """Where the history of a partition is to be looked at, asked for in the order of a scan.

    That is the newest update but one on record: the newest may have been rejected. The records are listed as far as the
    scan has come, and not at all where no history is longer than a page.
    """

    def __init__(self, feed: Feed, last: str | None, only: Collection[str] | None, *, otherwise: str) -> None:
        self._feed, self._last, self._only, self._otherwise = feed, last, only, otherwise
        self._records: Iterator[tuple[str, dict[str, str]]] | None = None
        self._at: tuple[str, Collection[str]] | None = None

    def start(self, partition: str) -> str:
        if not partition:
            return self._otherwise  # its records may be more pages than its recent updates
        if self._records is None:
            rest = None if self._only is None else [name for name in self._only if f"{name}/" >= f"{partition}/"]
            self._records = recorded(self._feed, first=partition, last=self._last, only=rest)
            self._at = next(self._records, None)
        while self._at is not None and f"{self._at[0]}/" < f"{partition}/":
            self._at = next(self._records, None)
        there = self._at is not None and self._at[0] == partition
        return sorted(self._at[1])[-2:][0] if self._at is not None and there else self._otherwise


def _split(rest: str) -> tuple[str, str | None, str]:
    """Partition ("" where the feed has none), update (None where it is none), and path of a key below the feed."""
    head, _, tail = rest.partition("/")
    if is_update_name(head) and tail:
        return "", head, tail
    name, _, path = tail.partition("/")
    return head, name if is_partition_name(head) and is_update_name(name) and path else None, path
