"""Which revisions of slots have passed their checks. Not here: marks (`lineage`) and states (`quality`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final

from feed_assets.datasets.containment import BaseStarts, base_starts
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain, moved, period_start
from feed_assets.datasets.members import Member, ancestry, depth
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.marks import CheckResult
from feed_assets.dependencies.quality.revision_history import RevisionHistory

_GAPS_KEPT: Final = 20_000


class ChecksPassed:
    """The newest result of each check on each revision.

    `required` has the names of the checks of a dataset. Without names, a revision has passed its own checks if there is
    a result, and none is a failure. `audited` datasets publish only what has passed: there no result is needed.
    """

    def __init__(
        self,
        datasets: Mapping[str, Dataset],
        history: RevisionHistory,
        required: Mapping[str, frozenset[str]],
        audited: frozenset[str] = frozenset(),
    ) -> None:
        self._datasets = datasets
        self._history = history
        self._required = required
        self._audited = audited
        self._results: dict[Slot, dict[int, dict[str, CheckResult]]] = {}
        self._places: dict[str, dict[tuple[str, Grain], int]] = {}
        self._gaps: dict[Slot, BaseStarts] = {}
        """For each slot the first base slot that had not passed when somebody last asked."""

    def add(self, result: CheckResult) -> None:
        """Take a result. It replaces the result of the same check on the same revision."""
        slot, revision = result.on
        if slot not in self._results:
            places = self._places.setdefault(slot.dataset, {})
            places[slot.member, slot.grain] = places.get((slot.member, slot.grain), 0) + 1
        self._results.setdefault(slot, {}).setdefault(revision, {})[result.check] = result

    def result(self, like: CheckResult) -> CheckResult | None:
        """The result that is known of the same check on the same revision."""
        return self._results.get(like.on.slot, {}).get(like.on.revision, {}).get(like.check)

    def has_result(self, slot: Slot, check: str) -> bool:
        """Whether a check has a result on the present revision of a slot, or on one with the same content."""
        current = self._history.current(slot)
        found = self._results.get(slot, {}).items()
        return any(check in results and self._history.same(slot, number) == current for number, results in found)

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
        if not self._places.get(slot.dataset):
            return False
        dataset = self._datasets[slot.dataset]
        ended = self._history.ended_at(slot, revision)
        known = self._gaps.get(slot)
        if known is not None and self._first_gap(dataset, slot, known, known.starts[0], ended) is not None:
            return False  # a slot is asked again and again while it fills
        parts = [part for part in base_starts(dataset, slot) if part.starts]
        # Go on at the last gap, and only then look at all.
        place = next((place for place, part in enumerate(parts) if known and part.member == known.member), 0)
        begin = [(parts[place], known.starts[0])] if known else []
        whole = [(part, part.starts[0]) for part in parts]
        for part, start in (*begin, *whole[place + 1 :], *whole[: place + 1]):
            gap = self._first_gap(dataset, slot, part, start, ended)
            if gap is not None:
                self._remember(slot, BaseStarts(part.member, (gap,)))
                return False
        return bool(parts)

    def _first_gap(self, dataset: Dataset, slot: Slot, part: BaseStarts, begin: int, ended: int | None) -> int | None:
        """The first base slot of a part of a slot, from a start on, that has not passed; None if all have."""
        grains = [grain for grain in reversed(dataset.grains) if grain.divides(slot.grain)]
        paths = [path for path in ancestry(part.member) if depth(path) >= depth(slot.member)]
        there = self._places[slot.dataset]
        places = [(path, grain) for path in paths for grain in grains if (path, grain) in there]
        (leaf,) = dataset.branch(part.member).leaves
        place = bisect_left(part.starts, begin)
        while place < len(part.starts):
            following = self._passed_until(dataset, leaf, places, part.starts[place], ended)
            if following is None:
                return part.starts[place]
            place = bisect_left(part.starts, following, place)
        return None

    def _remember(self, slot: Slot, gap: BaseStarts) -> None:
        if len(self._gaps) >= _GAPS_KEPT:
            self._gaps.clear()
        self._gaps[slot] = gap

    def _passed_own(self, slot: Slot, revision: int) -> bool:
        by_revision = self._results.get(slot)
        if not by_revision:
            return slot.dataset in self._audited
        same = self._history.same(slot, revision)
        results: dict[str, bool] = {}
        for number in sorted(by_revision):
            if self._history.same(slot, number) == same:
                results |= {name: result.passed for name, result in by_revision[number].items()}
        required = self._required.get(slot.dataset)
        if required:
            return all(results.get(name) for name in required)
        return (bool(results) or slot.dataset in self._audited) and all(results.values())

    def _passed_until(
        self, dataset: Dataset, leaf: Member, places: list[tuple[str, Grain]], base_start: int, ended: int | None
    ) -> int | None:
        """The end of the window of a slot that has a base slot and passed its own checks; None if there is no slot."""
        for path, grain in places:
            start, following = _window_around(dataset, leaf, path, grain, base_start)
            slot = Slot(dataset.name, path, grain, start)
            if slot in self._results and self._passed_own(slot, self._history.before(slot, ended)):
                return following
        return None


def _window_around(dataset: Dataset, leaf: Member, path: str, grain: Grain, base_start: int) -> tuple[int, int]:
    """The start of the slot that has a base slot of a member, and the end of the member's window of it."""
    if grain.seconds:
        start = base_start - (base_start - dataset.branch(path).phases[grain]) % grain.seconds
        return start, start + grain.seconds
    days = leaf.calendar.days
    start = period_start(grain, days.day_at(base_start) if dataset.base.seconds else base_start)
    following = moved(grain, start, 1)
    return start, days.begins(following) if dataset.base.seconds else following
