"""The change log of a feed: a small object for each act. One listing after a position shows the new acts.

Here: the keys of the entries; writing, reading and deleting entries. Not here: the acts (`publishing`, `withdrawal`,
`removal`), and what an entry means for a reader (`watching`).

An entry is its key, `<day>/<time>/[<partition>/]<update>.<act>`, with the time of the act by the store's clock; its
content is empty. The log is advisory: acts of other programs are missing, and so is an act whose writer stopped before
it wrote the entry. An entry may appear after entries with a later time. Therefore a reader looks back by OVERLAP, and
remembers the entries that it has read there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, BlackboardError
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.names import begun, is_partition_name, is_update_name, update_name

CHANGES = "changes"

OVERLAP = timedelta(minutes=5)
"""How much older than the newest entry a new entry may be. A scan finds older ones."""

REMEMBERED = 100
"""How many entries a position remembers at most. If more fall within OVERLAP, the reader looks back less far."""

SETTLED = timedelta(minutes=20)
"""How old an entry is, by the reader's clock, when no earlier one appears any more: OVERLAP, and clocks that differ.
A reader forgets it then, so that what a consumer stores of a quiet feed is small."""

AHEAD = timedelta(hours=1)
"""Entries further ahead of the reader's clock are ignored until their time: they would hide all entries before them."""

KEPT = timedelta(days=7)
"""How long entries are kept. A reader that comes back later finds older changes with a scan."""

Act = Literal["published", "invalidated", "rejected", "removed"]

_log = logging.getLogger("feed_assets.file_feed")


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An act on an update. `key` is the entry's key below the log; keys ascend by time."""

    key: str
    partition: str | None
    update: str
    act: str


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader has come: it has read every key up to `after`, and the later keys whose digests are `seen`."""

    after: str = ""
    seen: tuple[str, ...] = ()

    @classmethod
    def at(cls, moment: datetime) -> Position:
        """The position of a reader that starts at `moment` by its clock; the store's clock may be OVERLAP behind."""
        return cls(_time_key(moment - OVERLAP))

    def past(self, keys: Sequence[str], *, now: datetime) -> Position:
        """The position after these keys. They must ascend, and include those that were seen before."""
        if not keys:
            return self
        oldest = max(_time_key(begun(keys[-1][:15].replace("/", ".")) - OVERLAP), _time_key(now - SETTLED))
        recent = [key for key in keys if key > oldest][-REMEMBERED:]
        passed = [key for key in keys if not recent or key < recent[0]]
        return Position(passed[-1] if passed else self.after, tuple(_digest(key) for key in recent))


@dataclass(frozen=True, slots=True)
class LogPage:
    """The entries after a reader's position at the time `now`: all `keys`, and the `new` entries among them."""

    position: Position
    now: datetime
    keys: tuple[str, ...]
    new: tuple[LogEntry, ...]

    def position_before(self, unread: LogEntry | None) -> Position:
        """The position of a reader that has handled every entry before `unread` (None: the whole page)."""
        return self.position.past([key for key in self.keys if unread is None or key < unread.key], now=self.now)


def log_act(feed: Feed, partition: str | None, update: str, act: Act, *, at: datetime) -> None:
    """Add an act to the log: one PUT. `at` is its time by the store's clock. If storage fails, it logs a warning."""
    inside = f"{partition}/" if partition is not None else ""
    try:
        feed.blackboard.create(f"{feed.control(CHANGES)}{_time_key(at)}/{inside}{update}.{act}", b"")
    except AlreadyExistsError:
        return
    except BlackboardError as error:
        _log.warning("%s %s was %s, but the change log lacks it: %s", feed.title(partition), update, act, error)


def log_page(feed: Feed, position: Position, *, now: datetime) -> LogPage:
    """The first page of the log after a position: one LIST. `now` is the time by the reader's clock."""
    folder = feed.control(CHANGES)
    listed = feed.blackboard.page(folder, after=f"{folder}{position.after}" if position.after else "").entries
    end = _time_key(now + AHEAD)
    found = [_parse(entry.key.removeprefix(folder)) for entry in listed]
    entries = [entry for entry in found if entry is not None and entry.key < end]
    new = tuple(entry for entry in entries if _digest(entry.key) not in position.seen)
    return LogPage(position, now, tuple(entry.key for entry in entries), new)


def drop_old_entries(feed: Feed, *, now: datetime) -> int:
    """Delete the entries older than KEPT and return their number: a LIST for each page of them, and the DELETEs."""
    folder, end = feed.control(CHANGES), _time_key(now - KEPT)
    old = []
    for entry in list_all(feed.blackboard, folder):
        if entry.key.removeprefix(folder) >= end:
            break
        old.append(entry.key)
    feed.blackboard.delete(*old)
    return len(old)


def _time_key(moment: datetime) -> str:
    # One directory a day keeps directories on a disk short.
    return update_name(moment).replace(".", "/")


def _parse(key: str) -> LogEntry | None:
    """The entry under this key; None if the key is not an entry's."""
    day, _, rest = key.partition("/")
    time, _, rest = rest.partition("/")
    partition, slash, name = rest.rpartition("/")
    update, _, act = name.rpartition(".")
    named = is_update_name(f"{day}.{time}") and is_update_name(update) and act in get_args(Act)
    if not named or (slash and not is_partition_name(partition)):
        return None
    return LogEntry(key, partition if slash else None, update, act)


def _digest(key: str) -> str:
    return short_digest(key)[:8]
