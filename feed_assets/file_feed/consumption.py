"""News of a feed: every valid update once, and the loss of what was in force.

Here: what is news since the last look, and the cursor that remembers the last look. Not here: which update is
latest (`reading`) - another question - and what a consumer makes of the news. The cursor is the consumer's to keep;
an old one brings news again that came after it, and none is lost. It grows with the partitions, and each look lists
the feed: a consumer that keeps what it was told last of each partition watches a large feed in less (`watching`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.names import begun, is_update_name, update_name
from feed_assets.file_feed.reading import EARLIEST, is_valid, latest
from feed_assets.file_feed.scanning import Scanned, scan

HORIZON = timedelta(days=2)
"""How much earlier than the newest delivered update one may have been begun and still be news when it appears for
the first time. One that was seen incomplete stays watched beyond that."""

WATCHED = 100
"""How many incomplete updates beyond the horizon are watched in each partition, the newest of them."""

FORMAT = 1

Kind = Literal["published", "older", "invalidated"]


@dataclass(frozen=True, slots=True)
class Change:
    """One piece of news of a partition (None: the feed has none). `update` is what is in force there now, if any.

    - published: the update `name` is in force now, and was not.
    - older: the update `name` is valid, and a newer one is in force.
    - invalidated: the update `name` was in force and is not valid any more, so an older one is in force, or none.
    """

    kind: Kind
    partition: str | None
    name: str
    update: Update | None

    def sentence(self) -> str:
        """What happened, for people."""
        subject = f"{self.partition}: update {self.name}" if self.partition is not None else f"update {self.name}"
        in_force = f"{self.update.name} is in force" if self.update else "nothing valid is left"
        match self.kind:
            case "published":
                return f"{subject} was published"
            case "older":
                return f"{subject} became valid, and the newer {in_force}"
            case "invalidated":
                return f"{subject} is not valid any more, {in_force}"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a consumer knows of a partition.

    `reported` is the update in force by the last change that it got ("": none). Updates from `floor` on are news unless
    they are among `delivered`; those before it are not, unless they are among `watched`: seen, and not delivered yet.
    """

    reported: str = ""
    delivered: frozenset[str] = frozenset()
    watched: frozenset[str] = frozenset()
    floor: str = ""

    @property
    def start(self) -> str:
        """Where the next look has to begin."""
        return min(self.floor, self.reported, *self.watched)

    def is_news(self, name: str) -> bool:
        """Whether this update, once it is valid, is to be delivered."""
        return name not in self.delivered and (name >= self.floor or name in self.watched)

    def after(self, change: Change) -> _Seen:
        """What it knows once this was delivered."""
        reported = change.update.name if change.update else ""
        if change.kind == "invalidated":
            return replace(self, reported=reported, delivered=self.delivered - {change.name})
        return replace(self, reported=reported, delivered=self.delivered | {change.name})

    def settled(self, there: Mapping[str, Any]) -> _Seen:
        """The same, with the floor at the horizon; what is not delivered yet of that before it is watched."""
        floor = max(self.floor, horizon(max(self.delivered, default="")))
        open_ones = sorted(name for name in there if name < floor and self.is_news(name))
        delivered = frozenset(name for name in self.delivered if name >= floor)
        return _Seen(self.reported, delivered, frozenset(open_ones[-WATCHED:]), floor)

    def to_plain(self) -> object:
        """For JSON: mostly a single name."""
        if self == _Seen(self.reported, frozenset({self.reported}), frozenset(), horizon(self.reported)):
            return self.reported
        return [self.reported, sorted(self.delivered), sorted(self.watched), self.floor]

    @classmethod
    def from_plain(cls, plain: str | list[Any]) -> _Seen:
        """Raises ValueError or TypeError where this is nothing that `to_plain` gives."""
        reported, delivered, watched, floor = (plain, [plain], [], horizon(plain)) if isinstance(plain, str) else plain
        names = (*delivered, *watched, *(name for name in (reported, floor) if name != ""))
        if not all(is_update_name(name) for name in names):
            message = "not the name of an update"
            raise ValueError(message)
        return cls(reported, frozenset(delivered), frozenset(watched), floor)


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a consumer has come. Small: for most partitions the name of one update.

    `complete` once a first look has come to its end: from then on everything in a new partition is news.
    """

    partitions: Mapping[str, _Seen] = field(default_factory=dict)
    complete: bool = False

    def to_json(self) -> str:
        """Compact JSON, the same text for the same cursor."""
        partitions = {name: seen.to_plain() for name, seen in self.partitions.items()}
        content = {"format": FORMAT, "complete": self.complete, "partitions": partitions}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Cursor:
        """Read a cursor. What cannot be read is an empty one, so that the consumer starts afresh rather than fails."""
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                return cls()
            partitions = {str(name): _Seen.from_plain(plain) for name, plain in content["partitions"].items()}
            return cls(partitions, bool(content["complete"]))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return cls()


def news(
    feed: Feed,
    cursor: Cursor,
    *,
    now: datetime,
    first: str = "",
    last: str | None = None,
    limit: int | None = None,
) -> tuple[list[Change], Cursor]:
    """What happened since the cursor, at most `limit` changes, and the cursor after them; the rest comes next time.

    A first look, with an empty cursor, delivers what is in force in each partition; what came before is no news. After
    that every update is delivered once when it is valid (again only where it was lost and has come back in force), in
    each partition the older first, and the loss of what was in force once. Takes the LISTs of a skip-scan (see
    `scanning.scan`), and those of `latest` for each partition that lost what was in force. Raises MixedFeedError.
    """
    look = _Look(feed, cursor, now)
    changes: list[Change] = []
    partitions = dict(cursor.partitions)
    for scanned in look.scanned(first, last):
        if limit is not None and len(changes) >= limit:
            return changes, Cursor(partitions, cursor.complete)
        found, seen = look.at(scanned)
        delivered = found if limit is None else found[: limit - len(changes)]
        for change in delivered:
            seen = seen.after(change)
        partitions[scanned.partition] = seen.settled(scanned.updates)
        changes += delivered
        if len(delivered) < len(found):
            return changes, Cursor(partitions, cursor.complete)
    return changes, Cursor(partitions, complete=True)


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a feed."""

    feed: Feed
    cursor: Cursor
    now: datetime

    def start(self, partition: str) -> str:
        """Where a look at this partition has to begin: of an unknown one, all is news unless this is the first look."""
        seen = self.cursor.partitions.get(partition)
        if seen is not None:
            return seen.start
        return "" if self.cursor.complete else update_name(max(self.now, EARLIEST + HORIZON) - HORIZON)

    def scanned(self, first: str, last: str | None) -> Iterator[Scanned]:
        """Every partition that is there, and after them those that were."""
        gone = {name for name in self.cursor.partitions if name >= first and (last is None or name <= last)}
        for scanned in scan(self.feed, start=self.start, first=first, last=last):
            gone.discard(scanned.partition)
            yield scanned
        for partition in sorted(gone):
            yield Scanned(partition)

    def at(self, scanned: Scanned) -> tuple[list[Change], _Seen]:
        """The changes in one partition, and what was known before them."""
        partition = scanned.partition or None
        valid = sorted(name for name, found in scanned.updates.items() if is_valid(self.feed, found))
        in_force = scanned.updates[valid[-1]].update(self.feed, partition) if valid else None
        seen = self.cursor.partitions.get(scanned.partition)
        lost = seen is not None and seen.reported > (in_force.name if in_force else "")
        if lost or (in_force is None and scanned.skipped):
            # What took its place may lie in what was jumped over, or have come while the listing went on.
            in_force = latest(self.feed, partition, now=self.now)
        if seen is None:
            seen = _Seen() if self.cursor.complete else self._history(scanned, valid, in_force)
        return list(_changes(seen, partition, valid, in_force)), seen

    def _history(self, scanned: Scanned, valid: list[str], in_force: Update | None) -> _Seen:
        """What a first look takes as known: all that is valid, save what is in force."""
        if in_force is None:
            return _Seen()
        listed_from = self.start(scanned.partition) if scanned.skipped else ""
        floor = max(horizon(in_force.name), listed_from)
        return _Seen("", frozenset(valid) - {in_force.name}, frozenset(), min(floor, in_force.name))


def _changes(seen: _Seen, partition: str | None, valid: list[str], in_force: Update | None) -> Iterator[Change]:
    now = in_force.name if in_force else ""
    reported = seen.reported
    if reported > now:
        yield Change("invalidated", partition, reported, in_force)
        reported = now
    for name in valid:
        if name != now and seen.is_news(name):
            yield Change("older", partition, name, in_force)
    if now and (now != reported or seen.is_news(now)):
        yield Change("published", partition, now, in_force)


def horizon(name: str) -> str:
    """The update name HORIZON before this one; "" of none."""
    return update_name(max(begun(name), EARLIEST + HORIZON) - HORIZON) if name else ""
