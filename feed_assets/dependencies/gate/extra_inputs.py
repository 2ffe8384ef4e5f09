"""Inputs that only the gate waits for, beside those that the asset reads: `needs(...)`, and which slots they are.

Pure. Not here: what is known of the slots (`inputs`), and the asset's own inputs (`sensors.flows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.durations import duration, duration_text
from feed_assets.datasets.errors import GrainError, MappingError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.input_mappings import last_slots, same_slot, shifted_slot, slots_containing, slots_within
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.ranges import slots_between
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import TriggerError
from feed_assets.dependencies.gate.written import Shift, one_of
from feed_assets.dependencies.quality.marks import Accepts


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraInput:
    """A dataset whose slots the gate waits for. At most one of `shift`, `last` and `latest` is given.

    `grain` is that of the slots; None: the flow's, or the next coarser one that the dataset has. `quality` is what the
    flow takes of this input; None: as its trigger says. Raises TriggerError.
    """

    dataset: str
    grain: Grain | None = None
    shift: Shift | None = None
    last: int | None = None
    latest: timedelta | None = None
    quality: Accepts | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.shift, self.last, self.latest)) > 1:
            raise TriggerError(f"needs({self.dataset!r}): give one of shift, last and latest.")
        if self.last is not None and self.last < 1:
            raise TriggerError(f"needs({self.dataset!r}): last is {self.last}: it is a number of slots, 1 or more.")
        if self.latest is not None and self.latest <= timedelta(0):
            raise TriggerError(f"needs({self.dataset!r}): latest is {self.latest}: it is an age above 0, such as 2d.")

    @classmethod
    def of(
        cls,
        dataset: str,
        *,
        grain: str | None = None,
        shift: str | None = None,
        last: int | None = None,
        latest: str | timedelta | None = None,
        quality: str | None = None,
    ) -> ExtraInput:
        """The input that a person writes. Raises TriggerError."""
        try:
            return cls(
                dataset=dataset,
                grain=None if grain is None else Grain.named(grain),
                shift=None if shift is None else Shift.of(shift),
                last=last,
                latest=None if latest is None else duration(latest),
                quality=None if quality is None else one_of(Accepts, quality, "quality"),
            )
        except GrainError as error:
            raise TriggerError(f"needs({dataset!r}): {error}") from None
        except ValueError as error:
            raise TriggerError(f"needs({dataset!r}): {error}.") from None

    @property
    def text(self) -> str:
        """The input in few words, such as `clean-clicks/v1.0 (shift -1h)`."""
        latest = None if self.latest is None else duration_text(self.latest)
        shift = None if self.shift is None else self.shift.text
        options = {"grain": self.grain, "shift": shift, "last": self.last, "latest": latest, "quality": self.quality}
        words = ", ".join(f"{name} {value}" for name, value in options.items() if value is not None)
        return f"{self.dataset} ({words})" if words else self.dataset

    def to_plain(self) -> dict[str, Any]:
        """The values as JSON; `from_plain` reads them."""
        return {
            "dataset": self.dataset,
            "grain": self.grain and str(self.grain),
            "shift": self.shift and self.shift.text,
            "last": self.last,
            "latest": self.latest and self.latest.total_seconds(),
            "quality": self.quality and str(self.quality),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ExtraInput:
        """The input of such JSON. Raises TriggerError."""
        latest = plain["latest"]
        return cls.of(**{**plain, "latest": None if latest is None else timedelta(seconds=float(latest))})

    def slots(self, slot: Slot, output: Dataset, source: Dataset) -> list[Slot]:
        """The slots that a slot of the flow waits for, in order of time; none before the dataset's first.

        With `latest`, these are the candidates, of which the newest complete one is enough. Raises a DatasetError if
        the dataset has no such slots.
        """
        if self.latest is not None:
            return self._candidates(slot, output, source, self.latest)
        anchors = self._anchors(slot, output, source)
        if self.last is not None:
            return _distinct(found for each in anchors for found in last_slots(each, source, source, self.last))
        if self.shift is not None:
            return _distinct(found for each in anchors for found in self._shifted(each, source, self.shift))
        return anchors

    def _anchors(self, slot: Slot, output: Dataset, source: Dataset) -> list[Slot]:
        """The slots of the dataset in the time of the slot."""
        if source.base is Grain.WHOLE:
            if self.shift is not None or self.last is not None:
                raise MappingError(f"{source.name} has no partitions, so it has one slot: leave shift and last out.")
            return [Slot(source.name, NO_MEMBER, Grain.WHOLE, 0)]
        if self.grain is not None:
            if self.grain.divides(slot.grain):
                return slots_within(slot, output, source, self.grain)
            return slots_containing(slot, output, source, self.grain)
        if slot.grain in source.grains:
            return same_slot(slot, output, source)
        coarser = [each for each in source.grains if slot.grain.divides(each)]
        if not coarser:
            raise MappingError(
                f"{source.name} has no slots that a {slot.grain} lies in; it has {', '.join(source.grains)}. Name one "
                "of these as grain."
            )
        return slots_containing(slot, output, source, coarser[0])

    def _shifted(self, anchor: Slot, source: Dataset, shift: Shift) -> list[Slot]:
        try:
            count, unit = shift.steps(anchor.grain)
        except ValueError as error:
            raise MappingError(f"{anchor} cannot be shifted: {error}.") from None
        return shifted_slot(anchor, source, source, count, unit)

    def _candidates(self, slot: Slot, output: Dataset, source: Dataset, age: timedelta) -> list[Slot]:
        if source.base is Grain.WHOLE:
            raise MappingError(f"{source.name} has no partitions, so it has one slot: leave latest out.")
        if slot.grain is Grain.WHOLE:
            raise MappingError(f"{slot} has no end, so no slot is the latest before it.")
        end = output.window(slot)[1]
        begin = end - int(age.total_seconds())
        return [*slots_between(source, self.grain or source.base, begin, end)]


def check_extra(extra: ExtraInput, output: Dataset, source: Dataset) -> None:
    """Raise a DatasetError if slots of a flow can never wait for this input."""
    first = output.branch(NO_MEMBER).leaves[0]
    sample = Slot(output.name, NO_MEMBER, Grain.WHOLE, 0)
    if output.base is not Grain.WHOLE:
        sample = output.slot_at(first.begin, output.base)
    extra.slots(sample, output, source)


def cycle(reads: Mapping[str, Iterable[str]]) -> list[str]:
    """The datasets of a cycle, from one of them back to itself; empty without any. `reads` has the inputs of each."""
    done: set[str] = set()
    for first in sorted(reads):
        path: list[str] = []
        left = [iter([first])]
        while left:
            following = next(left[-1], None)
            if following is None:
                left.pop()
                if path:
                    done.add(path.pop())
            elif following in path:
                return [*path[path.index(following) :], following]
            elif following not in done:
                path.append(following)
                left.append(iter(sorted(reads.get(following, ()))))
    return []


def _distinct(slots: Iterable[Slot]) -> list[Slot]:
    return sorted(set(slots), key=lambda each: (each.start, each.member))
