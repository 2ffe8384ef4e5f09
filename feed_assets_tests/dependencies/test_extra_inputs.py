"""Inputs that only the gate waits for: which slots they are, what is refused, and what is known of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain
from feed_assets.dependencies.errors import TriggerError
from feed_assets.dependencies.facts import Published
from feed_assets.dependencies.gate.extra_inputs import ExtraInput, check_extra, cycle
from feed_assets.dependencies.gate.inputs import extra_states
from feed_assets_tests.dependencies.datasets import FIRST, at, feed, service

HOURS = Dataset.flat("hourly/v1.0", Grain.HOUR, first=FIRST)
DAYS = Dataset.flat("daily/v1.0", Grain.DAY, first=FIRST)
WHOLE = Dataset.flat("dim/v1.0", Grain.WHOLE, first=FIRST)
DATASETS = {each.name: each for each in (HOURS, DAYS, WHOLE)}


def waited_for(output: Dataset, slot: str, **given: object) -> list[str]:
    extra = ExtraInput.of(**given)  # type: ignore[arg-type]
    source = DATASETS[extra.dataset]
    return [str(each).removeprefix(f"{source.name} - ") for each in extra.slots(output.slot(slot), output, source)]


@pytest.mark.parametrize(
    ("output", "slot", "given", "slots"),
    [
        (HOURS, "2026-11-27T15", {"dataset": "hourly/v1.0"}, ["hour 2026-11-27T15:00Z"]),
        (HOURS, "2026-11-27T15", {"dataset": "daily/v1.0"}, ["day 2026-11-27"]),
        (DAYS, "2026-11-27", {"dataset": "hourly/v1.0"}, ["day 2026-11-27"]),
        (HOURS, "2026-11-27T15", {"dataset": "dim/v1.0"}, ["- -"]),
        (HOURS, "2026-11-27T15", {"dataset": "hourly/v1.0", "grain": "day"}, ["day 2026-11-27"]),
        (HOURS, "2026-11-27T15", {"dataset": "hourly/v1.0", "shift": "-1h"}, ["hour 2026-11-27T14:00Z"]),
        (HOURS, "2026-11-27T15", {"dataset": "hourly/v1.0", "shift": "-120min"}, ["hour 2026-11-27T13:00Z"]),
        (HOURS, "2026-11-27T15", {"dataset": "daily/v1.0", "shift": "-1d"}, ["day 2026-11-26"]),
        (DAYS, "2026-12-27", {"dataset": "daily/v1.0", "shift": "-1w"}, ["day 2026-12-20"]),
        (DAYS, "2026-11-27", {"dataset": "daily/v1.0", "last": 2}, ["day 2026-11-26", "day 2026-11-27"]),
        (DAYS, "2026-11-25", {"dataset": "daily/v1.0", "last": 7}, ["day 2026-11-25"]),
        (DAYS, "2026-11-25", {"dataset": "daily/v1.0", "shift": "-1d"}, []),
        (
            HOURS, "2026-11-27T15", {"dataset": "daily/v1.0", "latest": "1d"}, ["day 2026-11-26", "day 2026-11-27"]
        ),
        (DAYS, "2026-11-27", {"dataset": "daily/v1.0", "latest": "1d"}, ["day 2026-11-27"]),
    ],
)  # fmt: skip
def test_a_flow_waits_for_slots_by_their_time(output, slot, given, slots):
    assert waited_for(output, slot, **given) == slots


def test_the_hours_of_a_day_are_inputs_of_their_own_if_the_grain_says_so():
    assert len(waited_for(DAYS, "2026-11-27", dataset="hourly/v1.0", grain="hour")) == 24


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shift": "-1x"}, "'-1x' is no shift: write a number and min, h, d, w, month or quarter, such as -1h"),
        ({"last": 0}, "last is 0: it is a number of slots, 1 or more"),
        ({"last": -7}, "last is -7"),
        ({"latest": "0d"}, "latest is 0:00:00: it is an age above 0, such as 2d"),
        ({"latest": "long"}, "'long' is no duration"),
        ({"last": 7, "shift": "-1h"}, "give one of shift, last and latest"),
        ({"quality": "good"}, "quality is 'good': it is one of passed, not_bad, any"),
        ({"grain": "minute"}, "'minute' is no grain: use 5min"),
    ],
)
def test_an_input_that_cannot_be_is_refused_and_the_message_says_what_to_write(given, message):
    with pytest.raises(TriggerError, match=message):
        ExtraInput.of("hourly/v1.0", **given)


@pytest.mark.parametrize(
    ("output", "source", "given", "message"),
    [
        (HOURS, HOURS, {"shift": "-90min"}, "-90min is no number of whole hours"),
        (HOURS, HOURS, {"shift": "-1d"}, "-1d is no fixed number of hours: write it in hours"),
        (DAYS, DAYS, {"shift": "-1h"}, "-1h is no number of whole days"),
        (DAYS, DAYS, {"shift": "-1month"}, "cannot be shifted by a month"),
        (HOURS, DAYS, {"grain": "hour"}, "has no slots of the grain hour"),
        (HOURS, WHOLE, {"last": 2}, "leave shift and last out"),
        (HOURS, WHOLE, {"latest": "2d"}, "leave latest out"),
        (WHOLE, HOURS, {}, "has no slots that a - lies in"),
    ],
)
def test_an_input_whose_slots_can_never_come_is_refused_by_the_datasets(output, source, given, message):
    with pytest.raises(DatasetError, match=message):
        check_extra(ExtraInput.of(source.name, **given), output, source)


def test_the_latest_slot_is_the_newest_complete_one_that_is_not_too_old(tmp_path):
    known = service(f"sqlite:///{tmp_path}/state.db", feed("daily/v1.0"), feed("flow/v1.0"))
    flow, source = known.dataset("flow/v1.0"), known.dataset("daily/v1.0")
    extra = ExtraInput.of("daily/v1.0", latest="3d", quality="any")
    slot = flow.slot("2026-11-28")

    (waiting,) = extra_states(known, slot, extra)
    assert not waiting.complete
    assert waiting.waits == "none since daily/v1.0 - day 2026-11-26 is complete; the newest has no valid update"
    for day in ("2026-11-25", "2026-11-26"):
        known.published([Published(source.slot(day), "20261129.000000")], now=at("2026-11-29T00:00"))
    (found,) = extra_states(known, slot, extra)
    assert (found.complete, str(found.slot)) == (True, "daily/v1.0 - day 2026-11-26")
    assert (found.extra, str(found.accepts)) == (True, "any")
    assert not [each for each in extra_states(known, flow.slot("2026-11-29"), extra) if each.complete]


def test_an_input_is_the_same_after_the_way_through_dagsters_metadata():
    for given in ({"shift": "-1h"}, {"last": 7}, {"latest": timedelta(days=2), "quality": "any"}, {"grain": "day"}):
        made = ExtraInput.of("hourly/v1.0", **given)
        assert ExtraInput.from_plain(made.to_plain()) == made


@pytest.mark.parametrize(
    ("reads", "found"),
    [
        ({}, []),
        ({"a": ["b", "c"], "b": ["c"]}, []),
        ({"a": ["a"]}, ["a", "a"]),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, ["b", "c", "b"]),
        ({"z": ["a"], "a": ["b", "d"], "b": [], "d": ["z"]}, ["a", "d", "z", "a"]),
    ],
)
def test_a_cycle_is_found_and_named_in_order(reads, found):
    assert cycle(reads) == found
