"""Facts as JSON gives them: parts, numbers, waivers, marks, and what they mean as values.

Here: the items of requests and of files, strictly typed. Not here: taking facts (`service`), and HTTP (`reports`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot, start_text
from feed_assets.dependencies.errors import RefusedFactError, UnknownDatasetError
from feed_assets.dependencies.facts import Ends, Number, Part
from feed_assets.dependencies.rules import Declared

MOST_SLOTS = 10_000
"""The most slots of a range."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")]
Reason = Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")]


class SlotGiven(msgspec.Struct, forbid_unknown_fields=True):
    """A slot by its words. Without `grain`, the form of `start` says it, or it is the base grain."""

    dataset: Text
    start: Text
    member: Text = NO_MEMBER
    grain: Text | None = None


class PartGiven(msgspec.Struct, forbid_unknown_fields=True):
    """An object that was put. `records` has the records for the start of each base slot; they landed, were quarantined,
    or dropped as duplicates. `ranges` are half-open ranges of positions of a `stream`. See `facts.Part`.
    """  # noqa: D205

    dataset: Text
    id: Text
    object: Text
    records: dict[Text, Count]
    member: Text = NO_MEMBER
    stream: Text = ""
    ranges: list[tuple[Count, Count]] = []
    generation: Text = ""
    writer: Text = ""
    epoch: Count = 0


class NumberGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """How many records a witness has counted for a base slot. A higher `version` replaces a lower one."""

    witness: Text
    records: Count
    final: bool = True
    version: Count = 0


class EndsGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """The end positions of all streams of a member, taken at a time after the slot's end and its grace."""

    ends: dict[Text, Count]
    taken: datetime
    begins: dict[Text, Count] = {}


class ReopenGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """A slot whose `revision` is to be over. At another revision nothing happens, so it may be sent again.

    With `hold`, a backfill is open: the slot stays incomplete until it is released.
    """

    revision: Count
    reason: Reason
    hold: bool = False


class ReleaseGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """A slot whose backfill is over. `equal_to`: it was abandoned, or found the content that was there."""

    equal_to: bool = False


class WaiverGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """A slot that need not be complete. Every later answer repeats the reason."""

    reason: Reason


class WaiverEnded(msgspec.Struct, forbid_unknown_fields=True):
    """A waiver, by its id, that is taken back."""

    id: Text
    reason: Reason


class ReplaceGiven(msgspec.Struct, forbid_unknown_fields=True):
    """Parts that take the place of others, in one act. `equal_to`: their content is the same."""

    dataset: Text
    old: list[Text]
    new: list[PartGiven]
    member: Text = NO_MEMBER
    equal_to: bool = False


class MarkGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """A revision of a slot is bad, by default the present one. The same `id` again is the same mark."""

    reason: Reason
    evidence: Text = ""
    revision: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    id: Text = ""


class MarkEnded(msgspec.Struct, forbid_unknown_fields=True):
    """A mark, by its id, that is taken back."""

    id: Text
    reason: Reason


class BackfillGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """Slots that are made again, from `start` to `last`; without `last`, one. The same `id` again is the same backfill.

    They stay incomplete until the backfill is closed, or another update is in force.
    """

    reason: Reason
    last: Text = ""
    id: Text = ""


class BackfillEnded(msgspec.Struct, forbid_unknown_fields=True):
    """A backfill, by its id, that is over. `abandoned`: the content is what it was before."""

    id: Text
    reason: Reason
    abandoned: bool = False


class GivenFacts:
    """Facts about declared datasets, of items. Raises DependencyError and DatasetError for items that make no sense.

    `listed_by` says, in messages, what lists the datasets.
    """

    def __init__(self, datasets: Mapping[str, Declared], *, listed_by: str) -> None:
        self._datasets = datasets
        self._list = listed_by

    def slot(self, given: SlotGiven) -> Slot:
        """The slot that an item names."""
        dataset = self._declared(given.dataset).dataset
        if given.grain is not None:
            return dataset.slot(given.start, given.member, Grain.named(given.grain))
        return dataset.slot(given.start, given.member, dataset.base if ":" in given.start else None)

    def slots(self, given: SlotGiven, last: str) -> list[Slot]:
        """The slots from the one that an item names to the last one, of the same grain."""
        first = self.slot(given)
        if not last:
            return [first]
        end = self._declared(given.dataset).dataset.slot(last, given.member, first.grain)
        if end.start < first.start:
            raise RefusedFactError(f"{last} is before {start_text(first.grain, first.start)}: exchange them.")
        found = [first]
        while found[-1].start < end.start:
            if len(found) == MOST_SLOTS:
                raise RefusedFactError(f"{first} to {last} are more than {MOST_SLOTS:,} slots: name a coarser grain.")
            found.append(first._replace(start=moved(first.grain, found[-1].start, 1)))
        return found

    def part(self, given: PartGiven) -> Part:
        """The part of an item."""
        dataset = self._declared(given.dataset).dataset
        starts = {dataset.slot(each, given.member, dataset.base).start: each for each in given.records}
        if len(starts) < len(given.records):
            raise RefusedFactError(f"part {given.id}: two texts name one slot; add their records.")
        return Part(
            given.dataset,
            given.member,
            given.id,
            given.object,
            given.stream,
            tuple(given.ranges),
            {start: given.records[text] for start, text in starts.items()},
            given.generation,
            given.writer,
            given.epoch,
        )

    def number(self, given: NumberGiven) -> Number:
        """The number of an item."""
        return Number(given.witness, self.slot(given), given.records, given.final, given.version)

    def ends(self, given: EndsGiven) -> Ends:
        """The end positions of an item."""
        if given.taken.tzinfo is None:
            raise RefusedFactError(f"taken is {given.taken}, without an offset: add Z for UTC.")
        return Ends(self.slot(given), given.ends, given.taken, given.begins)

    def _declared(self, name: str) -> Declared:
        if (found := self._datasets.get(name)) is None:
            raise UnknownDatasetError(f"There is no dataset {name!r}: {self._list} lists those that there are.")
        return found
