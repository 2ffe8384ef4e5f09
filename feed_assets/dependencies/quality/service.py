"""Marks, results of checks and backfills of slots: commands, and answers.

Here: the face of a `Dependencies` for quality, and what updates were computed from. Not here: what commands mean
(`quality`), and how their outcome is kept (`kept_states`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from uuid import uuid4

from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.instants import instant_of
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.facts import Published, Read
from feed_assets.dependencies.kept_states import Acts, KeptStates
from feed_assets.dependencies.quality.events import Change
from feed_assets.dependencies.quality.lineage import Consumption
from feed_assets.dependencies.quality.marks import (
    Author,
    Backfill,
    CheckResult,
    Computation,
    Mark,
    Profile,
    QualityState,
    RefusedMoveError,
    Signature,
    SlotProfile,
    SlotRevision,
)
from feed_assets.dependencies.quality.slot_quality import SlotQuality
from feed_assets.dependencies.quality.states import MarkPath, Quality
from feed_assets.dependencies.slot_states import BaseState


class QualityService:
    """The quality of the slots of one base. Any thread may use it.

    Commands raise QualityError, RefusedMoveError if the present state forbids them, UnknownDatasetError, and
    DatasetError for slots that do not exist; then nothing was changed. All methods raise StoreError. Answers come from
    memory; `Dependencies.refresh` brings what other processes wrote.
    """

    def __init__(self, kept: KeptStates) -> None:
        self._kept = kept

    def mark(
        self,
        slot: Slot,
        *,
        reason: str,
        author: Author,
        now: datetime,
        evidence: str = "",
        revision: int | None = None,
        mark_id: str = "",
    ) -> Mark:
        """Say that a revision of a slot is bad, by default the present one. The same id again changes nothing.

        Raises RefusedMoveError if the slot has not begun: there is no data that could be bad.
        """
        signature, id_ = Signature(author, instant_of(now), reason), mark_id or uuid4().hex[:12]

        def command(quality: SlotQuality) -> Change:
            on = SlotRevision(slot, revision or self._present(slot))
            return quality.mark(Mark(id_, on, signature, evidence))

        self._change(slot, now, command, begun=True)
        return self.known_mark(id_)

    def unmark(self, mark_id: str, *, reason: str, author: Author, now: datetime) -> Mark:
        """Remove a mark, on record. A check removes its own marks; people remove the marks of people."""
        removal = Signature(author, instant_of(now), reason)
        self._kept.refresh()
        self._change(self.known_mark(mark_id).on.slot, now, lambda quality: quality.unmark(mark_id, removal))
        return self.known_mark(mark_id)

    def checked(self, slot: Slot, check: str, *, passed: bool, now: datetime, revision: int | None = None) -> None:
        """Take the result of a check. If it passes, its own marks on the revision go; a failure is no mark yet."""

        def command(quality: SlotQuality) -> Change:
            on = SlotRevision(slot, revision or self._present(slot))
            return quality.checked(CheckResult(on, check, passed, instant_of(now)))

        self._change(slot, now, command)

    def state(self, slot: Slot, revision: int | None = None) -> QualityState:
        """The state of the present revision of a slot that exists; quicker for who knows the number of the revision.

        What is still to be published has passed nothing.
        """
        with self._kept.quality() as quality:
            found = quality.state(slot, revision)
            is_early = found is QualityState.PASSED and not self._kept.state(slot).complete
            return QualityState.UNCHECKED if is_early else found

    def answer(self, slot: Slot) -> Quality:
        """The quality of a slot in its present revision."""
        with self._kept.quality() as quality:
            return quality.answer(slot)

    def why_bad(self, slot: Slot) -> list[MarkPath]:
        """For each effective mark of a slot, how it came there; oldest mark first."""
        with self._kept.quality() as quality:
            return quality.why_bad(slot)

    def marks(self, *, removed: bool = False) -> tuple[Mark, ...]:
        """The marks of all datasets, oldest first; those that were removed only if asked for."""
        with self._kept.quality() as quality:
            return quality.marks(removed=removed)

    def known_mark(self, mark_id: str) -> Mark:
        """A mark by its id, also if it is removed."""
        with self._kept.quality() as quality:
            return quality.known_mark(mark_id)

    def backfill(self, backfill_id: str) -> Backfill:
        """A backfill by its id, also if it is closed."""
        with self._kept.quality() as quality:
            return quality.known_backfill(backfill_id)

    def backfills(self) -> list[Backfill]:
        """All backfills, oldest first."""
        with self._kept.quality() as quality:
            return quality.backfills()

    def open_backfills(self) -> list[Backfill]:
        """The backfills that are open, oldest first."""
        with self._kept.quality() as quality:
            return quality.open_backfills()

    def profile(self, slot: Slot) -> SlotProfile | None:
        """The profile of the present revision of a slot; None if nobody made one."""
        with self._kept.quality() as quality:
            return quality.profile(slot)

    def outdated(self, output: Slot) -> list[Slot]:
        """The inputs of the present revision of a slot whose content has been reopened since they were read."""
        with self._kept.quality() as quality:
            return quality.outdated(output)

    def run_of(self, slot: Slot) -> str:
        """The run that computed the present revision of a slot; "" if it is unknown."""
        with self._kept.quality() as quality:
            return quality.run_of(slot)

    def to_check(self, checks: Mapping[str, frozenset[str]]) -> list[tuple[SlotProfile, frozenset[str]]]:
        """The present revisions that need a deeper look, and which of the `checks`: see `SlotQuality`."""
        with self._kept.quality() as quality:
            return quality.to_check(checks)

    def carriers(self) -> list[Slot]:
        """The slots that carry a mark in some revision. What overlaps them is bad, too."""
        with self._kept.quality() as quality:
            return quality.carriers()

    def was_read(self, output: Slot, inputs: Iterable[Slot]) -> bool:
        """Whether the present revision of a slot was computed from the present content of exactly these inputs."""
        with self._kept.quality() as quality:
            return quality.was_read(output, inputs)

    def consumers(self, slot: Slot, revision: int | None = None) -> list[Consumption]:
        """Who consumed a slot, or one that overlaps it; in this revision, or in any."""
        with self._kept.quality() as quality:
            return quality.consumers(slot, revision)

    def _change(
        self, slot: Slot, now: datetime, command: Callable[[SlotQuality], Change], *, begun: bool = False
    ) -> None:
        """Do a command on a slot, which has to have `begun` for some."""

        def work(acts: Acts) -> None:
            dataset = acts.of(slot.dataset).windows.dataset
            dataset.check(slot)
            if begun and dataset.window(slot)[0] > instant_of(now):
                raise RefusedMoveError(f"{slot} has not begun: there is no data yet that could be bad.")
            acts.commands.append(command)

        self._kept.change(now, work)

    def _present(self, slot: Slot) -> int:
        """The present revision; a slot that was never complete is in the making of its revision 1."""
        return self._kept.revision_of(slot) or 1


def computed(kept: KeptStates, fact: Published, at: int, quality: SlotQuality) -> Change:
    """Take what an update was computed from: a command for the transaction in which it comes into force."""
    if (output := _revision_of(kept, fact)) is None:
        return Change()
    inputs = tuple(dict.fromkeys(found for each in fact.read if (found := _revision_read(kept, each)) is not None))
    return quality.computed(Computation(output, inputs, fact.run, at))


def profiled(kept: KeptStates, fact: Published, profile: Profile, at: int, quality: SlotQuality) -> Change:
    """Take the profile of an update: a command as `computed`."""
    on = _revision_of(kept, fact)
    return Change() if on is None else quality.profiled(SlotProfile(on, profile, at))


def _revision_of(kept: KeptStates, fact: Published) -> SlotRevision | None:
    """The revision that an update makes; None if a later fact of the same transaction replaced it."""
    state = kept.state(fact.slot)
    if not isinstance(state, BaseState) or state.facts.update != fact.update:
        return None
    return SlotRevision(fact.slot, state.revision or 1)


def _revision_read(kept: KeptStates, read: Read) -> SlotRevision | None:
    """The revision that was read; None for an update that is not in force any more, and for what does not exist."""
    try:
        kept.view(read.slot.dataset).windows.dataset.check(read.slot)
    except DatasetError:
        return None
    state = kept.state(read.slot)
    present = state.revision or 1
    in_force = state.facts.update if isinstance(state, BaseState) else None
    if (read.update and read.update == in_force) or not (read.update or read.revision):
        return SlotRevision(read.slot, present)
    return SlotRevision(read.slot, read.revision) if 1 <= read.revision <= present else None
