"""The quality of slots: commands on it, what runs and reopenings say, and answers.

Here: one object in memory. Each command checks everything, then changes the object, and returns the facts to store and
the events to tell. Not here: the values (`marks`), states (`states`), storing (`rows` has the rows) and
when a revision ends (`slot_states`). One thread at a time may use the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from feed_assets.datasets.containment import ancestors
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.instants import DAY_SECONDS
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.checks_passed import ChecksPassed
from feed_assets.dependencies.quality.events import (
    Carriers,
    Change,
    Kind,
    QualityEvent,
    backfill_events,
    mark_events,
    pass_events,
    unusual_event,
)
from feed_assets.dependencies.quality.lineage import Consumption, Lineage
from feed_assets.dependencies.quality.marks import (
    Author,
    AuthorKind,
    Backfill,
    CheckResult,
    Computation,
    Ended,
    Fact,
    Mark,
    QualityError,
    QualityState,
    RefusedMoveError,
    Signature,
    SlotProfile,
    SlotRange,
    SlotRevision,
)
from feed_assets.dependencies.quality.moves import MOVES, Command
from feed_assets.dependencies.quality.overlaps import SlotIndex
from feed_assets.dependencies.quality.revision_history import RevisionHistory, Revisions, ended_ranges
from feed_assets.dependencies.quality.slot_profiles import SlotProfiles
from feed_assets.dependencies.quality.states import MarkPath, Quality, QualityStates

ANY_CHECKS: Final[Mapping[str, frozenset[str]]] = {}
_PROFILES_KEPT: Final = 70 * DAY_SECONDS
_LONG_KEPT: Final = 3 * 366 * DAY_SECONDS
_SHOWN: Final = 3
"""How many marks a message names."""


class SlotQuality:
    """Marks, results of checks, computations and backfills of all datasets; states follow from these alone.

    `revisions` tells present revisions. `required` has the names of the checks of datasets; a dataset without names
    passes if it has a result and no failure. `audited` datasets pass without a result: they publish only what passed.
    Memory grows with the facts; profiles are dropped when they are old.
    """

    def __init__(
        self,
        datasets: Mapping[str, Dataset],
        revisions: Revisions,
        required: Mapping[str, frozenset[str]] = ANY_CHECKS,
        audited: frozenset[str] = frozenset(),
    ) -> None:
        self._datasets = datasets
        self._revisions = revisions
        self._required = required
        self._audited = audited
        self._clear()

    def _clear(self) -> None:
        self._history = RevisionHistory(self._revisions)
        self._lineage = Lineage(self._datasets, self._history)
        self._checks = ChecksPassed(self._datasets, self._history, self._required, self._audited)
        self._states = QualityStates(self._history, self._lineage, self._checks)
        self._profiles = SlotProfiles(self._datasets, self._history)
        self._marks: dict[str, Mark] = {}
        self._endings: dict[Ended, None] = {}
        self._backfills: dict[str, Backfill] = {}
        self._open: dict[Slot, str] = {}
        self._open_slots = SlotIndex(self._datasets)

    def load(self, facts: Iterable[Fact]) -> None:
        """Replace everything by stored facts, in any order. Facts about slots that are not declared are left out."""
        self._clear()
        self.take(facts)

    def take(self, facts: Iterable[Fact]) -> None:
        """Take stored facts that another process has added or replaced, in any order, as `load` does."""
        for fact in facts:
            if (declared := self._declared(fact)) is not None:
                self._keep(declared)
        for mark in self._marks.values():
            if mark.removal is None:
                self._lineage.spread(mark.id, mark.on)
            else:
                self._lineage.withdraw(mark.id)

    def facts(self) -> Iterator[Fact]:
        """All facts that are known, with removed marks and closed backfills."""
        yield from self._endings
        yield from self._lineage.computations.values()
        yield from self._checks
        yield from self._profiles
        yield from self._backfills.values()
        yield from self._marks.values()

    # Commands

    def mark(self, mark: Mark) -> Change:
        """Say that a revision of a slot is bad. The same mark again changes nothing.

        A check that marks a revision no longer passes on it. Raises QualityError for an id that another mark has, a
        revision that does not exist, or a text that is missing; DatasetError for a slot that does not exist.
        """
        _require(mark.id, "The mark needs an id")
        _require_signature(mark.signature, "mark")
        self._require_revision(mark.on)
        if (known := self._marks.get(mark.id)) is not None:
            if (known.on, known.author, known.reason) == (mark.on, mark.author, mark.reason):
                return Change()
            raise QualityError(f"The mark {mark.id} exists with other content, on {known.on}. Use a new id.")
        if mark.removal is not None:
            raise QualityError(f"The mark {mark.id} has a removal already. Set it first, then remove it.")
        self._require_move(Command.MARK, mark.on)
        self._keep(mark)
        self._lineage.spread(mark.id, mark.on)
        facts: tuple[Fact, ...] = (mark,)
        if mark.author.kind is AuthorKind.CHECK:
            failure = CheckResult(mark.on, mark.author.name, passed=False, at=mark.signature.at)
            self._keep(failure)
            facts = mark, failure
        return Change(facts, tuple(self._mark_events({}, self._carriers([mark.id]), mark.signature)))

    def unmark(self, mark_id: str, removal: Signature) -> Change:
        """Remove a mark. A check removes its own marks; people remove the marks of people.

        Raises QualityError for an unknown mark or somebody else's; RefusedMoveError if it is removed already.
        """
        _require_signature(removal, "removal")
        mark = self.known_mark(mark_id)
        if mark.removal is not None:
            if mark.removal == removal:
                return Change()
            raise RefusedMoveError(
                f"The mark {mark_id} on {mark.on} is removed already, by {mark.removal.author}: {mark.removal.reason}. "
                f"{self._present(mark.on)}"
            )
        _require_owner(mark, removal.author)
        self._require_move(Command.UNMARK, mark.on)
        return self._remove([mark], removal)

    def checked(self, result: CheckResult) -> Change:
        """Take the result of a check. If it passes, the check's own marks on this revision go. The rest stays.

        A failure is no mark: a check that fails marks the slot as well. Raises QualityError as `mark`, and
        RefusedMoveError if it passes on the present revision while a backfill of it is open: its data may still change.
        """
        _require(result.check, "The result needs the name of its check")
        self._require_revision(result.on)
        known = self._checks.result(result)
        own = self._own_marks(result) if result.passed else []
        if known is not None and known.passed == result.passed and not own:
            return Change()
        if result.passed:
            self._require_move(Command.CHECK, result.on)
        passed_before = self._passing(result.on)
        self._keep(result)
        author = Author.check(result.check)
        removed = self._remove(own, Signature(author, result.at, "the check passes"))
        passed = [slot for slot in self._passing(result.on) if slot not in passed_before]
        return Change((result, *removed.facts), (*removed.events, *pass_events(passed, result)))

    def open_backfill(self, backfill: Backfill) -> Change:
        """Open a backfill. The caller then reopens its slots, and says so by `reopened`.

        Raises RefusedMoveError if one of the slots overlaps an open backfill, or was never complete. Raises
        QualityError for an id of another backfill or a text that is missing; DatasetError for a slot that does not
        exist.
        """
        _require(backfill.id, "The backfill needs an id")
        _require_signature(backfill.opened, "backfill")
        if not backfill.slots:
            raise QualityError(f"The backfill {backfill.id} has no slots. Name at least one.")
        for slot in backfill.slots:
            self._dataset(slot).check(slot)
        if (known := self._backfills.get(backfill.id)) is not None:
            if (known.slots, known.opened) == (backfill.slots, backfill.opened):
                return Change()
            raise QualityError(f"The backfill {backfill.id} exists with other content. Use a new id.")
        if backfill.closed is not None:
            raise QualityError(f"The backfill {backfill.id} is closed already. Open it first, then close it.")
        for slot in backfill.slots:
            if not self._revisions.revision_of(slot):
                raise RefusedMoveError(f"{slot} was never complete, so there is nothing to backfill.")
            self._require_move(Command.OPEN_BACKFILL, SlotRevision(slot, self._history.current(slot)))
        self._keep(backfill)
        return Change((backfill,), tuple(backfill_events(Kind.BACKFILL_OPENED, backfill, backfill.opened)))

    def close_backfill(self, backfill_id: str, closed: Signature, *, abandoned: bool = False) -> Change:
        """Close a backfill: its slots are complete again, or it is abandoned. Then the caller says so by `reinstated`.

        Raises QualityError for an unknown id, and RefusedMoveError if the backfill is closed already.
        """
        _require_signature(closed, "end of the backfill")
        known = self.known_backfill(backfill_id)
        done = replace(known, closed=closed, abandoned=abandoned)
        if known == done:
            return Change()
        for slot in known.slots:
            on = SlotRevision(slot, self._history.current(slot))
            if known.closed is not None:
                raise RefusedMoveError(
                    f"The backfill {backfill_id} is closed already, by {known.closed.author}. {self._present(on)}"
                )
            self._require_move(Command.CLOSE_BACKFILL, on)
        self._keep(done)
        return Change((done,), tuple(backfill_events(Kind.BACKFILL_CLOSED, done, closed)))

    # What runs and reopenings say

    def computed(self, computation: Computation) -> Change:
        """Take what a revision of a slot was computed from. Raises as `mark` for slots and revisions."""
        for each in (computation.output, *computation.inputs):
            self._require_revision(each)
        known = self._lineage.computations.get(computation.output)
        if known is not None and known.inputs == computation.inputs:
            return Change()
        carried = self._lineage.carried_by(computation.output)
        marks = carried.union(*(self._lineage.marks_of(*read) for read in computation.inputs))
        before = self._carriers(marks)
        self._keep(computation)
        if carried:
            self._spread(marks)
        else:
            self._lineage.extend(computation)
        events = self._mark_events(before, self._carriers(marks), computation.at, cause="computed")
        return Change((computation,), tuple(events))

    def profiled(self, profile: SlotProfile) -> Change:
        """Take the profile of a revision, and compare it with those of recent weeks. Raises as `mark` for revisions."""
        self._require_revision(profile.on)
        known = self._profiles.of(profile.on)
        if known is not None and known.profile == profile.profile:
            return Change()
        judged = self._profiles.judged(profile, self._states)
        self._keep(judged)
        return Change((judged,), (unusual_event(judged),) if judged.unusual else ())

    def reopened(self, ended: Iterable[SlotRevision], sequence: int, *, at: int) -> Change:
        """One act of reopening ended these revisions: of base slots, and of all roll-ups whose revision rose.

        Call this after the revisions have risen. `sequence` is higher than that of each act before; the number of the
        act's event does. Marks stay on the revisions that have ended. The events name what is no longer bad.
        """
        return self.take_endings(ended_ranges(ended, sequence), at=at)

    def reinstated(self, ended: Iterable[SlotRevision], sequence: int, *, at: int) -> Change:
        """The revisions right after these have the same content: a backfill was abandoned, or made equal data.

        So the marks, computations and results of the ended revisions count for the present ones. `sequence` is not
        lower than that of the reopening.
        """
        return self.take_endings(ended_ranges(ended, sequence, equal=True), at=at)

    def take_endings(self, endings: Sequence[Ended], *, at: int) -> Change:
        """As `reopened` or `reinstated`, by ranges. All of one act, either reopened or of equal content."""
        fresh = [each for each in endings if each not in self._endings]
        touched = {mark for each in fresh for mark in self._lineage.near(each.slots)}
        before = self._carriers(touched, fresh)
        for each in fresh:
            self._keep(each)
        self._spread(touched)
        cause = "reinstated" if any(each.equal for each in fresh) else "reopened"
        events = self._mark_events(before, self._carriers(touched), at, cause=cause)
        return Change(tuple(fresh), tuple(events))

    def old_profiles(self, clock: int) -> tuple[SlotProfile, ...]:
        """The profiles with which no later slot is compared at this time."""
        return tuple(each for each in self._profiles if self._end(each.on.slot) + _kept(each.on.slot) < clock)

    def forget_profiles(self, clock: int) -> tuple[SlotProfile, ...]:
        """Drop the old profiles, and return them. All other facts stay: answers about old slots follow from them."""
        gone = self.old_profiles(clock)
        for profile in gone:
            self._profiles.discard(profile)
        return gone

    # Answers

    def state(self, slot: Slot, revision: int | None = None) -> QualityState:
        """The state of a revision of a slot that exists, by default of the present one."""
        known = self._history.current(slot) if revision is None else self._history.same(slot, revision)
        return self._states.state(slot, known)

    def answer(self, slot: Slot) -> Quality:
        """The quality of a slot. Raises QualityError for an unknown dataset, DatasetError for a slot that is not."""
        self._dataset(slot).check(slot)
        current = self._history.current(slot)
        return Quality(
            slot,
            self._revisions.revision_of(slot),
            self._states.state(slot, current),
            self._sorted(self._lineage.marks_of(slot, current)),
            self._sorted(self._states.left_behind(slot, current)),
            self._open_backfill_of(slot),
        )

    def effective(self, on: SlotRevision) -> tuple[Mark, ...]:
        """The effective marks of any revision of a slot, oldest first."""
        return self._sorted(self._lineage.marks_of(*on))

    def why_bad(self, slot: Slot) -> list[MarkPath]:
        """For each effective mark of a slot, how it came there; oldest mark first."""
        carriers: dict[str, SlotRevision] = {}
        for mark_id, carrier in self._lineage.marks_with_carriers(slot, self._history.current(slot)):
            if mark_id not in carriers or self._lineage.reach(mark_id)[carrier] is None:
                carriers[mark_id] = carrier
        paths = []
        for mark in self._sorted(carriers):
            path = self._lineage.path(mark.id, carriers[mark.id])
            outdated = (each for each in path if self._history.same(*each) != self._history.current(each.slot))
            paths.append(MarkPath(mark, tuple(path), tuple(outdated)))
        return paths

    def consumers(self, slot: Slot, revision: int | None = None) -> list[Consumption]:
        """Who consumed a slot, or one that overlaps it; in this revision, or in any."""
        self._dataset(slot).check(slot)
        return sorted(self._lineage.consumers(slot, revision))

    def inputs(self, output: SlotRevision) -> tuple[SlotRevision, ...]:
        """What a revision was computed from; empty if that is not known."""
        found = self._lineage.computations.get(output)
        return found.inputs if found else ()

    def profile(self, slot: Slot) -> SlotProfile | None:
        """The profile of the present revision of a slot; None if nobody made one."""
        return self._profiles.present(slot)

    def to_check(self, checks: Mapping[str, frozenset[str]]) -> list[tuple[SlotProfile, frozenset[str]]]:
        """The present revisions that need a deeper look, and which of the `checks` of their datasets.

        Those with an unusual profile, and those of slots that one of the checks has marked in an earlier revision; each
        until the check has a result on the revision.
        """
        found = {each.on.slot: each for each in self._profiles.unusual()}
        wanted = {slot: checks.get(slot.dataset, frozenset()) for slot in found}
        for mark in self._marks.values():
            slot, author = mark.on.slot, mark.author
            if author.kind is AuthorKind.CHECK and author.name in checks.get(slot.dataset, ()):
                profile = self._profiles.present(slot)
                if profile is not None and self._history.same(*mark.on) < self._history.current(slot):
                    found[slot] = profile
                    wanted[slot] = wanted.get(slot, frozenset()) | {author.name}
        pending = [
            (found[slot], frozenset(name for name in names if not self._checks.has_result(slot, name)))
            for slot, names in sorted(wanted.items())
        ]
        return [each for each in pending if each[1]]

    def carriers(self) -> list[Slot]:
        """The slots that carry a mark in some revision. What overlaps them is bad, too."""
        marks = (mark.id for mark in self._marks.values() if mark.removal is None)
        return sorted({slot for mark in marks for slot, _ in self._lineage.reach(mark)})

    def was_read(self, output: Slot, inputs: Iterable[Slot]) -> bool:
        """Whether the present revision of a slot was computed from the present content of exactly these inputs."""
        found = self._computation(output)
        read = {each.slot: self._history.same(*each) for each in found.inputs} if found else None
        return read == {each: self._history.current(each) for each in inputs}

    def outdated(self, output: Slot) -> list[Slot]:
        """The inputs of the present revision of a slot whose content has been reopened since they were read."""
        found = self._computation(output)
        read = found.inputs if found else ()
        return sorted(each.slot for each in read if self._history.same(*each) != self._history.current(each.slot))

    def run_of(self, output: Slot) -> str:
        """The run that computed the present revision of a slot; "" if it is unknown."""
        found = self._computation(output)
        return found.run if found else ""

    def _computation(self, output: Slot) -> Computation | None:
        """The newest computation of the present content of a slot."""
        newest = self._revisions.revision_of(output) or 1
        for revision in range(newest, self._history.current(output) - 1, -1):
            if (found := self._lineage.computations.get(SlotRevision(output, revision))) is not None:
                return found
        return None

    def known_mark(self, mark_id: str) -> Mark:
        """A mark by its id, also if it is removed. Raises QualityError for an unknown id."""
        if (found := self._marks.get(mark_id)) is None:
            raise QualityError(f"No mark has the id {mark_id}. List the marks of the slot first.")
        return found

    def marks(self, *, removed: bool = False) -> tuple[Mark, ...]:
        """The marks of all datasets, oldest first; those that were removed only if asked for."""
        return self._sorted(id_ for id_, mark in self._marks.items() if removed or mark.removal is None)

    def known_backfill(self, backfill_id: str) -> Backfill:
        """A backfill by its id, also if it is closed. Raises QualityError for an unknown id."""
        if (found := self._backfills.get(backfill_id)) is None:
            raise QualityError(f"No backfill has the id {backfill_id}. List the open backfills first.")
        return found

    def backfills(self) -> list[Backfill]:
        """All backfills, oldest first."""
        return sorted(self._backfills.values(), key=lambda each: (each.opened.at, each.id))

    def open_backfills(self) -> list[Backfill]:
        """The backfills that are open, oldest first."""
        return [each for each in self.backfills() if each.closed is None]

    # Facts in memory

    def _declared(self, fact: Fact) -> Fact | None:
        """A stored fact, without inputs that are not declared any more; None if the rest is not, either."""
        match fact:
            case Ended(slots):
                dataset = self._datasets.get(slots.dataset)
                exists = dataset is not None and slots.member in dataset.hierarchy and slots.grain in dataset.grains
                return fact if exists else None
            case Computation(output, inputs):
                if not self._has(output.slot):
                    return None
                return replace(fact, inputs=tuple(each for each in inputs if self._has(each.slot)))
            case _:
                return fact if all(map(self._has, _slots(fact))) else None

    def _has(self, slot: Slot) -> bool:
        try:
            self._dataset(slot).check(slot)
        except (QualityError, DatasetError):
            return False
        return True

    def _keep(self, fact: Fact) -> None:
        match fact:
            case Ended():
                self._endings[fact] = None
                self._history.add(fact)
            case Computation():
                self._lineage.computed(fact)
            case CheckResult():
                self._checks.add(fact)
            case SlotProfile():
                self._profiles.add(fact)
            case Mark():
                self._marks[fact.id] = fact
            case Backfill():
                self._backfills[fact.id] = fact
                for slot in fact.slots:
                    if fact.closed is None:
                        self._open[slot] = fact.id
                        self._open_slots.add(slot)
                    elif self._open.get(slot) == fact.id:
                        del self._open[slot]
                        self._open_slots.discard(slot)

    def _remove(self, marks: Sequence[Mark], removal: Signature) -> Change:
        before = self._carriers([mark.id for mark in marks])
        gone = tuple(replace(mark, removal=removal) for mark in marks)
        for mark in gone:
            self._keep(mark)
            self._lineage.withdraw(mark.id)
        return Change(gone, tuple(self._mark_events(before, {}, removal)))

    def _spread(self, marks: Iterable[str]) -> None:
        for mark in marks:
            self._lineage.spread(mark, self._marks[mark].on)

    def _carriers(self, marks: Iterable[str], ending: Sequence[Ended] = ()) -> dict[str, Carriers]:
        """For each mark the slots that carry it in their present revision, as it is before these are `ending`."""
        by_place: dict[object, list[Ended]] = {}
        for each in ending:
            by_place.setdefault(each.slots[:3], []).append(each)

        def present(slot: Slot) -> int:
            for each in by_place.get(slot[:3], ()):
                if each.slots.first <= slot.start <= each.slots.last:
                    return self._history.same(slot, each.revision + 1 if each.equal else each.revision)
            return self._history.current(slot)

        found: dict[str, Carriers] = {}
        for mark in marks:
            slots: dict[str, set[Slot]] = {}
            for slot, revision in self._lineage.reach(mark):
                if self._history.same(slot, revision) == present(slot):
                    slots.setdefault(slot.dataset, set()).add(slot)
            found[mark] = slots
        return found

    def _mark_events(
        self,
        before: Mapping[str, Carriers],
        after: Mapping[str, Carriers],
        by: Signature | int,
        *,
        cause: str = "",
    ) -> Iterator[QualityEvent]:
        """The events of marks. `by` is who set or removed them; a time alone if facts about slots did."""
        for mark_id in sorted(before.keys() | after.keys()):
            mark = self._marks[mark_id]
            signature = mark.signature._replace(at=by) if isinstance(by, int) else by
            had, has = before.get(mark_id, {}), after.get(mark_id, {})
            yield from mark_events(self._datasets, mark, had, has, signature, cause=cause)

    def _own_marks(self, result: CheckResult) -> list[Mark]:
        """The marks that a check has set on a revision."""
        author = Author.check(result.check)
        carried = self._sorted(self._lineage.carried_by(result.on))
        return [mark for mark in carried if (mark.author, mark.on) == (author, result.on)]

    def _passing(self, on: SlotRevision) -> list[Slot]:
        """The slots that pass now, of a slot and those that contain it; none for a revision that has ended."""
        slot = on.slot
        if self._history.same(*on) != self._history.current(slot):
            return []
        around = [slot, *ancestors(self._datasets[slot.dataset], slot)]
        return [each for each in around if self._checks.passed(each, self._history.current(each))]

    def _open_backfill_of(self, slot: Slot) -> Backfill | None:
        """The oldest open backfill of a slot, or of some of what it contains."""
        found = [self._backfills[self._open[each]] for each in self._open_slots.overlapping(slot)]
        return min(found, key=lambda each: (each.opened.at, each.id), default=None)

    def _sorted(self, marks: Iterable[str]) -> tuple[Mark, ...]:
        return tuple(sorted((self._marks[each] for each in marks), key=lambda mark: (mark.signature.at, mark.id)))

    def _end(self, slot: Slot) -> int:
        return self._datasets[slot.dataset].window(slot)[1]

    # What a command must have

    def _dataset(self, slot: Slot) -> Dataset:
        found = self._datasets.get(slot.dataset)
        if found is None:
            raise QualityError(f"No dataset has the name {slot.dataset}. Declared are: {', '.join(self._datasets)}.")
        return found

    def _require_revision(self, on: SlotRevision) -> None:
        self._dataset(on.slot).check(on.slot)
        present = self._revisions.revision_of(on.slot) or 1
        if not 1 <= on.revision <= present:
            raise QualityError(f"{on} does not exist: the slot is at revision {present}.")

    def _require_move(self, command: Command, on: SlotRevision) -> None:
        """Raise RefusedMoveError if a command is not allowed in the state of a revision."""
        move = MOVES[command]
        slot, revision = on.slot, self._history.same(*on)
        is_open = revision == self._history.current(slot) and self._open_backfill_of(slot) is not None
        wrong_time = move.backfill_open is not None and move.backfill_open != is_open
        if wrong_time or self._states.state(slot, revision) not in move.states:
            raise RefusedMoveError(f"Cannot {command} {slot}: {self._present(on)}")

    def _present(self, on: SlotRevision) -> str:
        """A sentence about the state of a revision."""
        marks = self.effective(on)
        why = ", ".join(f"{mark.reason} ({mark.author}, mark {mark.id})" for mark in marks[:_SHOWN])
        more = f" and {len(marks) - _SHOWN} more" if len(marks) > _SHOWN else ""
        text = f"{on} is {self._states.state(on.slot, self._history.same(*on))}"
        backfill = self._open_backfill_of(on.slot)
        is_open = f"; the backfill {backfill.id} is open" if backfill else ""
        return f"{text}{f': {why}{more}' if why else ''}{is_open}."


def _kept(slot: Slot) -> int:
    """How long a profile is kept, in seconds: longer than later slots are compared with it."""
    return _LONG_KEPT if slot.grain in {Grain.WEEK, Grain.MONTH, Grain.QUARTER, Grain.WHOLE} else _PROFILES_KEPT


def _require(text: str, message: str) -> None:
    if not text.strip():
        raise QualityError(f"{message}.")


def _require_signature(signature: Signature, what: str) -> None:
    _require(signature.reason, f"The {what} needs a reason")
    _require(signature.author.name, f"The {what} needs the name of who does it")


def _require_owner(mark: Mark, remover: Author) -> None:
    if mark.author.kind is AuthorKind.CHECK and mark.author != remover:
        raise QualityError(
            f"The mark {mark.id} is of the {mark.author}; the {remover} cannot remove it. It goes when the check "
            f"passes on {mark.on}. If the check is wrong, change the check and run it again."
        )
    if mark.author.kind is AuthorKind.PERSON and remover.kind is AuthorKind.CHECK:
        raise QualityError(f"The mark {mark.id} is of the {mark.author}; the {remover} cannot remove it. People can.")


def _slots(fact: Fact) -> list[Slot]:
    """The slots that a fact is about."""
    match fact:
        case Mark() | CheckResult() | SlotProfile():
            return [fact.on.slot]
        case Computation():
            return [fact.output.slot, *(read.slot for read in fact.inputs)]
        case Backfill():
            return [*fact.slots]
        case Ended():
            return [*_range_slots(fact.slots)]


def _range_slots(slots: SlotRange) -> Iterator[Slot]:
    """The slots of a range without gaps."""
    start = slots.first
    while start <= slots.last:
        yield Slot(slots.dataset, slots.member, slots.grain, start)
        start = moved(slots.grain, start, 1)
