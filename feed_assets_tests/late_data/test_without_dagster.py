"""Growth, staleness and empty days are decided, and runs asked for, in a process that cannot import Dagster."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from feed_assets.sources.ledger import Landing
from feed_assets_tests.harness import ADS, AS_OF, CLICKS, DAY, EFFECTIVENESS, NEXT_DAY, Installation
from feed_assets_tests.ledger import enter

PROGRAM = Path(__file__).parent / "plain_process.py"
NEITHER_DAGSTER_NOR_SPARK = """
import runpy, sys
sys.modules.update(dict.fromkeys(["dagster", "pyspark", "duckdb"]))
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program with its arguments; its imports of these three fail."""


@dataclass(frozen=True)
class Answer:
    """What the program asked for: day and feeds, and the reasons for each; what it noted; how the days stand."""

    asked: list[tuple[str, list[str]]]
    reasons: list[str]
    notes: list[str]
    standing: list[str]


def decide(desk: Installation) -> Answer:
    """What a process without Dagster decides about what is there."""
    arguments = [str(PROGRAM), str(desk.base), str(desk.settings.sources_directory), AS_OF.isoformat()]
    command = [sys.executable, "-c", NEITHER_DAGSTER_NOR_SPARK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    asked = answer["asked"]
    return Answer(
        [(day, feeds) for day, feeds, _ in asked], [why for *_, why in asked], answer["notes"], answer["standing"]
    )


@pytest.fixture
def processed(desk):
    """Two days of ads and clicks, processed, with what is computed from them."""
    for day in (DAY, NEXT_DAY):
        for kind in ("ads", "clicks"):
            desk.raw_bytes(day, {"x": 1000}, f"{kind}/shop_{kind}")
            desk.process(day, kind)
    for day in (DAY, NEXT_DAY):
        desk.relate(day)
    assert decide(desk) == Answer([], [], [], [])
    return desk


def test_a_day_that_grew_is_asked_for_with_what_is_computed_from_it(processed):
    processed.raw_bytes(DAY, {"late": 50})

    answer = decide(processed)

    assert answer.asked == [(DAY, [EFFECTIVENESS, ADS])]
    assert "ads/shop_ads 2019-11-24: grown, +5 % (threshold 5 %)" in answer.reasons[0]
    assert "ads/shop_ads 2019-11-24: grown, +5 % (threshold 5 %)" in answer.standing[0]


def test_a_day_behind_its_inputs_is_asked_for(processed):
    update = processed.process(NEXT_DAY, "clicks")

    answer = decide(processed)

    # Clicks of the next day count for a day as well: both days are behind.
    assert answer.asked == [(DAY, [EFFECTIVENESS]), (NEXT_DAY, [EFFECTIVENESS])]
    assert all(f"{CLICKS} {NEXT_DAY} is {update} now" in reason for reason in answer.reasons)


def test_a_day_of_ads_is_asked_for_with_clicks_that_are_empty_for_a_known_reason(desk):
    desk.raw_bytes(DAY, {"x": 1000})
    landing = Landing(
        "clicks/shop_clicks", "log.csv", "0" * 64, "0" * 16, read=5, landed=0, filtered=5,
        malformed=0, quarantined={}, quarantine_key=None, partitions=(), days=(DAY,),
    )  # fmt: skip
    enter(desk.board, landing)

    answer = decide(desk)

    assert answer.asked == [(DAY, [EFFECTIVENESS, ADS, CLICKS])]
    assert "log.csv landed with records of that day" in answer.reasons[0]


def test_what_such_a_process_has_asked_for_is_on_record_for_the_sensors_too(processed):
    processed.raw_bytes(DAY, {"late": 50})
    assert decide(processed).asked

    tick = processed.tick("late_growth")

    assert tick.asked == {}
    assert "1 already requested for their present state" in tick.skipped
