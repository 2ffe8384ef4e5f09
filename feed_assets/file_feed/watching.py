"""Watching a feed for a consumer that knows the last reported update of each partition.

Here: the changes since then, from the change log and from scans. Not here: which update is latest (`reading`), and
keeping what the consumer knows.

The log (`changes`) names the news of a whole feed at once, and may lack entries. A scan looks at every partition and
finds the acts of other programs, too; it may stop after any partition and continue later. Every new update in force and
every loss is found until the consumer knows it. An update that became valid behind a newer one (`older`) may be found
twice, by the log and by scans that begin within SKEW of each other: the consumer must recognise it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from feed_assets.file_feed.changes import LogEntry, Position
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.names import begun, is_update_name, update_name
from feed_assets.file_feed.reading import EARLIEST, RECENT, Found, is_valid, latest, newest_valid, updates_from
from feed_assets.file_feed.scanning import Scanned, scan

SKEW = timedelta(minutes=15)
"""How far the store's clock and the consumer's may differ."""

HORIZON = timedelta(days=2)
"""How much earlier than the last reported update another may have been begun, so that a scan still finds it when it
becomes valid late."""

Kind = Literal["published", "older", "invalidated"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change in a partition (None: the feed has none). `update` is the one in force there now, if any.

    - published: the update `name` came into force.
    - older: the update `name` is valid, and a newer one is in force.
    - invalidated: the update `name` was in force and is not valid any more; an older one is in force, or none.
    """

    kind: Kind
    partition: str | None
    name: str
    update: Update | None

    def sentence(self) -> str:
        """The change as a sentence, for people."""
        subject = f"{self.partition}: update {self.name}" if self.partition is not None else f"update {self.name}"
        in_force = f"{self.update.name} is in force" if self.update else "nothing valid is left"
        match self.kind:
            case "published":
                return f"{subject} was published"
            case "older":
                return f"{subject} became valid, and the newer {in_force}"
            case "invalidated":
                return f"{subject} is not valid any more, {in_force}"


Known = Mapping[str, str]
"""The last reported update of each partition ("" for a feed without partitions)."""


@dataclass(frozen=True, slots=True)
class Watch:
    """How far a consumer has come in a feed; its size does not depend on the feed.

    `position` is its place in the log. `scan_begun` is the start of the last scan. `place` is the partition after which
    that scan continues; None if it has ended. A manifest written at or after `since` counts as new; None in the first
    scan. A scan of `everything` takes every partition for changed, and so does the next one if it was `cut_short`.
    Times are by the consumer's clock.
    """

    position: Position
    scan_begun: datetime = EARLIEST
    place: str | None = None
    since: datetime | None = None
    everything: bool = True
    cut_short: bool = False

    def scanning(self, interval: timedelta, *, now: datetime) -> Watch:
        """The watch with a scan under way, if one is under way or due: `interval` after the last one began."""
        if self.place is not None or self.scan_begun <= now < self.scan_begun + interval:
            return self
        if self.scan_begun == EARLIEST:
            return replace(self, scan_begun=now, place="")
        last = min(self.scan_begun, now)  # the clock may have been set back
        last = last.replace(microsecond=0)  # S3 states the times of objects in whole seconds
        since = max(last - SKEW, min(self.since, last)) if self.since else last
        return Watch(self.position, now, "", since, everything=self.cut_short)

    def to_plain(self) -> dict[str, Any]:
        """The values for JSON; `from_plain` reads them."""
        return {
            "log": [self.position.after, *self.position.seen],
            "scan": [self.scan_begun.isoformat(), self.since.isoformat() if self.since else None, self.place],
            "all": [self.everything, self.cut_short],
        }

    @classmethod
    def from_plain(cls, plain: Any, *, now: datetime) -> Watch:
        """Read a watch. If it cannot be read, start a new one now, with a scan of everything."""
        try:
            after, *seen = plain["log"]
            begun, since, place = plain["scan"]
            everything, cut_short = plain["all"]
            if not all(isinstance(each, str) for each in (after, *seen, place or "")):
                return cls(Position.at(now))
            times = [datetime.fromisoformat(each).astimezone(UTC) if each else None for each in (begun, since)]
        except (TypeError, KeyError, ValueError, OverflowError):
            return cls(Position.at(now))
        return cls(
            Position(after, tuple(seen)), times[0] or EARLIEST, place, times[1], bool(everything), bool(cut_short)
        )


@dataclass(frozen=True, slots=True)
class Look:
    """The result of looking at a partition: its changes, oldest first, and whether anything may have changed.

    `update` is the one in force there now, if any.
    """

    partition: str | None
    changes: tuple[Change, ...]
    update: Update | None
    touched: bool = True


def look_at_logged(feed: Feed, entries: Sequence[LogEntry], known: Known, *, now: datetime) -> Iterator[Look]:
    """Look at the partitions that these entries name: a LIST each, or less if one page holds several partitions.

    If the update in force was lost, it also costs the LISTs of `latest`.
    """
    named: dict[str, set[str]] = {}
    for entry in entries:
        if entry.act != "removed":  # retention removes only updates that are not in force
            named.setdefault(entry.partition or "", set()).add(entry.update)
    for scanned in _listed(feed, {partition: min(updates) for partition, updates in named.items()}):
        fresh = named[scanned.partition]
        yield _look(feed, scanned, known, fresh, now)


def continue_scan(feed: Feed, watch: Watch, known: Known, *, now: datetime) -> Iterator[Look]:
    """Continue the scan that is under way, partition by partition in the order of their keys.

    `now` is the installation's time. Takes the LISTs of a skip-scan (see `scanning.scan`), and those of `latest` if an
    update was lost. Raises MixedFeedError.
    """
    place = watch.place or ""
    gone = sorted((f"{name}/" for name in known if not place or f"{name}/" > f"{place}/"), reverse=True)
    recent = _horizon(update_name(max(now, EARLIEST + RECENT)))

    def start(partition: str) -> str:
        # Start HORIZON earlier: an older update may have become valid late.
        return _horizon(known[partition]) if partition in known else recent

    for scanned in scan(feed, start=start, first=place):
        if scanned.partition and scanned.partition == place:
            continue
        while gone and gone[-1] < f"{scanned.partition}/":
            yield _scanned(feed, watch, Scanned(gone.pop()[:-1]), known, now)
        if gone and gone[-1] == f"{scanned.partition}/":
            gone.pop()
        yield _scanned(feed, watch, scanned, known, now)
    for folder in reversed(gone):
        yield _scanned(feed, watch, Scanned(folder[:-1]), known, now)


def _scanned(feed: Feed, watch: Watch, scanned: Scanned, known: Known, now: datetime) -> Look:
    """The changes that a scan sees in a partition: new manifests, by their time, and another update in force."""
    fresh = {
        name
        for name, found in scanned.updates.items()
        if watch.since is not None and found.manifest is not None and found.manifest.modified >= watch.since
    }
    look = _look(feed, scanned, known, fresh, now)
    return replace(look, touched=watch.everything or bool(fresh or look.changes))


def _look(feed: Feed, scanned: Scanned, known: Known, fresh: AbstractSet[str], now: datetime) -> Look:
    """The changes in a partition. An update that is not in force is only news if it is in `fresh`."""
    partition, updates, reported = scanned.partition or None, scanned.updates, known.get(scanned.partition, "")
    changes = []
    in_force = newest_valid(feed, partition, updates)
    if reported > (in_force.name if in_force else "") or (in_force is None and scanned.skipped):
        # The update in force may lie in the skipped history, or be newer than the listing.
        in_force = latest(feed, partition, now=now)
    name = in_force.name if in_force else ""
    if reported > name:
        changes.append(Change("invalidated", partition, reported, in_force))
    behind = (each for each in sorted(fresh & updates.keys()) if each < name and is_valid(feed, updates[each]))
    changes += [Change("older", partition, each, in_force) for each in behind]
    if name > reported:
        changes.append(Change("published", partition, name, in_force))
    return Look(partition, tuple(changes), in_force)


def _listed(feed: Feed, starts: Mapping[str, str]) -> Iterator[Scanned]:
    """These partitions, each listed from this update, or an earlier one, on."""
    waiting = sorted(starts, key=lambda partition: f"{partition}/", reverse=True)
    while waiting:
        partition = waiting.pop()
        prefix, start = feed.prefix(partition or None), starts[partition]
        if not waiting:
            yield Scanned(partition, updates_from(feed, partition or None, start=start), skipped=True)
            return
        page = feed.blackboard.page(feed.root, after=f"{prefix}{start}")
        shown: dict[str, dict[str, Found]] = {}
        for entry in page.entries:
            folder, _, rest = entry.key.removeprefix(feed.root).partition("/")
            name, _, path = rest.partition("/")
            if folder in starts and is_update_name(name) and path:
                shown.setdefault(folder, {}).setdefault(name, Found(name)).add(path, entry)
        end = page.next_after
        while end is None or not end.startswith(prefix):
            yield Scanned(partition, shown.get(partition, {}), skipped=True)
            if not waiting or (end is not None and end < feed.prefix(waiting[-1])):
                break
            partition = waiting.pop()
            prefix, start = feed.prefix(partition), starts[partition]
        else:
            # The page ended inside the partition: list it by itself, to see each update at one moment.
            yield Scanned(partition, updates_from(feed, partition, start=start), skipped=True)


def _horizon(name: str) -> str:
    """The update name HORIZON before this one; "" if this is ""."""
    return update_name(max(begun(name), EARLIEST + HORIZON) - HORIZON) if name else ""
