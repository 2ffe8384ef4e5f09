"""The copy of what is known of slots, on the blackboard, from which a lost database is made again.

Here: writing rows that have changed to `.dependencies/state/`, folding its objects, comparing, restoring. Not here: SQL
(`tables`), and what rows mean (`rows`).

Each object has the rows that changed in a stretch of the log, as they are at its end, packed as lines of JSON. The
database knows up to which event its rows are copied. A process that is killed after a commit leaves the rest to the
next writer. Of several rows of one thing the newest counts, so objects may overlap. Forced starts are copied by their
events. The copy belongs to one database: another one that finds it writes nothing, so that it can be restored.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, Entry, NotFoundError
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies import tables
from feed_assets.dependencies.errors import StateCopyError
from feed_assets.dependencies.kept_states import LOG, RESTORED
from feed_assets.dependencies.service import Dependencies
from feed_assets.dependencies.tables import CopiedRow
from feed_assets.starts.tables import store_id
from feed_assets.state.event_log import Event, NewEvent, events_of_kind, newest_number, read_events, skip_to

AREA: Final = ".dependencies/state/"
FORMAT: Final = 1
MOST_OBJECTS: Final = 100
"""How many objects there may be before the small ones are folded into one."""
FOLD_EVERY: Final = 50
"""How many objects a process writes between two looks at their number."""
SKIPPED: Final = 1_000_000
"""By how much the numbers of events go on after a loss: the lost database may have had some that were never copied."""
SHOWN: Final = 10
_COPIES: Final = "dependency copies"
"""The log whose writers write how far the copy is: none of them waits for writers of slots."""
_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class CopyObject:
    """An object of the copy: the rows that changed from event `first` to event `last`; all rows, if `first` is 0."""

    store: str
    first: int
    last: int
    rows: Sequence[CopiedRow]
    events: Sequence[Event]

    @property
    def key(self) -> str:
        """The key. Keys ascend by the last event."""
        return f"{AREA}{self.last:016}-{self.first:016}"

    def packed(self) -> bytes:
        """The object's bytes; equal objects have equal ones."""
        header = {"format": FORMAT, "store": self.store, "first": self.first, "last": self.last}
        lines: list[object] = [header, *([*row[:3], row.values] for row in self.rows)]
        lines += [["event", each.sequence, each.at.isoformat(), each.kind, each.details] for each in self.events]
        text = "".join(f"{json.dumps(line, separators=(',', ':'), ensure_ascii=False)}\n" for line in lines)
        return gzip.compress(text.encode(), mtime=0)

    @classmethod
    def unpacked(cls, data: bytes) -> CopyObject:
        """The object of these bytes. Raises ValueError, LookupError, TypeError, OSError or EOFError for others."""
        header, *lines = map(json.loads, gzip.decompress(data).decode().rstrip("\n").split("\n"))
        if header["format"] != FORMAT:
            raise ValueError(f"it has the format {header['format']}: update feed_assets")
        rows = [CopiedRow(line[0], line[1], line[2], tuple(line[3])) for line in lines if line[0] != "event"]
        events = [
            Event(number, datetime.fromisoformat(at), kind, details)
            for name, number, at, kind, details in (line for line in lines if line[0] == "event")
            if name
        ]
        return cls(header["store"], header["first"], header["last"], rows, events)


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored: numbers by what they count; `until` is the time of the newest object."""

    counts: Mapping[str, int]
    until: datetime
    unknown: Sequence[str]


@dataclass(slots=True)
class StateCopy:
    """The copy of one service's state. Each process may have one, and use it from one thread.

    There are at most about `most_objects` objects, as each process looks at their number now and then.
    """

    states: Dependencies
    board: Blackboard
    most_objects: int = MOST_OBJECTS
    _written: int = field(default=0)

    def write(self) -> bool:
        """Write what the database has and the copy has not; whether there was any. One query if there is no news.

        Raises StateCopyError if the copy belongs to another database, StoreError and BlackboardError.
        """
        kept = self.states.kept
        if not kept.datasets or not kept.store.exists():
            return False
        with kept.store.reading() as connection:
            last, done = newest_number(connection, LOG), tables.read_copied(connection, kept.base)
            if last == (done or 0):
                return False
            rows = tables.read_changed(connection, kept.base, done or -1)
            events = [*_forced_starts(connection, kept.base, done or 0)]
            written = CopyObject(store_id(connection), (done or 0) + 1, last, rows, events)
        if not rows and not events:
            return False
        is_first = self._written % FOLD_EVERY == 0
        if done is None or is_first:
            self._require_own(written.store)
        self._create(written)
        self._note(last)
        if is_first:
            self._fold()
        self._written += 1
        return True

    def rebuild(self, *, now: datetime) -> Restored:
        """Make the database of this base again. Raises StateCopyError if it has facts already, or there is no copy."""
        kept = self.states.kept
        objects = self._objects()
        if not objects:
            raise StateCopyError(
                f"There is nothing to restore: {self.board.uri(AREA)} is empty. It is written where an asset has a "
                "trigger, from the first tick of the sensor `starts` on."
            )
        rows = self._newest_rows(objects)
        events = {each.sequence: each for found in objects for each in found.events}
        datasets = sorted({row.dataset for row in rows if row.dataset})
        last = max(each.last for each in objects)
        with kept.store.writing(LOG) as transaction:
            if tables.has_rows(transaction.connection, kept.base):
                raise StateCopyError(
                    f"The state database {kept.store.url} has facts of {kept.base} already, and stays as it is. To "
                    "make it again, stop everything that uses it, move it away (on a disk also its files with -wal and "
                    "-shm; on a server name an empty database), and call this again."
                )
            skip_to(transaction.connection, LOG, last + SKIPPED)
            again = [NewEvent(each.kind, each.at, {**each.details, "base": kept.base}) for each in events.values()]
            told = [NewEvent(RESTORED, now, {"base": kept.base, "dataset": name}) for name in datasets]
            numbers = transaction.append_many([*again, *told])
            tables.insert_copied(transaction.connection, kept.base, rows, numbers[0])
        self.states.refresh()
        entries = [*list_all(self.board, AREA)]
        self._write_all(entries)
        return Restored(_counts(rows, events), max(each.modified for each in entries), _unknown(objects))

    def loss(self) -> str:
        """Why the database looks lost or replaced: the copy is that of another one. "" if it does not.

        Costs a listing of the copy, and a read of its newest object. Raises StateCopyError and BlackboardError.
        """
        kept = self.states.kept
        entries = [*list_all(self.board, AREA)] if kept.datasets else []
        if not entries:
            return ""
        has_facts, own = False, ""
        if kept.store.exists():
            with kept.store.reading() as connection:
                has_facts, own = tables.has_rows(connection, kept.base), store_id(connection)
        if has_facts and self._object(entries[-1].key).store == own:
            return ""
        what = "has a copy of another one" if has_facts else "has a copy of one"
        empty = "" if has_facts else f" knows nothing of {kept.base}, and"
        first = ", once this one is moved away" if has_facts else ""
        return (
            f"The state database {kept.store.url}{empty} looks lost or replaced: {self.board.uri(AREA)} {what}. "
            f"`feed-assets state rebuild` makes it again{first}."
        )

    def restored(self) -> datetime | None:
        """When the database was last made again from its copy, as far as the log goes back; None if it was not."""
        kept = self.states.kept
        if not kept.store.exists():
            return None
        with kept.store.reading() as connection:
            found = [each for each in events_of_kind(connection, LOG, RESTORED) if each.details["base"] == kept.base]
        return found[-1].at if found else None

    def differences(self) -> list[str]:
        """What the database has and the copy has not, and the other way round; in words, some of them named."""
        kept = self.states.kept
        objects = self._objects()
        if not kept.store.exists():
            return ["There is no state database, but a copy of one: `state rebuild` makes it again."] if objects else []
        with kept.store.reading() as connection:
            there = {row.key: row for row in self._kept(tables.read_changed(connection, kept.base, -1))}
            own, last = store_id(connection), newest_number(connection, LOG)
        copied = {row.key: row for row in self._newest_rows(objects)}
        found = []
        if any(each.store != own for each in objects):
            found.append(f"{self.board.uri(AREA)} has the copy of another state database.")
        newest = max((each.last for each in objects), default=0)
        if newest > last:
            found.append(
                f"The copy has events up to {newest:,}, the database up to {last:,}: it is an old one. Move it away, "
                "then call `state rebuild`."
            )
        late = [key for key, row in there.items() if row.changed > newest]
        if late:
            found.append(f"{len(late):,} facts after event {newest:,} are not copied yet: the next tick does it.")
        odd = [f"is not on the blackboard: {_words(key)}" for key in there.keys() - copied.keys() - {*late}]
        odd += [f"is not in the database: {_words(key)}" for key in copied.keys() - there.keys()]
        odd += [
            f"differs: {_words(key)}"
            for key in there.keys() & copied.keys() - {*late}
            if there[key].values != copied[key].values
        ]
        found += sorted(odd)[:SHOWN]
        if len(odd) > SHOWN:
            found.append(f"and {len(odd) - SHOWN:,} more")
        return found

    def _write_all(self, entries: Sequence[Entry]) -> None:
        """Write all rows as one object in place of these."""
        kept = self.states.kept
        with kept.store.reading() as connection:
            last = newest_number(connection, LOG)
            rows, events = tables.read_changed(connection, kept.base, -1), _forced_starts(connection, kept.base, 0)
            written = CopyObject(store_id(connection), 0, last, rows, [*events])
        self._create(written)
        self._note(last)
        self.board.delete(*(each.key for each in entries if each.key != written.key))

    def _create(self, written: CopyObject) -> None:
        with suppress(AlreadyExistsError):  # by another process, of the same stretch
            self.board.create(written.key, written.packed())

    def _note(self, last: int) -> None:
        kept = self.states.kept
        with kept.store.writing(_COPIES) as transaction:
            tables.save_copied(transaction.connection, kept.base, last)

    def _require_own(self, own: str) -> None:
        """Raise StateCopyError if the copy is that of another database, or of a later state of this one."""
        keys = [each.key for each in list_all(self.board, AREA)]
        if not keys:
            return
        newest, kept = self._object(keys[-1]), self.states.kept
        with kept.store.reading() as connection:
            last = newest_number(connection, LOG)
        if newest.store == own and newest.last <= last:
            return
        what = "another state database, which was lost or replaced"
        if newest.store == own:
            what = f"event {newest.last:,}, and the state database ends at {last:,}, as an old backup does"
        raise StateCopyError(
            f"{self.board.uri(AREA)} has the copy of {what}, so nothing of {kept.store.url} is copied. To restore it, "
            "move the present database away and call `feed-assets state rebuild`. To begin anew, delete the copy."
        )

    def _fold(self) -> None:
        """Put the newest objects into one, if there are many: all up to one that is larger than these together."""
        entries = [*list_all(self.board, AREA)]
        if len(entries) < self.most_objects:
            return
        size, some = 0, list[Entry]()
        for each in reversed(entries):
            if len(some) > 1 and each.size > size:
                break
            some.append(each)
            size += each.size
        try:
            found = [self._object(each.key) for each in some]
        except NotFoundError:
            return  # another process does the same
        events = {each.sequence: each for one in found for each in one.events}
        first, last = min(each.first for each in found), max(each.last for each in found)
        folded = CopyObject(found[0].store, first, last, self._newest_rows(found), [*events.values()])
        self._create(folded)
        self.board.delete(*(each.key for each in some if each.key != folded.key))

    def _objects(self) -> list[CopyObject]:
        """All objects, by their last event. Raises StateCopyError for one that cannot be read."""
        return [self._object(each.key) for each in list_all(self.board, AREA)]

    def _object(self, key: str) -> CopyObject:
        data = self.board.read(key).data
        try:
            return CopyObject.unpacked(data)
        except (ValueError, LookupError, TypeError, OSError, EOFError) as error:
            raise StateCopyError(
                f"{self.board.uri(key)} cannot be read: {error}. It is damaged, or by a newer version. Get it back "
                "from a backup; or delete it and go on without what changed then."
            ) from error

    def _newest_rows(self, objects: Iterable[CopyObject]) -> list[CopiedRow]:
        """The newest row of each thing, without those that the database keeps no longer."""
        found: dict[tuple[Any, ...], CopiedRow] = {}
        for each in objects:
            for row in each.rows:
                if (known := found.get(row.key)) is None or known.changed <= row.changed:
                    found[row.key] = row
        return self._kept(found.values())

    def _kept(self, rows: Iterable[CopiedRow]) -> list[CopiedRow]:
        """The rows without those of old parts, and of slots that their hour stands for."""
        some = [*rows]
        clocks = {row.dataset: tables.ClockRow(*row.values).clock for row in some if row.table == "datasets"}
        folded = {_slot(row) for row in some if row.table == "slots" and _is_folded(row)}

        def is_kept(row: CopiedRow) -> bool:
            if row.table == "parts":
                return tables.PartRow(*row.values).until >= clocks.get(row.dataset, 0)
            return not folded or row.table != "slots" or self._around(_slot(row)) not in folded

        return [row for row in some if is_kept(row)]

    def _around(self, slot: Slot) -> Slot | None:
        """The slot that keeps what is known of one below an hour; None for others, and for what is not declared."""
        if slot.dataset not in self.states.datasets:
            return None
        try:
            return self.states.kept.view(slot.dataset).windows.fold_slot(slot)
        except DatasetError:
            return None


def _forced_starts(connection: Any, base: str, after: int) -> Iterator[Event]:
    """The events of starts that somebody forced."""
    while read := read_events(connection, LOG, after, _AT_ONCE):
        yield from (each for each in read if each.details.get("forced") and each.details.get("base") == base)
        after = read[-1].sequence


def _slot(row: CopiedRow) -> Slot:
    found = tables.SlotRow(*row.values)
    return Slot(row.dataset, found.member, Grain.named(found.grain), found.start)


def _is_folded(row: CopiedRow) -> bool:
    """Whether a slot stands for those in it, whose states are deleted. Most texts need not be parsed to see that."""
    state = tables.SlotRow(*row.values).state
    return '"folded":' in state and '"folded":0' not in state and json.loads(state)["folded"] > 0


def _counts(rows: Iterable[CopiedRow], events: Mapping[int, Event]) -> dict[str, int]:
    counts = dict.fromkeys(("complete slots", "incomplete slots", "parts", "waivers", "marks", "backfills"), 0)
    for row in rows:
        match row.table:
            case "slots":
                counts["complete slots" if tables.SlotRow(*row.values).complete else "incomplete slots"] += 1
            case "parts" | "waivers":
                counts[row.table] += 1
            case "quality":
                kind = tables.QualityRow(*row.values).kind
                if f"{kind}s" in counts:
                    counts[f"{kind}s"] += 1
    forced = {
        (each.details.get("flow"), each.details.get("slot"), each.details.get("number")) for each in events.values()
    }
    return counts | {"forced starts": len(forced)}


def _unknown(objects: Sequence[CopyObject]) -> list[str]:
    """What the copy does not have, and what to do about it."""
    found, until = [], 0
    for each in sorted(objects, key=lambda each: (each.last, each.first)):
        if each.first > until + 1:
            found.append(f"what changed from event {until + 1:,} to {each.first - 1:,}: its object is gone")
        until = max(until, each.last)
    return [
        *found,
        "what was reported and commanded after the last copy: report it again; parts that are known count once",
        "attempts, and which runs were requested: sensors compare anew, and may start some again",
        "which flows were paused: pause them again with `feed-assets deps pause` before the daemon starts",
        "how far subscribers were: their numbers are gone, so they get 410 and look at the answers",
        "tokens of `serve` and `receive`, and who holds leases: add tokens again",
    ]


def _words(key: tuple[Any, ...]) -> str:
    table, dataset, *more = key
    if table == "slots":
        return str(Slot(dataset, more[0], Grain.named(more[1]), more[2]))
    return " ".join(map(str, (table, dataset, *more))).replace("  ", " ")
