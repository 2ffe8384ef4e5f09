"""The events of quality: what changed for which ranges of slots. Not here: the commands behind them (`quality`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.slots import Slot, start_text
from feed_assets.dependencies.quality.marks import (
    Backfill,
    CheckResult,
    Fact,
    Mark,
    Signature,
    SlotProfile,
    SlotRange,
    SlotRevision,
)
from feed_assets.dependencies.quality.overlaps import footprint
from feed_assets.dependencies.quality.revision_history import ended_ranges


class Kind(StrEnum):
    """The kinds of events about quality."""

    MARKED = "marked"
    UNMARKED = "unmarked"
    PASSED = "passed"
    UNUSUAL = "unusual"
    BACKFILL_OPENED = "backfill_opened"
    BACKFILL_CLOSED = "backfill_closed"


@dataclass(frozen=True, slots=True)
class QualityEvent:
    """A change for a range of slots, in their present revisions. `at` is in seconds since 1970, UTC.

    `parts` are the first and last starts of the parts of the range without gaps; empty if it has no gap. `subject` is
    the id of the mark or of the backfill, the name of the check, or `profile`. `on` is the revision that is marked or
    was checked. `cause` is what led to the change, if that was no command on the mark itself: `reopened`, `computed` or
    `reinstated`.
    """

    kind: Kind
    slots: SlotRange
    subject: str
    reason: str
    author: str
    at: int
    on: SlotRevision | None = None
    cause: str = ""
    parts: tuple[tuple[int, int], ...] = ()

    @property
    def details(self) -> dict[str, Any]:
        """The event as JSON, without its kind and time."""
        dataset, member, grain, first, last, size = self.slots
        details: dict[str, Any] = {
            "dataset": dataset,
            "member": member,
            "grain": str(grain),
            "first": start_text(grain, first),
            "last": start_text(grain, last),
            "count": size,
            "subject": self.subject,
            "reason": self.reason,
            "author": self.author,
        }
        if self.on is not None:
            details |= {"on": str(self.on.slot), "revision": self.on.revision}
        if self.cause:
            details["cause"] = self.cause
        if self.parts:
            details["parts"] = [[start_text(grain, start) for start in part] for part in self.parts]
        return details


@dataclass(frozen=True, slots=True)
class Change:
    """What a command changed: facts to store, each in place of the one with its key, and events in order."""

    facts: tuple[Fact, ...] = ()
    events: tuple[QualityEvent, ...] = ()


Carriers = Mapping[str, AbstractSet[Slot]]
"""By dataset: the slots that carry a mark in their present revision."""


def unusual_event(profile: SlotProfile) -> QualityEvent:
    """The event of a profile that is unusual."""
    (name, member, grain, start), _ = profile.on
    slots = SlotRange(name, member, grain, start, start, 1)
    return QualityEvent(
        Kind.UNUSUAL, slots, "profile", "; ".join(profile.unusual), "profile", profile.at, on=profile.on
    )


def mark_events(
    datasets: Mapping[str, Dataset],
    mark: Mark,
    before: Carriers,
    after: Carriers,
    signature: Signature,
    *,
    cause: str = "",
) -> Iterator[QualityEvent]:
    """One event for each dataset, member and grain whose slots have a mark now and had not, or the other way round."""
    author, at, _ = signature
    for name in sorted(before.keys() | after.keys()):
        had, has = before.get(name, frozenset()), after.get(name, frozenset())
        if had != has:
            for kind, slots, others in ((Kind.UNMARKED, had, has), (Kind.MARKED, has, had)):
                for each, parts in _ranges_without(datasets[name], slots, others):
                    yield QualityEvent(kind, each, mark.id, mark.reason, str(author), at, mark.on, cause, parts)


def pass_events(slots: Iterable[Slot], result: CheckResult) -> Iterator[QualityEvent]:
    """An event for each slot that passes by a result."""
    for slot in slots:
        one = SlotRange(*slot, slot.start, 1)
        yield QualityEvent(Kind.PASSED, one, result.check, "", f"check {result.check}", result.at, result.on)


def backfill_events(kind: Kind, backfill: Backfill, signature: Signature) -> Iterator[QualityEvent]:
    """An event for each range of a backfill's slots."""
    reason = f"abandoned: {signature.reason}" if backfill.abandoned else signature.reason
    for each in ended_ranges((SlotRevision(slot, 0) for slot in backfill.slots), 0):
        yield QualityEvent(kind, each.slots, backfill.id, reason, str(signature.author), signature.at)


def _ranges_without(
    dataset: Dataset, slots: AbstractSet[Slot], others: AbstractSet[Slot]
) -> Iterator[tuple[SlotRange, tuple[tuple[int, int], ...]]]:
    """What overlaps these slots and none of the others: a range for each member and grain, and its parts."""
    if not slots:
        return
    found, there = footprint(dataset, slots), footprint(dataset, others)
    for member, grain in sorted(found, key=lambda key: (key[0], dataset.grains.index(key[1]))):
        starts = found[member, grain]
        without = frozenset(there.get((member, grain), ()))
        if without:
            starts = [start for start in starts if start not in without]
        if starts:
            yield SlotRange(dataset.name, member, grain, starts[0], starts[-1], len(starts)), _parts(grain, starts)


def _parts(grain: Grain, starts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The stretches without gaps, as the first and last start of each; empty if there is only one."""
    if isinstance(starts, range):  # its step is the grain's length
        return ()
    parts: list[tuple[int, int]] = []
    for start in starts:
        if parts and moved(grain, parts[-1][1], 1) == start:
            parts[-1] = parts[-1][0], start
        else:
            parts.append((start, start))
    return tuple(parts) if len(parts) > 1 else ()
