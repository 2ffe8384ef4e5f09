"""The calendar's letters are what the answers say, slot by slot."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from feed_assets.datasets.containment import base_set
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import day_of, instant_of
from feed_assets.datasets.ranges import slots_on
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.facts import Listed
from feed_assets.dependencies.http.calendar import NO_SLOT, Known, Shown, letter, slot_calendar
from feed_assets.dependencies.quality.marks import QualityState as Quality
from feed_assets_tests.dependencies.datasets import DAY, at, raw, service

NOW = at(f"{DAY}T20:30")
FIRST, LAST = day_of(date(2026, 11, 25)), day_of(date(2026, 11, 28))


@pytest.mark.parametrize("seed", range(5))
def test_each_letter_is_that_of_the_slots_answer_at_every_grain_and_member(tmp_path, seed):
    chance = random.Random(seed)
    declared = raw("shop_a", "shop_b", buffer=timedelta(hours=chance.choice([0, 3])))
    states = service(f"sqlite:///{tmp_path / 'state.db'}", declared)
    slots = [
        each for name in ("shop_a", "shop_b") for each in slots_on(declared.dataset, Grain.HOUR, FIRST, LAST - 1, name)
    ]
    states.tick(at(f"{DAY}T10:00"))
    states.listed(
        [Listed(each, 5, 1, f"content {each.start}") for each in chance.sample(slots, 20)], now=at(f"{DAY}T11:00")
    )
    states.reopen(chance.sample(slots, 3), reason="late", now=at(f"{DAY}T12:00"), hold=True)
    states.waive([chance.choice(slots)], reason="holiday", by="me", now=at(f"{DAY}T13:00"))
    states.tick(NOW)
    view = states.kept.view("raw/ads")
    seen = set()
    for grain in (Grain.HOUR, Grain.DAY, Grain.MONTH):
        found = slot_calendar(view, grain, FIRST, LAST, clock=instant_of(NOW))
        assert [path for path, _ in found.rows] == ["-", "shop_a", "shop_b"]
        for path, letters in found.rows:
            for start, shown in zip(found.starts, letters, strict=True):
                slot = declared.dataset.slot(start, path, grain)
                answer = states.answer(slot)
                ended = view.windows.end(slot) <= instant_of(NOW)
                known = Known(answer.complete, answer.revision, answer.flags)
                assert shown == letter(known, None, Quality.UNCHECKED, ended=ended), slot
                assert answer.complete == all(states.answer(each).complete for each in base_set(declared.dataset, slot))
                seen.add(shown)
    assert NO_SLOT not in seen
    assert {Shown.EMPTY, Shown.OPEN, Shown.REOPENED} <= seen


def test_a_calendar_of_too_many_slots_is_refused_before_it_is_made(tmp_path):
    states = service(f"sqlite:///{tmp_path / 'state.db'}", raw("shop_a"))

    with pytest.raises(RefusedFactError, match="more than 500,000 slots"):
        slot_calendar(states.kept.view("raw/ads"), Grain.HOUR, FIRST, day_of(date(2099, 12, 31)), clock=0)
