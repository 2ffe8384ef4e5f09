"""The dependency service of one base: facts in, answers and events out.

Not here: what facts mean (`act`, `parts`), and keeping states in memory and in the database (`kept_states`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import uuid4

from feed_assets.datasets.containment import base_set
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.instants import DAY_SECONDS, instant_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies import tables
from feed_assets.dependencies.act import Act, reopen_all
from feed_assets.dependencies.answers import Answer, answer, why_missing
from feed_assets.dependencies.completeness import Count
from feed_assets.dependencies.errors import DependencyError, EventsGoneError, RefusedFactError
from feed_assets.dependencies.facts import Ends, Listed, Number, Outcome, Part, Published, Status, Waiver
from feed_assets.dependencies.kept_states import LOG, Acts, Command, KeptStates, Record
from feed_assets.dependencies.numbers import take_ends, take_number
from feed_assets.dependencies.parts import replace_parts, take_part
from feed_assets.dependencies.quality.marks import Author, Backfill, Signature
from feed_assets.dependencies.quality.service import QualityService, computed, profiled
from feed_assets.dependencies.rules import Basis, Declared
from feed_assets.dependencies.updates import take_listed, take_published
from feed_assets.state.event_log import Event, newest_number
from feed_assets.state.store import Store

LOOK_SECONDS: Final = 0.2
"""How often a waiter looks for events of other processes."""
_AT_ONCE: Final = 1000
_NAMED: Final = 10
"""How many parts a refusal names."""


class Dependencies:
    """What is complete, of the datasets of one base. Any thread may use it.

    Slots and facts of other datasets raise UnknownDatasetError; slots that a dataset does not have raise a
    DatasetError. Facts that cannot be true raise RefusedFactError. An error changes nothing. All methods raise
    StoreError if the database fails. Times are aware datetimes; the time of the store never goes back.
    """

    def __init__(self, store: Store, base: str, datasets: Mapping[str, Declared]) -> None:
        """`base` is the URI of the feeds' base: several bases may share the database."""
        self.kept = KeptStates(store, base, datasets)
        self._folded_on = -1
        self.quality: Final = QualityService(self.kept)
        """Marks, checks and backfills of slots."""

    @property
    def datasets(self) -> Mapping[str, Declared]:
        """The declared datasets by name."""
        return self.kept.datasets

    def dataset(self, name: str) -> Dataset:
        """A declared dataset. Raises UnknownDatasetError."""
        return self.kept.view(name).windows.dataset

    def published(self, facts: Sequence[Published], *, now: datetime) -> None:
        """Say which updates are in force. Repeated facts change nothing; equal digests are no new revision.

        What they were computed from is looked up after all of them are taken, so their order does not matter.
        """

        def work(acts: Acts) -> None:
            for fact in facts:
                act = _act_of_base(acts, fact.slot, Basis.PUBLISHED)
                take_published(act, fact)
                if fact.update and fact.read:
                    acts.commands.append(partial(computed, self.kept, fact, act.clock))
                if fact.update and fact.profile is not None:
                    acts.commands.append(partial(profiled, self.kept, fact, fact.profile, act.clock))

        self.kept.change(now, work)

    def listed(self, facts: Sequence[Listed], *, now: datetime) -> None:
        """Say what a listing of raw data shows. Repeated facts change nothing.

        New content does not reopen a complete slot: `reopen` does, where the limit for late data is passed. Counted
        members may be listed instead of reported in parts: `records` is then how many are accounted for.
        """

        def work(acts: Acts) -> None:
            for fact in facts:
                take_listed(_act_of_base(acts, fact.slot, Basis.ASSUMED, Basis.COUNTED), fact)

        self.kept.change(now, work)

    def report(self, parts: Sequence[Part], *, now: datetime) -> list[Outcome]:
        """Count parts. Each is answered on its own; a part that is refused changes nothing."""
        outcomes: list[Outcome] = []

        def work(acts: Acts) -> None:
            acts.load_parts((part.dataset, part.id) for part in parts)
            outcomes[:] = [_answered(lambda part=part: take_part(acts.of(part.dataset), acts, part)) for part in parts]  # type: ignore[misc]

        if parts:
            self.kept.change(now, work, reads=True)
        return outcomes

    def replace(
        self,
        dataset: str,
        member: str,
        old: Sequence[str],
        new: Sequence[Part],
        *,
        now: datetime,
        equal_to: bool = False,
    ) -> None:
        """Retract the parts with these ids and count new ones, in one transaction. A repeated call changes nothing.

        An old part that is not known yet will not count when it comes. With `equal_to`, the content is said to be the
        same: slots that are reopened keep it. Raises RefusedFactError if a part cannot be taken.
        """

        def work(acts: Acts) -> None:
            acts.load_parts((dataset, each) for each in (*old, *(part.id for part in new)))
            replace_parts(acts.of(dataset), acts, member, old, new, equal=equal_to)

        self.kept.change(now, work, reads=True)

    def check_parts(self, dataset: str, member: str, ids: Sequence[str]) -> None:
        """Raise RefusedFactError for an id that no part of the member has. Retracted parts are known while kept."""
        self.dataset(dataset).branch(member)
        known, counting = set[str](), list[str]()
        if self.kept.store.exists():
            with self.kept.store.reading() as connection:
                key = (self.kept.base, dataset)
                known = {each.part for each in tables.read_parts(connection, key, ids) if each.member == member}
                counting = sorted(each.part for each in tables.read_parts_of(connection, key, member))
        if unknown := [each for each in ids if each not in known]:
            of = dataset if member == NO_MEMBER else f"{dataset} {member}"
            more = f" and {len(counting) - _NAMED:,} more" if len(counting) > _NAMED else ""
            there = f"those are {', '.join(counting[:_NAMED])}{more}" if counting else "none is known"
            raise RefusedFactError(f"{', '.join(unknown)} is no part of {of}, so it cannot be replaced: {there}.")

    def expect(self, numbers: Sequence[Number | Ends], *, now: datetime) -> list[Outcome]:
        """Take numbers and end positions of witnesses. Each is answered on its own; a refused one changes nothing."""
        outcomes: list[Outcome] = []

        def work(acts: Acts) -> None:
            outcomes[:] = [_answered(lambda each=each: _take_number(acts, each)) for each in numbers]  # type: ignore[misc]

        self.kept.change(now, work)
        return outcomes

    def reopen(
        self,
        slots: Iterable[Slot],
        *,
        reason: str,
        now: datetime,
        equal_to: bool = False,
        hold: bool = False,
        record: Record | None = None,
        commands: Sequence[Command] = (),
    ) -> None:
        """Raise the revision of slots: of their base sets, as one act. Slots that are not complete keep theirs.

        Slots whose rule holds are complete again at once, at the new revision. With `hold`, a backfill is open: they
        stay incomplete until `release`, or until another update is in force. With `equal_to`, their content is said to
        be equal to that of the revision before. `record` and `commands` on quality are done in the same transaction.
        """
        _check_reason(reason, "a reopening")
        named = [*slots]

        def work(acts: Acts) -> None:
            for dataset in dict.fromkeys(each.dataset for each in named):
                act = acts.of(dataset)
                mine = (each for each in named if each.dataset == dataset)
                bases = (slot for each in mine for slot in base_set(act.windows.dataset, each))
                reopen_all(act, bases, reason, equal=equal_to, hold=hold)
            acts.commands += commands

        self.kept.change(now, work, record=record)

    def release(
        self, slots: Iterable[Slot], *, now: datetime, equal_to: bool = False, commands: Sequence[Command] = ()
    ) -> None:
        """End the backfills of slots: of their base sets. With `equal_to`, the backfill was abandoned, or found equal.

        Slots whose rule holds are complete again.
        """
        named = [*slots]

        def work(acts: Acts) -> None:
            for each in named:
                act = acts.of(each.dataset)
                for slot in _kept_bases(act, each):
                    if act.facts(slot).backfill:
                        act.set_facts(slot, act.facts(slot)._replace(backfill=""))
                        if equal_to:
                            act.keep_content(slot)
            acts.commands += commands

        self.kept.change(now, work)

    def open_backfill(
        self, slots: Sequence[Slot], *, reason: str, author: Author, now: datetime, backfill_id: str = ""
    ) -> Backfill:
        """Reopen slots to make them again; until `close_backfill` they stay incomplete, and no check passes on them.

        Raises RefusedMoveError if one of them overlaps an open backfill, or was never complete; QualityError for an id
        that another backfill has.
        """
        id_ = backfill_id or uuid4().hex[:12]
        opened = Backfill(id_, tuple(slots), Signature(author, instant_of(now), reason))
        self.reopen(slots, reason=reason, now=now, hold=True, commands=[lambda quality: quality.open_backfill(opened)])
        return opened

    def close_backfill(
        self, backfill_id: str, *, reason: str, author: Author, now: datetime, abandoned: bool = False
    ) -> None:
        """End a backfill: its slots are made again, or it is abandoned, so that their content is what it was.

        Raises QualityError for an unknown id, and RefusedMoveError for a backfill that is closed.
        """
        closed = Signature(author, instant_of(now), reason)
        self.refresh()
        self.release(
            self.quality.backfill(backfill_id).slots,
            now=now,
            equal_to=abandoned,
            commands=[lambda quality: quality.close_backfill(backfill_id, closed, abandoned=abandoned)],
        )

    def waive(self, slots: Iterable[Slot], *, reason: str, by: str, now: datetime) -> str:
        """Say that slots need not be complete: their base sets count as complete when they have ended.

        Slots of days at a member waive the member for these days. Every later answer repeats the reason. Returns the id
        for `unwaive`.
        """
        _check_reason(reason, "a waiver")
        waived, id_ = tuple(slots), uuid4().hex[:12]

        def work(acts: Acts) -> None:
            for dataset in dict.fromkeys(each.dataset for each in waived):
                act = acts.of(dataset)
                mine = tuple(each for each in waived if each.dataset == dataset)
                act.waivers[id_] = Waiver(id_, mine, reason, by, act.clock)
                for each in mine:
                    details = {"member": each.member, "slot": str(each), "reason": reason, "by": by, "id": id_}
                    act.notes.append(("waived", details))
                    for slot in _kept_bases(act, each):
                        facts = act.facts(slot)
                        act.set_facts(slot, facts._replace(waivers=tuple(sorted({*facts.waivers, id_}))))

        self.kept.change(now, work)
        return id_

    def unwaive(self, id_: str, *, reason: str, by: str, now: datetime) -> None:
        """Take a waiver back: slots whose rule does not hold are reopened. Raises RefusedFactError if it is unknown.

        Taken back again, it changes nothing.
        """
        _check_reason(reason, "an unwaiving")

        def work(acts: Acts) -> None:
            found = [name for name in self.datasets if id_ in self.kept.view(name).waivers]
            if not found:
                raise RefusedFactError(
                    f"There is no waiver {id_}: answers about waived slots name the ids of their waivers."
                )
            for name in found:
                act = acts.of(name)
                waiver = act.known.waivers[id_]
                if waiver.over:
                    continue
                act.waivers[id_] = waiver._replace(over=True)
                for each in waiver.slots:
                    details = {"member": each.member, "slot": str(each), "reason": reason, "by": by, "id": id_}
                    act.notes.append(("unwaived", details))
                    for slot in _kept_bases(act, each):
                        facts = act.facts(slot)
                        left = tuple(one for one in facts.waivers if one != id_)
                        act.set_facts(slot, facts._replace(waivers=left))

        self.kept.change(now, work)

    def transact(self, work: Record, *, now: datetime) -> None:
        """Do other work in a transaction of this log. No slot changes meanwhile, and answers are the newest.

        Events that `work` appends belong to this base if their details have its URI as `base`.
        """
        self.kept.change(now, lambda _: None, record=work, reads=True)

    def tick(self, now: datetime) -> None:
        """Let time pass: slots that end or whose buffer passes become complete. Once a day, old states are folded."""
        clock = instant_of(now)
        self.kept.refresh()
        if due := [name for name in self.datasets if self.kept.view(name).is_due(clock)]:
            self.kept.change(now, lambda acts: acts.touch(due))
        if clock // DAY_SECONDS != self._folded_on:
            self.kept.fold(now)
            self._folded_on = clock // DAY_SECONDS

    def answer(self, slot: Slot) -> Answer:
        """What is known of a slot, from memory. `refresh` brings what other processes wrote."""
        return answer(self.kept.view(slot.dataset), slot)

    def update_of(self, slot: Slot) -> str | None:
        """The update of a feed's slot that is known to be in force. From memory."""
        return self.kept.view(slot.dataset).base(slot).facts.update

    def takes(self, slot: Slot, basis: Basis) -> bool:
        """Whether facts of a basis can be told about a slot now: a base slot with this basis. From memory.

        Not before the first day, not before the rule was introduced, and not when only its hour is kept.
        """
        states = self.kept.view(slot.dataset)
        try:
            states.windows.dataset.check(slot)
        except DatasetError:
            return False
        is_kept = states.windows.is_base(slot) and not states.is_folded(slot)
        return is_kept and states.windows.rule_of(slot).basis is basis

    def number_of(self, slot: Slot, witness: str) -> Count | None:
        """What a witness last said of a base slot; None if it said nothing. From memory."""
        return dict(self.kept.view(slot.dataset).base(slot).facts.numbers).get(witness)

    def has_ends(self, slot: Slot) -> bool:
        """Whether the end positions of a base slot are known. From memory."""
        return bool(self.kept.view(slot.dataset).base(slot).facts.ends)

    def why(self, slot: Slot) -> str:
        """What an incomplete slot waits for, with its numbers; "" for a complete one. From memory."""
        states = self.kept.view(slot.dataset)
        states.windows.dataset.check(slot)
        return why_missing(states, slot)

    def refresh(self) -> None:
        """Take over what other processes have written. One query if there is nothing new."""
        self.kept.refresh()

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """The first events of this base after a number, in order. Raises EventsGoneError if some are gone."""
        store, found = self.kept.store, list[Event]()
        while len(found) < limit:
            read = store.events(after, log=LOG, limit=_AT_ONCE)
            if (read and read[0].sequence != after + 1) or (not read and after > self.newest()):
                raise EventsGoneError(
                    f"The event after {after} is not in the log: it was deleted, or the database was lost. Look at the "
                    f"answers, and go on after {self.newest()}.",
                    self.newest(),
                )
            found += [each for each in read if each.details.get("base") == self.kept.base]
            if len(read) < _AT_ONCE:
                break
            after = read[-1].sequence
        return found[:limit]

    def newest(self) -> int:
        """The number of the newest event; 0 before the first."""
        if not self.kept.store.exists():
            return 0
        with self.kept.store.reading() as connection:
            return newest_number(connection, LOG)

    def wait(self, after: int, seconds: float) -> bool:
        """Wait until there is an event after this number, of any base; False if none came in time."""
        deadline = time.monotonic() + seconds
        while not self.kept.store.events(after, log=LOG, limit=1):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            with self.kept.news:
                self.kept.news.wait(min(left, LOOK_SECONDS))
        return True


def _act_of_base(acts: Acts, slot: Slot, *bases: Basis) -> Act:
    """The changes to the dataset of a base slot, whose basis must be one of these. Raises RefusedFactError."""
    act = acts.of(slot.dataset)
    act.windows.dataset.check(slot)
    if not act.windows.is_base(slot):
        raise RefusedFactError(
            f"{slot} is no base slot: {slot.dataset} takes facts about its members by {act.windows.base}."
        )
    if act.is_folded(slot):
        raise RefusedFactError(
            f"{slot} is old, and its facts are no longer kept one by one. Open a backfill of "
            f"{act.windows.fold_slot(slot)} first."
        )
    if (other := act.windows.rule_of(slot).basis) not in bases:
        raise RefusedFactError(f"{slot} has the basis {other}, so it takes no facts of the basis {bases[0]}.")
    return act


def _kept_bases(act: Act, slot: Slot) -> Iterable[Slot]:
    """The base slots of a slot, without those whose states are no longer kept: these are complete."""
    return (each for each in base_set(act.windows.dataset, slot) if not act.is_folded(each))


def _take_number(acts: Acts, number: Number | Ends) -> Outcome:
    basis = Basis.COUNTED if isinstance(number, Number) else Basis.COVERED
    act = _act_of_base(acts, number.slot, basis)
    if isinstance(number, Ends):
        return Outcome(Status.ACCEPTED if take_ends(act, number) else Status.KNOWN)
    if take_number(act, number):
        return Outcome(Status.ACCEPTED)
    known = dict(act.facts(number.slot).numbers)[number.witness]
    if known == (number.records, number.final, number.version):
        return Outcome(Status.KNOWN)
    kind = "final" if known.final else "not final"
    return Outcome(
        Status.KNOWN,
        f"{number.witness} has said {known.records} ({kind}) with the version {known.version}. To replace that, report "
        f"the number with a higher version.",
    )


def _answered(take: Callable[[], Outcome]) -> Outcome:
    try:
        return take()
    except (DependencyError, DatasetError) as error:
        return Outcome(Status.REFUSED, str(error))


def _check_reason(reason: str, what: str) -> None:
    if not reason.strip():
        raise RefusedFactError(f"{what} needs a reason: say why, for those who read it later.")
