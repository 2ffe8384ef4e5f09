"""The profiles of revisions of slots, and which present ones are unusual.

Not here: what is unusual (`profiles`), and what follows (`quality`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.marks import QualityState, SlotProfile, SlotRevision
from feed_assets.dependencies.quality.profiles import anomalies, comparable_slots, since
from feed_assets.dependencies.quality.revision_history import RevisionHistory
from feed_assets.dependencies.quality.states import QualityStates


class SlotProfiles:
    """The newest profile of each revision."""

    def __init__(self, datasets: Mapping[str, Dataset], history: RevisionHistory) -> None:
        self._datasets = datasets
        self._history = history
        self._profiles: dict[Slot, dict[int, SlotProfile]] = {}
        self._unusual: set[Slot] = set()
        """The slots with an unusual profile of any revision."""

    def add(self, profile: SlotProfile) -> None:
        """Take a profile. It replaces that of the same revision."""
        slot, revision = profile.on
        self._profiles.setdefault(slot, {})[revision] = profile
        self._note(slot)

    def discard(self, profile: SlotProfile) -> None:
        """Drop a profile, if it is there."""
        slot, revision = profile.on
        if self._profiles.get(slot, {}).get(revision) == profile:
            del self._profiles[slot][revision]
            self._note(slot)
            if not self._profiles[slot]:
                del self._profiles[slot]

    def __iter__(self) -> Iterator[SlotProfile]:
        for revisions in self._profiles.values():
            yield from revisions.values()

    def of(self, on: SlotRevision) -> SlotProfile | None:
        """The profile of a revision."""
        return self._profiles.get(on.slot, {}).get(on.revision)

    def present(self, slot: Slot) -> SlotProfile | None:
        """The profile of the present revision of a slot."""
        by_revision = self._profiles.get(slot)
        if not by_revision:
            return None
        current = self._history.current(slot)
        fitting = (number for number in by_revision if self._history.same(slot, number) == current)
        return by_revision[found] if (found := max(fitting, default=None)) is not None else None

    def unusual(self) -> list[SlotProfile]:
        """The present profiles that were unusual when they were made; oldest slot first."""
        found = (self.present(slot) for slot in sorted(self._unusual))
        return [each for each in found if each is not None and each.unusual]

    def judged(self, new: SlotProfile, states: QualityStates) -> SlotProfile:
        """A profile, and what is unusual in it, by those of the same time of recent weeks that are not bad."""
        dataset = self._datasets[new.on.slot.dataset]
        recent = []
        for slot in comparable_slots(dataset, new.on.slot):
            found = self.present(slot)
            if found is not None and states.state(slot, self._history.current(slot)) is not QualityState.BAD:
                recent.append(since(found.profile, dataset.window(slot)[0]))
        own = since(new.profile, dataset.window(new.on.slot)[0])
        return replace(new, unusual=tuple(map(str, anomalies(own, recent))))

    def _note(self, slot: Slot) -> None:
        if any(each.unusual for each in self._profiles[slot].values()):
            self._unusual.add(slot)
        else:
            self._unusual.discard(slot)
