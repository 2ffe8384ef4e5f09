"""The act of the demo in which workers compute hours and a day, while processes are killed and stopped."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from feed_assets.ads.definitions import build_definitions
from feed_assets.ads.demo.daemon import MODULE
from feed_assets.ads.demo.story import NextSteps, Teller, prepare_base
from feed_assets.ads.demo.workflow_act import HOURS_OVER, WorkflowAct
from feed_assets.ads.partners import FIRST_DAY, partners_directory
from feed_assets.file_feed import open_feed, records
from feed_assets.resources.settings import Settings

pytestmark = pytest.mark.slow

DAY = "2019-11-27"


class Bar:
    """A progress bar that keeps its lines and its steps."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.steps = lines, 0

    def __call__(self, line: str | None = None, steps: int = 1) -> None:
        self.lines += [line] if line else []
        self.steps += steps


def test_nothing_is_lost_or_done_twice_though_a_worker_is_killed_and_a_master_stopped(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # which the act finds and uses
    base, home = tmp_path / "base", tmp_path / "home"
    home.mkdir()
    for name, text in {
        "BASE": str(base), "CONTINUOUS": "1", "HOURLY": "1", "SENSOR_SECONDS": "1", "SPARK_MASTER": "local[2]",
        "LOG_LEVEL": "CRITICAL",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"FEED_ASSETS_{name}", text)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)  # another test may have loaded it for its own base
    prepare_base(str(base), HOURS_OVER.isoformat())
    settings = Settings.from_environment(sources_directory=partners_directory(), first_day=FIRST_DAY)
    told: list[str] = []
    bars: dict[str, Bar] = {}

    @contextmanager
    def progress(what: str, _: int) -> Iterator[Bar]:
        yield bars.setdefault(what, Bar(told))

    teller = Teller(told.append, told.append, lambda _: None, lambda _: None, progress)
    definitions = build_definitions(settings)

    WorkflowAct(
        settings, definitions, partial(build_definitions, settings), home, base, teller, NextSteps("", "")
    ).run()

    story = "\n".join(told)
    assert "A turn of the sensors handed over 18 tasks, and requested no run" in story
    assert re.search(r"Unit \d+, whose worker was killed, was back \d+\.\d s later: failed, attempt 1", story)
    assert "The other one reigns in epoch 2" in story
    assert "exit code 75: This master ends: " in story
    assert "1 commit refused" in story
    assert "17 checked hours with 1 update, 1 checked hour with 2 updates" in story
    assert "21 tasks acknowledged by two masters; acknowledged and lost: 0, committed twice: 0" in story
    assert {what: bar.steps for what, bar in bars.items()} == {"hours": 18, "day": 1, "late file": 2}
    for location, rows in (("clean-ads/v1.0", "2,335"), ("clean-clicks/v1.0", "9"), ("ad-effectiveness/v1.0", "114")):
        assert f"{location}: 0 of {rows} rows differ" in story
    second, first = records(open_feed(str(base / "clean-ads/v1.0")), DAY)
    assert [each.facts.rows.published for each in (first, second) if each.facts.rows] == [2035, 2335]
