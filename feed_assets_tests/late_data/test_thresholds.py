"""Days of real sizes: which run again by a percentage, and which by what a run costs and late data is worth."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import ValidationError

from feed_assets.file_feed import publish
from feed_assets.sources.growth import GrowthKind
from feed_assets.sources.thresholds import Basis, Processed, threshold_of
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.late_data.late_world import GB, World, at, source

COSTS = "growth_threshold: {cost_per_gb: 0.5, value_per_late_gb: 10, currency: EUR}"
DAYS = ["2020-02-27", "2020-02-28", "2020-02-29"]


def world(tmp_path: Path, threshold: str = "growth_threshold_percent: 5", days: list[str] = DAYS) -> World:
    """100 GB in 24 hours of each of these days, processed; today is the first of March."""
    shop = source(threshold=threshold)
    made = World(Store(sqlite_url(tmp_path / "state.db")), [shop], at("2020-03-01"), date(2020, 2, 1))
    for day in days:
        for hour in range(24):
            made.send(shop, day, "x", 100 * GB // 24 + (hour < 16), hour=f"{hour:02}")
        made.process(day)
    return made


def late(there: World, day: str, gigabytes: float) -> None:
    there.send(there.sources[0], day, "late", int(gigabytes * GB), hour="23")


def test_of_100_gb_a_day_at_5_percent_the_day_that_grew_to_110_runs_again_alone(tmp_path) -> None:
    there = world(tmp_path)
    for day, gigabytes in {"2020-02-29": 1, "2020-02-28": 4, "2020-02-27": 10}.items():
        late(there, day, gigabytes)
    late(there, "2020-03-01", 50)  # today is not looked at

    decisions, asked = there.tick()

    assert [request.need.partition for request in asked] == ["2020-02-27"]
    assert {each.day: (each.decision.kind, each.decision.growth_percent) for each in decisions} == {
        "2020-02-27": (GrowthKind.GROWN, 10),
        "2020-02-28": (GrowthKind.BELOW_THRESHOLD, 4),
        "2020-02-29": (GrowthKind.BELOW_THRESHOLD, 1),
    }
    assert "100,000,000,000 -> 110,000,000,000 bytes" in asked[0].need.reason
    there.process("2020-02-27")
    assert there.tick()[1] == []
    assert "2020-02-27" not in {each.day for each in there.tick()[0] if each.differs}


@pytest.mark.parametrize(("size", "days"), [(5 * GB, ["2020-02-28"]), (5 * GB - 1, [])])
def test_exactly_the_threshold_runs_again_and_a_byte_less_does_not(tmp_path, size, days) -> None:
    there = world(tmp_path)
    there.send(there.sources[0], "2020-02-28", "late", size)

    assert [request.need.partition for request in there.tick()[1]] == days


@pytest.mark.parametrize(("size", "days"), [(5 * GB, ["2020-02-28"]), (5 * GB - 1, [])])
def test_by_costs_a_day_runs_again_when_its_late_data_is_worth_a_run(tmp_path, size, days) -> None:
    """A run of 100 GB costs 50 EUR, and that is what 5 GB are worth."""
    there = world(tmp_path, COSTS, [*DAYS, "2020-02-26"])
    there.send(there.sources[0], "2020-02-28", "late", size)

    decisions, asked = there.tick()

    assert [request.need.partition for request in asked] == days
    decision = next(each.decision for each in decisions if each.day == "2020-02-28")
    costs = decision.costs
    assert decision.threshold_percent == 5
    assert (costs.basis, costs.days, costs.mean_bytes, costs.cost_of_a_run) == (Basis.HISTORY, 3, 100 * GB, 50)
    assert (
        "threshold 5 %: a run costs 50 EUR: on average 100.000 GB in 0 s, of 3 days, at 0.5 EUR a GB; "
        "a late GB is worth 10 EUR"
    ) in decision.sentence()
    assert decision.plain["costs"]["costs"]["value_per_late_gb"] == "10"


def test_an_hour_of_a_run_costs_what_the_source_says(tmp_path) -> None:
    there = world(tmp_path, COSTS.replace("{", "{cost_per_hour: 100, "), ["2020-02-27"])
    for day in ("2020-02-26", "2020-02-25", "2020-02-24"):
        there.send(there.sources[0], day, "x", 100 * GB)
        staged = there.staged(day)
        there.now = there.now.replace(hour=2)  # each run takes an hour
        publish(staged, now=there.now)
        there.now = there.now.replace(hour=1)
    late(there, "2020-02-27", 1)

    (decision,) = [each.decision for each in there.tick()[0] if each.day == "2020-02-27"]

    assert decision.costs.mean_seconds == 3600
    assert decision.costs.cost_of_a_run == 150
    assert decision.threshold_percent == 15


def test_without_history_the_stated_default_counts_and_the_decision_says_so(tmp_path) -> None:
    there = world(tmp_path, f"{COSTS}\ngrowth_threshold_percent: 3")
    late(there, "2020-02-28", 4)

    decisions, asked = there.tick()

    (decision,) = [each.decision for each in decisions if each.day == "2020-02-28"]
    assert [request.need.partition for request in asked] == ["2020-02-28"]
    assert (decision.threshold_percent, decision.costs.basis) == (3, Basis.NO_HISTORY)
    assert "threshold 3 %: the default, as only 2 other days are known, and costs need 3" in decision.sentence()


def test_of_a_day_processed_without_data_the_decision_does_not_blame_the_other_days() -> None:
    costs = source(threshold=COSTS).growth_threshold
    assert costs is not None

    percent, shown = threshold_of(costs, Decimal(5), 0, [Processed(100 * GB, 60)] * 3)

    assert (percent, shown.days) == (5, 3)
    assert shown.sentence == "the default, as the day had no data when it was processed"


def test_the_default_is_5_percent_and_what_is_recorded_of_the_source_does_not_change_with_costs() -> None:
    plain, costly = source(), source(threshold=COSTS)

    assert costly.growth_threshold_percent == Decimal(5)
    assert plain.digest == costly.digest


@pytest.mark.parametrize(
    "wrong", ["value_per_late_gb: 0", "value_per_late_gb: -1", "currency: euro", "cost_per_gb: .nan"]
)
def test_costs_that_mean_nothing_are_refused(wrong) -> None:
    name = wrong.partition(":")[0]
    given = {"cost_per_gb": "1", "value_per_late_gb": "1", "currency": "EUR", name: wrong.partition(": ")[2]}
    with pytest.raises(ValidationError, match=name):
        source(threshold=f"growth_threshold: {{{', '.join(f'{key}: {value}' for key, value in given.items())}}}")
