"""All partitions of a feed in one pass: the skip-scan.

Here: walking over a whole feed in few requests, and the latest of every partition that way. Not here: one
partition (`reading`). A listing only ascends, and old history is what most of it would be; so where a page ends
inside the history of a partition, the listing goes on at what matters of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from feed_assets.blackboard import Entry
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
    valid_as_listed,
)


@dataclass(slots=True)
class Scanned:
    """A partition ("" of an unpartitioned feed) as a skip-scan saw it: its updates by name, oldest first.

    `skipped` where history before the start that was asked for was jumped over; `has_own_control` where the partition
    has a control area of its own.
    """

    partition: str
    updates: dict[str, Found] = field(default_factory=dict)
    skipped: bool = False
    has_own_control: bool = False


def scan(
    feed: Feed, *, start: Callable[[str], str] = lambda _: "", first: str = "", last: str | None = None
) -> Iterator[Scanned]:
    """Every partition from `first` to `last` that holds updates, in the order of their keys (`a.b/` is before `a/`).

    Of a partition whose history was jumped over, only what comes after the jump is shown.

    `start` tells for a partition the name of the update where the listing may go on once a page has ended before it
    ("", the default, is the beginning: nothing is jumped over). That update itself is always seen, also where its
    manifest is gone. Takes at most one LIST for each page of keys, and one or two for a long control area. Raises
    MixedFeedError where updates and partitions lie at one level.
    """
    current: Scanned | None = None
    own_control = ""  # the partition whose own control area was seen, which comes before its updates

    def jump(before: str, after: str) -> str:
        if current is None:
            return after
        inside = feed.prefix(current.partition or None)
        target = f"{inside}{start(current.partition)}"
        if not after.startswith(inside) or after >= target:
            return next_page(current.updates, inside, before, after)
        # Between what was seen and the target there may be newer updates than what was seen, and the rest of it.
        current.skipped = True
        current.updates.clear()
        return target

    for entry in _entries(feed, first, jump):
        rest = entry.key.removeprefix(feed.root)
        partition, name, path = _split(rest)
        # Only folders are in this order: a stray file `a` is before `a.b/`, and `a/` after it.
        if last is not None and "/" in rest and f"{partition}/" > f"{last}/":
            break
        if name is None or (first and partition and f"{partition}/" < f"{first}/"):
            own_control = partition if entry.key.startswith(f"{feed.root}{partition}/{CONTROL}/") else own_control
            continue
        if current is None or current.partition != partition:
            if current is not None:
                yield current
                _check_level(feed, current.partition, partition)
            current = Scanned(partition, has_own_control=partition == own_control != "")
        current.updates.setdefault(name, Found(name)).add(path, entry)
    if current is not None:
        yield current


def latest_of_all(
    feed: Feed,
    *,
    now: datetime,
    first: str = "",
    last: str | None = None,
    held: Mapping[str, str] | None = None,
) -> dict[str, Update]:
    """The latest valid update of every partition from `first` to `last`; of an unpartitioned feed, under "".

    A skip-scan that jumps over old history to the update that is `held` of a partition, else to a day before `now`.
    """
    in_force: dict[str, Update] = {}
    recent = update_name(max(now, EARLIEST + RECENT) - RECENT)
    for scanned in scan(feed, start=lambda partition: (held or {}).get(partition, recent), first=first, last=last):
        partition = scanned.partition or None
        try:
            update = newest_valid(feed, partition, scanned.updates, valid=valid_as_listed)
            again = update is None and scanned.skipped
        except MovedError:
            again = True
        if again:
            update = latest(feed, partition, now=now)
        if update is not None:
            in_force[scanned.partition] = update
    return in_force


def _entries(feed: Feed, first: str, jump: Callable[[str, str], str]) -> Iterator[Entry]:
    """The feed's objects, save its control area. `jump` tells from the two ends of a page where the next one starts."""
    control = f"{feed.root}{CONTROL}/"
    after = f"{feed.root}{first}" if first else ""
    while True:
        page = feed.blackboard.page(feed.root, after=after)
        yield from (entry for entry in page.entries if not entry.key.startswith(control))
        if page.next_after is None:
            return
        past_control = f"{feed.root}{CONTROL}0"  # "0" comes right after "/"
        after = past_control if page.next_after.startswith(control) else jump(after, page.next_after)


def _split(rest: str) -> tuple[str, str | None, str]:
    """Partition ("" where the feed has none), update (None where it is none), and path of a key below the feed."""
    head, _, tail = rest.partition("/")
    if is_update_name(head) and tail:
        return "", head, tail
    name, _, path = tail.partition("/")
    return head, name if is_partition_name(head) and is_update_name(name) and path else None, path


def _check_level(feed: Feed, one: str, other: str) -> None:
    if "" in (one, other):
        message = f"{feed.uri} holds updates and partitions at one level: move one of them to a location of its own."
        raise MixedFeedError(message)
