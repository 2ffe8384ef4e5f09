"""The states of datasets in memory, and in the database: transactions, and following what others wrote.

Not here: what facts mean (`act`, `parts`), and SQL (`tables`).

A writing transaction first reads what others wrote, then decides, then writes states and events. Memory changes after
the commit. If the outcome of a commit is unknown, memory is dropped, and loaded again when needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

from feed_assets.datasets.instants import instant_of, moment_of
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies import rows, tables
from feed_assets.dependencies.act import Act
from feed_assets.dependencies.completeness import NEVER
from feed_assets.dependencies.errors import UnknownDatasetError
from feed_assets.dependencies.parts import StoredPart
from feed_assets.dependencies.quality.events import Change, QualityEvent
from feed_assets.dependencies.quality.kept import KeptQuality, endings
from feed_assets.dependencies.quality.marks import Fact
from feed_assets.dependencies.quality.slot_quality import SlotQuality
from feed_assets.dependencies.rules import Declared
from feed_assets.dependencies.slot_states import SlotStates, State
from feed_assets.dependencies.windows import since_of
from feed_assets.state.event_log import NewEvent, newest_number, read_events
from feed_assets.state.store import Store, Transaction

LOG: Final = "dependencies"
"""The log of events about slots."""
NOTED: Final = "noted"
"""The kind of an event that tells only that facts of a dataset changed."""
FOLDED: Final = "folded"
"""The kind of an event that tells that states of old slots were deleted."""
RESTORED: Final = "restored"
"""The kind of an event that tells that a dataset's states were restored in a new database."""
_AT_ONCE: Final = 1000

Record = Callable[[Transaction], None]
Command = Callable[[SlotQuality], Change]
"""Changes what is known about quality."""


@dataclass
class Acts:
    """One transaction's changes, for each dataset."""

    kept: KeptStates
    now: int
    connection: Any = None
    """The connection of the transaction; None while it is only tried whether there is any change."""
    acts: dict[str, Act] = field(default_factory=dict)
    parts: dict[tuple[str, str, str], StoredPart] = field(default_factory=dict)
    """Parts to save, by dataset, member and id."""
    known_parts: dict[tuple[str, str, str], StoredPart] = field(default_factory=dict)
    """Parts that were read, by dataset, member and id."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The number of the first event of each dataset that changed."""
    commands: list[Command] = field(default_factory=list)
    """Commands on quality: done in order, after all else is decided."""

    def of(self, name: str) -> Act:
        """The changes to a dataset."""
        if (found := self.acts.get(name)) is None:
            found = self.acts[name] = Act(self.kept.view(name), self.now)
        return found

    def touch(self, names: Iterable[str]) -> None:
        """Let time pass for these datasets."""
        for name in names:
            self.of(name)

    def part(self, dataset: str, member: str, id: str) -> StoredPart | None:  # noqa: A002 - a part's id
        """A part that is kept, or that this transaction saves."""
        key = (dataset, member, id)
        return self.parts.get(key) or self.known_parts.get(key)

    def keep(self, dataset: str, part: StoredPart) -> None:
        """Save a part with the transaction."""
        self.parts[dataset, part.member, part.id] = part

    def load_parts(self, ids: Iterable[tuple[str, str]]) -> None:
        """Read kept parts by dataset and id, for `part`."""
        wanted: dict[str, dict[str, None]] = {}
        for dataset, each in ids:
            wanted.setdefault(dataset, {})[each] = None
        for dataset, names in wanted.items():
            for row in tables.read_parts(self.connection, (self.kept.base, dataset), [*names]):
                self.known_parts[dataset, row.member, row.part] = rows.part_of(row)

    @property
    def datasets_of_parts(self) -> set[str]:
        """The datasets that have parts to save."""
        return {dataset for dataset, _, _ in self.parts}

    def parts_of(self, dataset: str, member: str) -> list[StoredPart]:
        """The parts of a member that still count."""
        stored = tables.read_parts_of(self.connection, (self.kept.base, dataset), member)
        found = {each.part: rows.part_of(each) for each in stored}
        found |= {part.id: part for (name, path, _), part in self.parts.items() if (name, path) == (dataset, member)}
        return [part for part in found.values() if not part.retracted]

    def finish(self) -> bool:
        """Decide; whether there is anything to store."""
        for act in self.acts.values():
            act.finish()
        return bool(self.news or self.parts or self.commands)

    @property
    def news(self) -> Mapping[str, Act]:
        """The changes to datasets that have any."""
        return {name: act for name, act in self.acts.items() if act.is_news}


Work = Callable[[Acts], None]


class KeptStates:
    """The states of the datasets of one base. Any thread may use it."""

    def __init__(self, store: Store, base: str, datasets: Mapping[str, Declared]) -> None:
        self.store = store
        self.base = base
        self.datasets = dict(datasets)
        self._states: dict[str, SlotStates] = {}
        self._cursor = -1
        """The number of the last event that memory has; -1: memory is empty."""
        self._lock = threading.RLock()
        self._quality = KeptQuality(base, self.datasets, self)
        self._deciding: Mapping[str, Act] = {}
        """What the present transaction changes."""
        self.news = threading.Condition()

    def view(self, name: str) -> SlotStates:
        """The states of a dataset, loaded when first needed. Raises UnknownDatasetError."""
        if (known := self._states.get(name)) is not None:
            return known
        if (declared := self.datasets.get(name)) is None:
            names = ", ".join(sorted(self.datasets)[:10]) or "none"
            raise UnknownDatasetError(f"{name!r} is no declared dataset. Declared are: {names}.")
        with self._lock:
            if (found := self._states.get(name)) is not None:
                return found
            states = None
            if self.store.exists():
                with self.store.reading() as connection:
                    if self._cursor < 0:
                        self._states, self._cursor = {}, newest_number(connection, LOG)
                    states = self._loaded(connection, name, declared)
            self._states[name] = states = states or SlotStates.of(declared)
            return states

    def refresh(self) -> None:
        """Take over what other processes have written. One query if there is nothing new."""
        with self._lock:
            if self.store.exists():
                with self.store.reading() as connection:
                    self._catch_up(connection)
            else:
                self._forget()

    @contextmanager
    def quality(self) -> Iterator[SlotQuality]:
        """The quality of slots, for answers from memory. No other thread uses it meanwhile."""
        with self._lock:
            if not self._quality.is_loaded and self.store.exists():
                with self.store.reading() as connection:
                    self._catch_up(connection)
                    self._quality.view(connection)
            yield self._quality.view(None)

    def state(self, slot: Slot) -> State:
        """The state of a slot that exists, as the present transaction leaves it."""
        act, known = self._deciding.get(slot.dataset), self.view(slot.dataset)
        if known.windows.is_base(slot):
            return act.base(slot) if act else known.base(slot)
        return (act.roll_ups.get(slot) if act else None) or known.roll_up(slot)

    def revision_of(self, slot: Slot) -> int:
        """The revision of a slot that exists, as the present transaction leaves it; 0 if it was never complete."""
        return self.state(slot).revision

    def change(self, now: datetime, work: Work, *, record: Record | None = None, reads: bool = False) -> None:
        """Do `work` in a writing transaction.

        Without `record` and `reads`, which need the database, work that changes nothing takes no writing transaction.
        """
        instant = instant_of(now)
        with self._lock:
            self.refresh()
            acts = Acts(self, instant)
            if not reads:
                work(acts)
                if not acts.finish() and record is None:
                    return
            decided = False
            try:
                with self.store.writing(LOG) as transaction:
                    seen = self._cursor
                    self._catch_up(transaction.connection)
                    if reads or self._cursor != seen:
                        acts = Acts(self, instant, transaction.connection)
                        work(acts)
                        acts.finish()
                    newest = self._save(transaction, acts, now)
                    newest = self._change_quality(transaction, acts, now, newest)
                    decided = True
                    if record is not None:
                        record(transaction)
            except BaseException:
                if decided:
                    self._forget()
                raise
            for act in acts.news.values():
                act.install()
            self._cursor = newest
        with self.news:
            self.news.notify_all()

    def fold(self, now: datetime) -> None:
        """Delete what is no longer kept: parts, the states of old slots below an hour, old profiles."""
        clock = instant_of(now)
        with self._lock:
            if not self.store.exists():
                return
            names = [name for name in self.datasets if self.view(name).windows.has_to_fold]
            with self.quality() as quality:
                has_old = bool(quality.old_profiles(clock))
            if not names and not has_old:
                return
            try:
                with self.store.writing(LOG) as transaction:
                    self._catch_up(transaction.connection)
                    folded = [self._fold(transaction, name, max(clock, self.view(name).clock), now) for name in names]
                    self._quality.delete_profiles(transaction.connection, clock)
            except BaseException:
                self._forget()
                raise
            if any(folded):
                self._forget()

    def _fold(self, transaction: Transaction, name: str, clock: int, now: datetime) -> bool:
        """Delete what a dataset no longer keeps. Returns whether states were deleted."""
        key = (self.base, name)
        tables.delete_parts(transaction.connection, key, clock)
        folded, gone = self.view(name).to_fold(clock)
        if folded:
            details = {"base": self.base, "dataset": name, "slots": len(gone)}
            number = transaction.append(FOLDED, max(now, moment_of(clock)), details)
            tables.save_slots(
                transaction.connection, key, [rows.row_of(slot, state) for slot, state in folded.items()], number
            )
            tables.delete_slots(
                transaction.connection, key, [(slot.member, slot.grain.value, slot.start) for slot in gone]
            )
        return bool(folded)

    def _save(self, transaction: Transaction, acts: Acts, now: datetime) -> int:
        """Save the changes and their events. Returns the number of the newest event."""
        events: list[NewEvent] = []
        firsts: dict[str, int] = {}
        saved = {name: act for name, act in acts.acts.items() if act.is_news or name in acts.datasets_of_parts}
        for name, act in saved.items():
            firsts[name] = len(events)
            at = max(now, moment_of(act.clock))
            where = {"base": self.base, "dataset": name}
            found = [NewEvent(kind, at, {**where, **details}) for kind, details in act.notes]
            found += [NewEvent(each.kind, at, rows.details_of(self.base, each)) for each in act.changes]
            events += found or [NewEvent(NOTED, at, where)]
        numbers = transaction.append_many(events)
        connection = transaction.connection
        for name, act in saved.items():
            key, number = (self.base, name), numbers[firsts[name]]
            acts.numbers[name] = number
            row = tables.ClockRow(act.clock, rows.declaration_text(act.windows))
            tables.save_clock(connection, key, row, number)
            tables.save_slots(connection, key, [rows.row_of(*each) for each in act.states.items()], number)
            tables.save_streams(connection, key, [rows.stream_row(*each) for each in act.streams.items()], number)
            tables.save_waivers(connection, key, [rows.waiver_row(each) for each in act.waivers.values()], number)
        for name in acts.datasets_of_parts:
            stored = [part for (dataset, _, _), part in acts.parts.items() if dataset == name]
            tables.save_parts(
                connection, (self.base, name), [rows.part_row(each) for each in stored], acts.numbers[name]
            )
        return numbers[-1] if events else self._cursor

    def _change_quality(self, transaction: Transaction, acts: Acts, now: datetime, newest: int) -> int:
        """Save what follows for quality, and its events. Returns the number of the newest event.

        Memory changes at once: whoever calls this drops it if the transaction fails.
        """
        ended = {name: endings(act, acts.numbers[name]) for name, act in acts.news.items()}
        if not acts.commands and not any(each for pair in ended.values() for each in pair):
            return newest
        facts: list[Fact] = []
        told: list[QualityEvent] = []
        self._deciding = acts.acts
        try:
            quality = self._quality.view(transaction.connection)
            steps: list[Command] = [
                partial(SlotQuality.take_endings, endings=each, at=acts.acts[name].clock)
                for name, pair in ended.items()
                for each in pair
                if each
            ]
            for step in (*steps, *acts.commands):
                change = step(quality)
                facts += change.facts
                told += change.events
        except BaseException:
            self._quality.forget()
            raise
        finally:
            self._deciding = {}
        if not facts:
            return newest
        at = max(now, *(moment_of(act.clock) for act in acts.acts.values()))
        events = [NewEvent(each.kind, at, {"base": self.base, **each.details}) for each in told]
        if not events and not acts.numbers:
            events = [NewEvent(NOTED, at, {"base": self.base, "dataset": next(iter(acts.acts))})]
        newest = [newest, *transaction.append_many(events)][-1]
        self._quality.save(transaction.connection, facts, newest)
        return newest

    def _catch_up(self, connection: Any) -> None:
        """Bring memory to the newest event."""
        if self._cursor < 0:  # what was loaded before the database existed is not current
            self._begin_at(newest_number(connection, LOG))
            return
        before, names = self._cursor, set()
        while True:
            read = read_events(connection, LOG, self._cursor, _AT_ONCE)
            gap = read and read[0].sequence != self._cursor + 1
            if gap or (not read and newest_number(connection, LOG) != self._cursor):
                self._begin_at(newest_number(connection, LOG))
                return
            if read:
                self._cursor = read[-1].sequence
                # Attempts are in this log, too: they concern no dataset.
                ours = [each for each in read if each.details.get("base") == self.base and "dataset" in each.details]
                names |= {each.details["dataset"] for each in ours}
                for name in {each.details["dataset"] for each in ours if each.kind in {FOLDED, RESTORED}}:
                    self._states.pop(name, None)
            if len(read) < _AT_ONCE:
                break
        for name in names & self._states.keys():
            self._load(connection, name, self._states[name], before)
        if names:
            self._quality.follow(connection, before)

    def _loaded(self, connection: Any, name: str, declared: Declared) -> SlotStates:
        """All states of a dataset. They are counted anew if they were stored by another declaration.

        A rule that asks for facts begins with the first day after it was introduced, unless it says `since`.
        """
        row = tables.read_clock(connection, (self.base, name))
        stored = rows.stored_declaration(row.declaration) if row else {}
        states = SlotStates.of(declared, since_of(declared, stored, row.clock if row else NEVER))
        self._load(connection, name, states, -1)
        if row and row.declaration != rows.declaration_text(states.windows):
            states.count_anew()
        return states

    def _load(self, connection: Any, name: str, states: SlotStates, after: int) -> None:
        key = (self.base, name)
        row = tables.read_clock(connection, key)
        streams = dict(rows.stream_of(each) for each in tables.read_streams(connection, key, after))
        waivers = {each.id: rows.waiver_of(each) for each in tables.read_waivers(connection, key, after)}
        dataset = states.windows.dataset
        found = [rows.state_of(name, row) for row in tables.read_slots(connection, key, after)]
        # Members and grains that are no longer declared have no slots.
        slots = [each for each in found if each[0].member in dataset.hierarchy and each[0].grain in dataset.grains]
        states.install(row.clock if row else NEVER, slots, streams, waivers)

    def _forget(self) -> None:
        self._begin_at(-1)

    def _begin_at(self, cursor: int) -> None:
        """Drop memory; what is loaded from now on has the events up to this one."""
        self._states, self._cursor = {}, cursor
        self._quality.forget()
