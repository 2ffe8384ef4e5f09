"""The act of the demo in which a day waits until its partner's counts say that it is complete."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from feed_assets.ads.definitions import build_definitions
from feed_assets.ads.demo.daemon import MODULE
from feed_assets.ads.demo.gate_act import GateAct, write_counted_sources
from feed_assets.ads.demo.story import AS_OF, NextSteps, Teller, prepare_base
from feed_assets.file_feed import open_feed, records
from feed_assets.resources.settings import Settings

DAY = "2019-11-27"


def test_a_day_waits_for_the_last_tenth_runs_once_and_turns_bad_with_one_of_its_hours(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # which the act finds and uses
    base, sources, home = tmp_path / "base", tmp_path / "partners", tmp_path / "home"
    home.mkdir()
    write_counted_sources(sources)
    for name, text in {
        "BASE": str(base), "SOURCES": str(sources), "GATE": "1", "SENSOR_SECONDS": "1", "FIRST_DAY": "2019-11-24",
        "SPARK_MASTER": "local[2]",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"FEED_ASSETS_{name}", text)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)  # another test may have loaded it for its own base
    prepare_base(str(base))
    settings = Settings.from_environment()
    assert settings.as_of is not None
    assert settings.as_of.isoformat() == AS_OF
    told: list[str] = []
    teller = Teller(told.append, told.append, lambda _: None, lambda _: None, lambda *_: nullcontext())
    definitions = build_definitions(settings)

    GateAct(settings, definitions, partial(build_definitions, settings), home, base, teller, NextSteps("", "")).run()

    story = "\n".join(told)
    assert "No sensor requested a run" in story
    assert f"raw/ads open_bandit_ads hour {DAY}T00:00Z has 146 of 163 records, 89.571 %" in story
    assert f"starts requested {DAY} (ad_effectiveness, clean_ads, clean_clicks): success" in story
    assert "The next tick requested no run" in story
    for location in ("clean-ads/v1.0", "ad-effectiveness/v1.0"):
        assert f"{location} - day {DAY} is bad: bots (person ann" in story
        assert f"{location} - day {DAY} is passed, with revision 2" in story
    assert f"raw/ads - hour {DAY}T15:00Z has revision 2. Ann's mark stays on revision 1" in story
    second, first = records(open_feed(str(base / "clean-ads/v1.0")), DAY)
    assert [each.facts.rows.published for each in (first, second) if each.facts.rows] == [4665, 4580]
    assert first.facts.details["revisions"] == {f"raw/ads - day {DAY}": 1, f"raw/clicks - day {DAY}": 1}
    assert second.facts.details["revisions"][f"raw/ads - day {DAY}"] == 2
