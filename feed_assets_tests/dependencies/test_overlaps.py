"""Which slots overlap, against base sets."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.containment import base_set
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import day_of
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.ranges import slots_on
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.marks import SlotRange
from feed_assets.dependencies.quality.overlaps import SlotIndex, footprint

START = date(2011, 1, 1)
SAMOA = Calendar("Pacific/Apia")  # has no 2011-12-30
TREE = Hierarchy(
    ("region", "country"),
    (
        Member("eu/fr", START, calendar=Calendar("Europe/Paris")),
        Member("eu/gb", START, last=date(2012, 1, 1), calendar=Calendar("UTC")),
        Member("pacific/ws", START, calendar=SAMOA),
    ),
)
FIRST, LAST = day_of(date(2011, 12, 28)), day_of(date(2012, 1, 3))
DATASETS = [
    Dataset("ten", (Grain.TEN_MINUTES, Grain.HOUR, Grain.DAY), Hierarchy.flat(START)),
    Dataset("hours", (Grain.HOUR, Grain.DAY, Grain.WEEK, Grain.MONTH), TREE),
    Dataset("days", Grain.DAY.and_coarser, TREE),
    Dataset("weeks", (Grain.WEEK,), TREE),
    Dataset("months", Grain.MONTH.and_coarser, TREE),
    Dataset("whole", (Grain.WHOLE,), Hierarchy.flat(START)),
]


def all_slots(dataset: Dataset) -> list[Slot]:
    """The slots of some dates, at all paths; not all of the finest ones."""
    found: list[Slot] = []
    for path in dataset.hierarchy:
        for grain in dataset.grains:
            if grain.seconds and dataset.branch(path).days is None:
                continue
            found += [*slots_on(dataset, grain, FIRST, LAST, path)][:: 11 if grain.seconds else 1]
    return found


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda dataset: dataset.name)
def test_slots_overlap_if_their_base_sets_share_a_slot(dataset: Dataset):
    slots = all_slots(dataset)
    base = {slot: {*base_set(dataset, slot)} for slot in slots}
    index = SlotIndex({dataset.name: dataset})
    for slot in slots:
        index.add(slot)
        index.add(slot)
    for slot in slots:
        expected = {other for other in slots if base[slot] & base[other]}
        assert {*index.overlapping(slot)} == expected
        around = footprint(dataset, [slot])
        assert {other for other in slots if other.start in around.get(other[1:3], ())} == expected
    for slot in slots[::2]:
        index.discard(slot)
        index.discard(slot)
    assert {*index} == {*slots[1::2]}
    for slot in slots:
        assert {*index.overlapping(slot)} == {other for other in slots[1::2] if base[slot] & base[other]}


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda dataset: dataset.name)
def test_the_footprint_of_some_slots_is_that_of_each(dataset: Dataset):
    slots = all_slots(dataset)[::5]
    around = footprint(dataset, slots)
    each = [footprint(dataset, [slot]) for slot in slots]
    for place in {place for one in each for place in one}:
        assert [*around[place]] == sorted({start for one in each for start in one.get(place, ())})
        assert all(one < other for one, other in pairwise(around[place]))


def test_near_finds_all_that_overlap_a_range():
    dataset = DATASETS[1]
    slots = all_slots(dataset)
    index = SlotIndex({dataset.name: dataset})
    for slot in slots:
        index.add(slot)
    days = [slot for slot in slots if slot.member == "eu" and slot.grain is Grain.DAY][:3]
    near = {*index.near(SlotRange("hours", "eu", Grain.DAY, days[0].start, days[-1].start, 3))}
    assert near >= {other for day in days for other in index.overlapping(day)}
    assert not index.near(SlotRange("none", "eu", Grain.DAY, 1, 1, 1))
