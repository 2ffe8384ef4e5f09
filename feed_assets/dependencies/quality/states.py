"""The state of a revision of a slot, by the marks that reach it and the results of checks. Not here: commands."""

from __future__ import annotations

from dataclasses import dataclass

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.checks_passed import ChecksPassed
from feed_assets.dependencies.quality.lineage import Lineage
from feed_assets.dependencies.quality.marks import Backfill, Mark, QualityState, SlotRevision
from feed_assets.dependencies.quality.revision_history import RevisionHistory


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of the present revision of a slot.

    `marks` are its effective marks, oldest first. `left_behind` are marks on earlier revisions, if the slot has not
    been checked since. `backfill` is an open backfill of base slots of the slot.
    """

    slot: Slot
    revision: int
    state: QualityState
    marks: tuple[Mark, ...] = ()
    left_behind: tuple[Mark, ...] = ()
    backfill: Backfill | None = None

    @property
    def reasons(self) -> frozenset[str]:
        """Why the slot is bad; empty if it is not."""
        return frozenset(mark.reason for mark in self.marks)


@dataclass(frozen=True, slots=True)
class MarkPath:
    """Why a slot is bad: a mark, and the revisions that it came through.

    `path` begins with a revision that overlaps the slot and ends with the marked one. Each revision was computed from
    the next one, or shares base slots with it. `outdated` are those on the path that have a newer revision.
    """

    mark: Mark
    path: tuple[SlotRevision, ...]
    outdated: tuple[SlotRevision, ...]

    @property
    def sentence(self) -> str:
        """The reason, who set the mark, and its id."""
        return f"{self.mark.reason} ({self.mark.author}, mark {self.mark.id})"

    def __str__(self) -> str:
        text = f"{self.sentence}, on {self.mark.on}"
        if len(self.path) > 1:
            text += f", by way of {' < '.join(map(str, self.path[:-1]))}"
        if self.outdated:
            text += f". {self.outdated[-1].slot} has a newer revision: compute again from that"
        return text


@dataclass(frozen=True, slots=True)
class QualityStates:
    """States, as they follow from marks, computations, results and reopenings. Nothing is kept here."""

    history: RevisionHistory
    lineage: Lineage
    checks: ChecksPassed

    def state(self, slot: Slot, revision: int) -> QualityState:
        """The state of a revision of a slot."""
        if next(self.lineage.marks_with_carriers(slot, revision), None) is not None:
            return QualityState.BAD
        if self.left_behind(slot, revision):
            return QualityState.BACKFILLED
        return QualityState.PASSED if self.checks.passed(slot, revision) else QualityState.UNCHECKED

    def left_behind(self, slot: Slot, revision: int) -> set[str]:
        """The marks on earlier revisions of overlapping slots, without those that a check has looked at since."""
        carriers = [*self.lineage.carriers(slot)]
        if not carriers:
            return set()
        found: set[str] = set()
        ended = self.history.ended_at(slot, revision)
        for (other, its_revision), marks in carriers:
            then, newest = self.history.same(other, its_revision), self.history.before(other, ended)
            if then < newest and not marks <= found and not self._checked_since(slot, revision, other, then, newest):
                found |= marks
        return found

    def _checked_since(self, slot: Slot, revision: int, marked: Slot, then: int, newest: int) -> bool:
        """Whether the marked slot has passed since, or the slot has in a revision beside a newer one of it."""
        since = [number for number in range(newest, then, -1) if self.history.same(marked, number) > then]
        if any(self.checks.passed(marked, number) for number in since):
            return True
        for number in range(revision, 0, -1):
            if self.history.before(marked, self.history.ended_at(slot, number)) <= then:
                return False
            if self.checks.passed(slot, number):
                return True
        return False
