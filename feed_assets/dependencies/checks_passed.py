"""Which revisions of slots have passed their checks. Not here: marks (`lineage`) and states (`quality`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.members import Member, ancestry
from feed_assets.datasets.ranges import member_starts
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.marks import CheckResult
from feed_assets.dependencies.overlaps import spans
from feed_assets.dependencies.revision_history import RevisionHistory


class ChecksPassed:
    """The newest result of each check on each revision.

    `required` has the names of the checks of a dataset. Without names, a revision has passed its own checks if there is
    a result, and none is a failure.
    """

    def __init__(
        self, datasets: Mapping[str, Dataset], history: RevisionHistory, required: Mapping[str, frozenset[str]]
    ) -> None:
        self._datasets = datasets
        self._history = history
        self._required = required
        self._results: dict[Slot, dict[int, dict[str, CheckResult]]] = {}
        self._places: dict[str, dict[tuple[str, Grain], int]] = {}

    def add(self, result: CheckResult) -> None:
        """Take a result. It replaces the result of the same check on the same revision."""
        slot, revision = result.on
        if slot not in self._results:
            places = self._places.setdefault(slot.dataset, {})
            places[slot.member, slot.grain] = places.get((slot.member, slot.grain), 0) + 1
        self._results.setdefault(slot, {}).setdefault(revision, {})[result.check] = result

    def discard(self, result: CheckResult) -> None:
        """Drop a result, if it is there."""
        slot, revision = result.on
        if self.result(result) != result:
            return
        del self._results[slot][revision][result.check]
        if not self._results[slot][revision]:
            del self._results[slot][revision]
        if not self._results[slot]:
            del self._results[slot]
            places = self._places[slot.dataset]
            places[slot.member, slot.grain] -= 1
            if not places[slot.member, slot.grain]:
                del places[slot.member, slot.grain]

    def result(self, like: CheckResult) -> CheckResult | None:
        """The result that is known of the same check on the same revision."""
        return self._results.get(like.on.slot, {}).get(like.on.revision, {}).get(like.check)

    def __iter__(self) -> Iterator[CheckResult]:
        for revisions in self._results.values():
            for results in revisions.values():
                yield from results.values()

    def passed(self, slot: Slot, revision: int) -> bool:
        """Whether a revision passed: by its own checks, or because its whole base set did.

        A base slot passed if a slot that has it, of this slot's member or below, of a grain that divides this slot's,
        passed its own checks. So a day passes with its hours, whatever the base.
        """
        if self._passed_own(slot, revision):
            return True
        places = self._places.get(slot.dataset)
        if not places:
            return False
        dataset = self._datasets[slot.dataset]
        ended = self._history.ended_at(slot, revision)
        grains = [grain for grain in reversed(dataset.grains) if grain.divides(slot.grain)]
        members = {member.path: member for member in dataset.branch(slot.member).leaves}
        for leaf, span in spans(dataset, slot).items():
            paths = [path for path in ancestry(leaf) if path in _at_or_below(slot.member, leaf)]
            left = [span]
            for grain in grains:
                for path in paths:
                    if left and (path, grain) in places:
                        left = [
                            part
                            for each in left
                            for part in self._not_passed(dataset, members[leaf], path, grain, each, ended)
                        ]
            if left:
                return False
        return True

    def _passed_own(self, slot: Slot, revision: int) -> bool:
        by_revision = self._results.get(slot)
        if not by_revision:
            return False
        same = self._history.same(slot, revision)
        results: dict[str, bool] = {}
        for number in sorted(by_revision):
            if self._history.same(slot, number) == same:
                results |= {name: result.passed for name, result in by_revision[number].items()}
        required = self._required.get(slot.dataset)
        return all(results.get(name) for name in required) if required else bool(results) and all(results.values())

    def _not_passed(
        self, dataset: Dataset, leaf: Member, path: str, grain: Grain, span: tuple[int, int], ended: int | None
    ) -> Iterator[tuple[int, int]]:
        """The parts of a span of base slots that no slot of a path and a grain has that passed its own checks."""
        begin: int | None = None
        last = span[0]
        for start, first, final in _pieces(dataset, leaf, path, grain, span):
            slot = Slot(dataset.name, path, grain, start)
            if slot in self._results and self._passed_own(slot, self._history.before(slot, ended)):
                if begin is not None:
                    yield begin, last
                begin = None
            elif begin is None:
                begin = first
            last = final
        if begin is not None:
            yield begin, last


def _at_or_below(member: str, leaf: str) -> list[str]:
    """The paths from a leaf up to a member."""
    paths = [*ancestry(leaf)]
    return paths[: paths.index(member) + 1]


def _pieces(
    dataset: Dataset, leaf: Member, path: str, grain: Grain, span: tuple[int, int]
) -> Iterator[tuple[int, int, int]]:
    """The slots of a grain that have base slots of a span: start, and the first and last of these base slots."""
    first, last = span
    base = dataset.base
    if grain.seconds:
        phase = dataset.branch(path).phases.get(grain)
        if phase is None:
            yield first, first, last  # there are no such slots, so none has passed
            return
        for start in range(first - (first - phase) % grain.seconds, last + 1, grain.seconds):
            yield start, max(start, first), min(start + grain.seconds - base.seconds, last)
        return
    days = leaf.calendar.days
    from_day, to_day = (days.day_at(first), days.day_at(last)) if base.seconds else (first, last)
    for start in member_starts(leaf, grain, from_day, to_day):
        following = moved(grain, start, 1)
        if base.seconds:
            yield start, max(days.begins(start), first), min(days.begins(following) - base.seconds, last)
        else:
            yield start, max(start, first), min(moved(base, following, -1), last)
