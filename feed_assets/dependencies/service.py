"""The dependency service of one base: facts in, answers and events out.

Here: transactions, and keeping what is known in memory. Not here: what facts mean (`slot_states`), and SQL (`tables`).

A writing transaction first reads what others wrote, then decides, then writes states and events. Memory changes after
the commit. If the outcome of a commit is unknown, memory is dropped, and loaded again when needed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from feed_assets.datasets.containment import base_set
from feed_assets.datasets.instants import instant_of, moment_of
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.answers import Answer, answer, why_missing
from feed_assets.dependencies.completeness import NEVER
from feed_assets.dependencies.errors import EventsGoneError, RefusedFactError, UnknownDatasetError
from feed_assets.dependencies.facts import Listed, Published
from feed_assets.dependencies.rows import details_of, row_of, state_of
from feed_assets.dependencies.rules import Basis, Declared
from feed_assets.dependencies.slot_states import Act, SlotStates
from feed_assets.dependencies.tables import read_clock, read_slots, save_dataset
from feed_assets.state.event_log import Event, NewEvent, newest_number, read_events
from feed_assets.state.store import Store, Transaction

LOG: Final = "dependencies"
"""The log of events about slots."""
NOTED: Final = "noted"
"""The kind of an event that tells only that facts of a dataset changed."""
LOOK_SECONDS: Final = 0.2
"""How often a waiter looks for events of other processes."""
_AT_ONCE: Final = 1000

Record = Callable[[Transaction], None]


class Dependencies:
    """What is complete, of the datasets of one base. Any thread may use it.

    Slots and facts of other datasets raise UnknownDatasetError; slots that a dataset does not have raise a
    DatasetError. All methods raise StoreError if the database fails. Times are aware datetimes; the time of the store
    never goes back.
    """

    def __init__(self, store: Store, base: str, datasets: Mapping[str, Declared]) -> None:
        """`base` is the URI of the feeds' base: several bases may share the database."""
        self._store = store
        self._base = base
        self._datasets = dict(datasets)
        self._states: dict[str, SlotStates] = {}
        self._cursor = -1
        """The number of the last event that memory has; -1: memory is empty."""
        self._lock = threading.RLock()
        self._news = threading.Condition()

    @property
    def datasets(self) -> Mapping[str, Declared]:
        """The declared datasets by name."""
        return self._datasets

    def published(self, facts: Sequence[Published], *, now: datetime) -> None:
        """Say which updates are in force. Repeated facts change nothing; equal digests are no new revision."""

        def work(acts: Acts) -> None:
            for fact in facts:
                self._take_published(acts, fact)

        self._change(now, work)

    def listed(self, facts: Sequence[Listed], *, now: datetime) -> None:
        """Say what a listing of raw data shows. Repeated facts change nothing.

        New content does not reopen a complete slot: `reopen` does, where the limit for late data is passed.
        """

        def work(acts: Acts) -> None:
            for fact in facts:
                self._take_listed(acts, fact)

        self._change(now, work)

    def reopen(
        self, slots: Iterable[Slot], *, reason: str, now: datetime, equal_to: bool = False, record: Record | None = None
    ) -> None:
        """Raise the revision of slots: of their base sets, as one act. Slots that are not complete keep theirs.

        Slots whose rule holds are complete again at once, at the new revision. With `equal_to`, their content is said
        to be equal to that of the revision before. `record` writes more in the same transaction.
        """
        if not reason.strip():
            raise RefusedFactError("a reopening needs a reason: say why, for those who read it later.")
        named = [*slots]

        def work(acts: Acts) -> None:
            for each in named:
                act = acts.of(each)
                for slot in base_set(act.windows.dataset, each):
                    act.reopen(slot, reason)
                    if equal_to:
                        act.keep_content(slot)

        self._change(now, work, record)

    def tick(self, now: datetime) -> None:
        """Let time pass: slots that end or whose buffer passes become complete."""
        clock = instant_of(now)
        self.refresh()
        due = [name for name in self._datasets if (at := self._view(name).next_check()) is not None and at <= clock]
        if due:
            self._change(now, lambda acts: acts.touch(due))

    def answer(self, slot: Slot) -> Answer:
        """What is known of a slot, from memory. `refresh` brings what other processes wrote."""
        states = self._states.get(slot.dataset) or self._view(slot.dataset)
        if slot not in states.bases and slot not in states.roll_ups:
            states.windows.dataset.check(slot)
        return answer(states, slot)

    def why(self, slot: Slot) -> str:
        """What an incomplete slot waits for, with its numbers; "" for a complete one. From memory."""
        states = self._view(slot.dataset)
        states.windows.dataset.check(slot)
        return why_missing(states, slot)

    def refresh(self) -> None:
        """Take over what other processes have written. One query if there is nothing new."""
        with self._lock:
            if not self._store.exists():
                self._forget()
            else:
                with self._store.reading() as connection:
                    self._catch_up(connection)

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """The first events of this base after a number, in order. Raises EventsGoneError if some are deleted."""
        found: list[Event] = []
        while len(found) < limit:
            read = self._store.events(after, log=LOG, limit=_AT_ONCE)
            if read and read[0].sequence != after + 1:
                with self._store.reading() as connection:
                    newest = newest_number(connection, LOG)
                raise EventsGoneError(
                    f"The events after {after} are deleted: {read[0].sequence} is the first that is kept. Look at the "
                    f"answers, and go on after {newest}.",
                    newest,
                )
            found += [each for each in read if each.details.get("base") == self._base]
            if len(read) < _AT_ONCE:
                break
            after = read[-1].sequence
        return found[:limit]

    def newest(self) -> int:
        """The number of the newest event; 0 before the first."""
        if not self._store.exists():
            return 0
        with self._store.reading() as connection:
            return newest_number(connection, LOG)

    def wait(self, after: int, seconds: float) -> bool:
        """Wait until there is an event after this number, of any base; False if none came in time."""
        deadline = time.monotonic() + seconds
        while not self._store.events(after, log=LOG, limit=1):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            with self._news:
                self._news.wait(min(left, LOOK_SECONDS))
        return True

    def _take_published(self, acts: Acts, fact: Published) -> None:
        act = acts.of_base(fact.slot, Basis.PUBLISHED)
        slot, update, digest = fact
        state = act.base(slot)
        known = state.facts
        if update == known.update:
            if digest and not known.digest:
                act.set_facts(slot, known._replace(digest=digest))
            return
        equal = bool(digest) and digest == known.digest
        act.set_facts(slot, known._replace(update=update, digest=digest if update else known.digest, backfill=""))
        if equal:
            act.keep_content(slot)
        elif state.complete:
            act.reopen(slot, f"update {update} replaced {known.update}" if update else f"{known.update} is invalid")

    def _take_listed(self, acts: Acts, fact: Listed) -> None:
        act = acts.of_base(fact.slot, Basis.ASSUMED)
        slot, records, files, content = fact
        if files < 0 or (records is not None and records < 0):
            raise RefusedFactError(f"{slot}: {records} records in {files} files: neither can be negative.")
        known = act.facts(slot)
        changed = known.changed if content == known.content else act.clock
        act.set_facts(slot, known._replace(records=records, files=files, content=content, changed=changed))

    def _change(self, now: datetime, work: Callable[[Acts], None], record: Record | None = None) -> None:
        """Do `work` in a writing transaction, unless it changes nothing."""
        instant = instant_of(now)
        with self._lock:
            self.refresh()
            acts = Acts(self, instant)
            work(acts)
            if not acts.finish() and record is None:
                return
            decided = False
            try:
                with self._store.writing(LOG) as transaction:
                    seen = self._cursor
                    self._catch_up(transaction.connection)
                    if self._cursor != seen:
                        acts = Acts(self, instant)
                        work(acts)
                        acts.finish()
                    self._save(transaction, acts, now)
                    if record is not None:
                        record(transaction)
                    decided = True
            except BaseException:
                if decided:
                    self._forget()
                raise
            for name, act in acts.news.items():
                self._states[name].install(act.clock, act.states.items())
        with self._news:
            self._news.notify_all()

    def _save(self, transaction: Transaction, acts: Acts, now: datetime) -> None:
        events: list[NewEvent] = []
        firsts: dict[str, int] = {}
        for name, act in acts.news.items():
            firsts[name] = len(events)
            at = max(now, moment_of(act.clock))
            changes = [NewEvent(each.kind, at, details_of(self._base, each)) for each in act.changes]
            events += changes or [NewEvent(NOTED, at, {"base": self._base, "dataset": name})]
        numbers = transaction.append_many(events)
        for name, act in acts.news.items():
            rows = [row_of(slot, state) for slot, state in act.states.items()]
            number = numbers[firsts[name]]
            save_dataset(transaction.connection, self._base, name, clock=act.clock, slots=rows, changed=number)
        if events:
            self._cursor = numbers[-1]

    def _catch_up(self, connection: Any) -> None:
        """Bring memory to the newest event."""
        if self._cursor < 0:  # what was loaded before the database existed is not current
            self._states, self._cursor = {}, newest_number(connection, LOG)
            return
        before, names = self._cursor, set()
        while True:
            read = read_events(connection, LOG, self._cursor, _AT_ONCE)
            gap = read and read[0].sequence != self._cursor + 1
            if gap or (not read and newest_number(connection, LOG) != self._cursor):
                self._forget()
                self._cursor = newest_number(connection, LOG)
                return
            if read:
                self._cursor = read[-1].sequence
                names |= {each.details["dataset"] for each in read if each.details.get("base") == self._base}
            if len(read) < _AT_ONCE:
                break
        for name in names & self._states.keys():
            self._load(connection, name, self._states[name], before)

    def _load(self, connection: Any, name: str, states: SlotStates, after: int) -> None:
        clock = read_clock(connection, self._base, name)
        rows = read_slots(connection, self._base, name, after)
        states.install(NEVER if clock is None else clock, [state_of(name, row) for row in rows])

    def _view(self, name: str) -> SlotStates:
        """The states of a dataset, loaded when first needed."""
        if (declared := self._datasets.get(name)) is None:
            known = ", ".join(sorted(self._datasets)[:10]) or "none"
            raise UnknownDatasetError(f"{name!r} is no declared dataset. Declared are: {known}.")
        with self._lock:
            if (found := self._states.get(name)) is not None:
                return found
            states = SlotStates.of(declared)
            if self._store.exists():
                with self._store.reading() as connection:
                    if self._cursor < 0:
                        self._cursor = newest_number(connection, LOG)
                    self._load(connection, name, states, -1)
            self._states[name] = states
            return states

    def _forget(self) -> None:
        self._states, self._cursor = {}, -1


class Acts:
    """One transaction's changes, for each dataset."""

    def __init__(self, service: Dependencies, now: int) -> None:
        self._service = service
        self._now = now
        self._acts: dict[str, Act] = {}

    def of(self, slot: Slot) -> Act:
        """The changes to the dataset of a slot."""
        return self.named(slot.dataset)

    def named(self, name: str) -> Act:
        """The changes to a dataset."""
        if (found := self._acts.get(name)) is None:
            found = self._acts[name] = Act(self._service._view(name), self._now)  # noqa: SLF001 - part of the service
        return found

    def of_base(self, slot: Slot, basis: Basis) -> Act:
        """The changes to the dataset of a base slot, whose basis must be this one."""
        act = self.of(slot)
        act.windows.dataset.check(slot)
        if not act.windows.is_base(slot):
            raise RefusedFactError(
                f"{slot} is no base slot: {slot.dataset} takes facts about its members by {act.windows.base}."
            )
        if (other := act.windows.rule_of(slot.member).basis) is not basis:
            raise RefusedFactError(f"{slot} has the basis {other}, so it takes no facts of the basis {basis}.")
        return act

    def touch(self, names: Iterable[str]) -> None:
        """Let time pass for these datasets."""
        for name in names:
            self.named(name)

    def finish(self) -> bool:
        """Decide; whether there is anything to store."""
        for act in self._acts.values():
            act.finish()
        return bool(self.news)

    @property
    def news(self) -> Mapping[str, Act]:
        """The changes to datasets that have any."""
        return {name: act for name, act in self._acts.items() if act.is_news}
