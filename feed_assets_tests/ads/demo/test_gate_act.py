"""The act of the demo in which a day waits until its partner's counts say that it is complete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from feed_assets.file_feed import open_feed, records
from feed_assets_tests.waiting import HANGS

pytestmark = pytest.mark.slow

DAY = "2019-11-27"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("gate")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("FEED_ASSETS_", "DAGSTER_"))}
    return {**kept, "FEED_ASSETS_BASE": str(home / "data")}


def command(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "feed_assets.cli", *arguments],
        env=environment, capture_output=True, text=True, timeout=HANGS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_day_waits_for_the_last_tenth_and_then_runs_once(environment: dict[str, str]) -> None:
    told = command(environment, "demo", "--act", "gate")

    assert "No sensor requested a run" in told
    assert f"raw/ads open_bandit_ads hour {DAY}T00:00Z has 146 of 163 records, 89.571 %" in told
    assert f"starts requested {DAY} (ad_effectiveness, clean_ads, clean_clicks): success" in told
    assert "The next tick requested no run" in told
    for location in ("clean-ads/v1.0", "ad-effectiveness/v1.0"):
        assert f"{location} - day {DAY} is bad: bots (person ann" in told
    (record,) = records(open_feed(str(Path(environment["FEED_ASSETS_BASE"]) / "clean-ads/v1.0")), DAY)
    assert record.facts.rows is not None
    assert record.facts.rows.published == 4665
    assert record.facts.details["revisions"] == {f"raw/ads - day {DAY}": 1, f"raw/clicks - day {DAY}": 1}
