"""Slots that time completes: counters of roll-ups against their base sets, in random histories of several calendars."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, timedelta

import pytest

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.containment import base_set
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import instant_of
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.ranges import slots_between
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.act import COMPLETED, Act, reopen_all
from feed_assets.dependencies.answers import SHOWN, answer
from feed_assets.dependencies.facts import Listed, Number, Published
from feed_assets.dependencies.numbers import take_number
from feed_assets.dependencies.rows import row_of, state_of
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets.dependencies.slot_states import SlotStates
from feed_assets.dependencies.updates import take_listed, take_published
from feed_assets.dependencies.windows import Windows
from feed_assets_tests.dependencies.datasets import at

FIRST = date(2026, 11, 27)
BEGIN, END = instant_of(at("2026-11-27T00:00")), instant_of(at("2026-12-02T12:00"))
HOLIDAY = frozenset({date(2026, 11, 29)})
ASSUMED = Rule(Basis.ASSUMED, buffer=timedelta(hours=3))
MEMBERS = {
    "eu/de": (Calendar("Europe/Berlin", HOLIDAY), ASSUMED),
    "eu/fr": (Calendar("UTC"), Rule(Basis.ASSUMED, buffer=timedelta(hours=1), quiet=timedelta(hours=5))),
    "us/ny": (Calendar("America/New_York", HOLIDAY), Rule(Basis.COUNTED, ("source",))),
    "us/sf": (Calendar("UTC-08:00"), Rule(Basis.PUBLISHED, buffer=timedelta(hours=2), since=date(2026, 11, 29))),
}


def declared() -> Declared:
    ends = {"eu/fr": date(2026, 11, 30)}
    members = tuple(Member(path, FIRST, ends.get(path), calendar) for path, (calendar, _) in MEMBERS.items())
    dataset = Dataset("raw/ads", (Grain.HOUR, Grain.DAY, Grain.WEEK), Hierarchy(("region", "city"), members))
    return Declared(dataset, ASSUMED, rules={path: rule for path, (_, rule) in MEMBERS.items()})


WINDOWS = Windows(declared())
DATASET = WINDOWS.dataset
PATHS = [*DATASET.hierarchy]
SLOTS = [
    slot
    for path in PATHS
    for grain in DATASET.grains
    if not grain.seconds or grain in DATASET.branch(path).phases
    for slot in slots_between(DATASET, grain, BEGIN - 86_400, END + 86_400, path)
]
BASES = [slot for slot in SLOTS if WINDOWS.is_base(slot)]
INSIDE = {slot: [*base_set(DATASET, slot)] for slot in SLOTS}


def change(chance: random.Random, act: Act) -> None:
    """Some fact or command about a base slot, as its rule takes it."""
    for _ in range(chance.randint(0, 3)):
        near = [slot for slot in BASES if abs(slot.start - act.clock) < 86_400]
        slot = chance.choice(near)
        what = chance.random()
        if what < 0.1:
            around = chance.choice([slot, *WINDOWS.ancestors(slot)][:3])
            reopen_all(act, INSIDE[around], "late data", equal=chance.random() < 0.3, hold=chance.random() < 0.5)
        elif what < 0.2:
            for each in [*act.known.bases]:
                act.set_facts(each, act.facts(each)._replace(backfill=""))
        elif WINDOWS.is_timed(slot):
            take_listed(act, Listed(slot, chance.randint(0, 9), chance.randint(0, 2), chance.choice("abc")))
        elif WINDOWS.rule_of(slot).basis is Basis.COUNTED:
            take_number(act, Number("source", slot, chance.choice([0, 0, 5]), version=chance.randint(0, 5)))
        else:
            take_published(act, Published(slot, chance.choice(["1", "2", None]), chance.choice(["", "x"])))


def reloaded(states: SlotStates) -> SlotStates:
    """The states as another process reads them. Counting the base slots of roll-ups anew changes nothing."""
    rows = [row_of(slot, state) for slot, state in {**states.bases, **states.roll_ups}.items()]
    loaded = SlotStates(WINDOWS)
    loaded.install(states.clock, [state_of(DATASET.name, row) for row in rows])
    loaded.count_anew()
    assert loaded.roll_ups == states.roll_ups
    loaded.is_counted_anew = False
    return loaded


def check(states: SlotStates, completed: Counter[tuple[Slot, int]]) -> None:
    """Compare the answer about each slot with its base slots, and with the events."""
    complete = {slot: states.base(slot).complete for slot in BASES}
    for slot in SLOTS:
        said, inside = answer(states, slot), INSIDE[slot]
        missing = sum(not complete[each] for each in inside if each in complete)
        assert said.missing == missing + sum(each not in complete for each in inside), slot
        assert said.complete == (said.missing == 0), slot
        assert said.first_missing == tuple(each for each in inside if not states.base(each).complete)[:SHOWN], slot
        assert not said.complete or completed[slot, said.revision] == 1, slot
        assert completed[slot, said.revision + 1] == 0


@pytest.mark.parametrize("seed", range(6))
def test_what_time_completes_is_what_the_base_slots_say_and_is_told_once(seed: int) -> None:
    chance = random.Random(seed)
    states, clock = SlotStates(WINDOWS), BEGIN
    completed: Counter[tuple[Slot, int]] = Counter()
    step = 0
    while clock < END:
        clock += chance.choice([0, 600, 1800, 3600, 9000, 40_000 * (chance.random() < 0.2)])
        act = Act(states, clock)
        change(chance, act)
        act.finish()
        if act.is_news:
            act.install()
        for each in act.changes:
            if each.kind == COMPLETED:
                following = [slot for slot in SLOTS if slot[:3] == each.first[:3] and slot.start >= each.first.start]
                for slot in sorted(following)[: each.count]:
                    completed[slot, each.revision] += 1
        assert all(times == 1 for times in completed.values())
        step += 1
        if step % 10 == 0:
            check(states, completed)
            due = states.next_check()
            assert due is None or due > states.clock or not act.is_news
        if step % 25 == 0:
            states = reloaded(states)
    check(states, completed)
    assert sum(completed.values()) > 400
