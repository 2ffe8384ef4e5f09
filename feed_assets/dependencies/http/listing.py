"""Slots and events for people and programs, as the API says them, whoever asks. Not here: printing, and requests."""

from __future__ import annotations

from datetime import date
from typing import Final

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import day_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.ranges import slots_on
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import EventsGoneError, RefusedFactError, UnknownDatasetError
from feed_assets.dependencies.http.answers import EventSays, SlotSays, event_says, slot_says
from feed_assets.dependencies.service import Dependencies
from feed_assets.dependencies.windows import Windows

MOST_SLOTS: Final = 5_000
"""The most slots of an answer that says all about each."""


def listed_slots(
    states: Dependencies, name: str, first: date, last: date, *, grain: Grain | None = None, member: str | None = None
) -> list[SlotSays]:
    """The slots of batch dates, both included: of each member, or of this path.

    Raises UnknownDatasetError, DatasetError, RefusedFactError for more than MOST_SLOTS.
    """
    if (declared := states.datasets.get(name)) is None:
        there = ", ".join(sorted(states.datasets)) or "none"
        raise UnknownDatasetError(f"There is no dataset {name!r}. There are: {there}.")
    dataset = declared.dataset
    dataset.branch(member or NO_MEMBER)
    windows = Windows(declared)
    found: list[SlotSays] = []
    for path in [each.path for each in dataset.hierarchy.members] if member is None else [member]:
        for slot in slots_on(dataset, grain or dataset.base, day_of(first), day_of(last), path):
            if len(found) == MOST_SLOTS:
                raise RefusedFactError(f"more than {MOST_SLOTS:,} slots: ask for fewer days, or a coarser grain.")
            found.append(said(states, windows, slot))
    return found


def said(states: Dependencies, windows: Windows, slot: Slot) -> SlotSays:
    """All about a slot."""
    return slot_says(states.answer(slot), windows, why=states.why(slot), quality=states.quality.state(slot))


def listed_events(
    states: Dependencies, after: int | None, *, limit: int, dataset: str | None = None
) -> list[EventSays]:
    """The first events after a number; the newest ones if it is None. Raises EventsGoneError, UnknownDatasetError."""
    if dataset is not None and dataset not in states.datasets:
        there = ", ".join(sorted(states.datasets)) or "none"
        raise UnknownDatasetError(f"There is no dataset {dataset!r}. There are: {there}.")
    newest = states.newest()
    if after is None:
        back = limit
        while True:
            begin = max(newest - back, 0)
            try:
                events = [event for event in states.events(begin, back) if _is_of(event.details, dataset)]
            except EventsGoneError:
                if back <= 1:
                    return []
                back //= 2
                continue
            return [event_says(each) for each in events[-limit:]]
    found: list[EventSays] = []
    while len(found) < limit and (events := states.events(after, limit)):
        found += [event_says(each) for each in events if _is_of(each.details, dataset)]
        after = events[-1].sequence
    return found[:limit]


def _is_of(details: object, dataset: str | None) -> bool:
    return dataset is None or (isinstance(details, dict) and details.get("dataset") == dataset)
