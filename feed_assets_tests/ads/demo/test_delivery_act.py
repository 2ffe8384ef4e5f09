"""The act of the demo in which updates go to a stream and into a store, and an old client loses rows."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from feed_assets.ads.definitions import build_definitions
from feed_assets.ads.demo.daemon import MODULE
from feed_assets.ads.demo.delivery_act import DeliveryAct, write_destinations
from feed_assets.ads.demo.story import NextSteps, Teller, prepare_base
from feed_assets.ads.partners import partners_directory
from feed_assets.resources.settings import Settings


def test_a_killed_sender_is_resumed_late_data_sends_changes_and_the_old_client_loses_rows(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # which the act finds and uses
    base, deliveries, home = tmp_path / "base", tmp_path / "deliveries", tmp_path / "home"
    home.mkdir()
    write_destinations(deliveries)
    for name, text in {
        "BASE": str(base), "SOURCES": str(partners_directory()), "DELIVERIES": str(deliveries), "SENSOR_SECONDS": "1",
        "FIRST_DAY": "2019-11-24", "SPARK_MASTER": "local[2]",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"FEED_ASSETS_{name}", text)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)  # another test may have loaded it for its own base
    prepare_base(str(base))
    settings = Settings.from_environment()
    told: list[str] = []
    teller = Teller(told.append, told.append, lambda _: None, lambda _: None, lambda *_: nullcontext())
    definitions = build_definitions(settings)

    load = partial(build_definitions, settings)
    DeliveryAct(settings, definitions, load, home, base, teller, NextSteps("", "")).run()

    story = "\n".join(told)
    assert re.search(r"4,953 rows, 4,953 acknowledged, 4,953 different ones received, [\d,]+ repeats, 0 missing", story)
    assert "149 puts, 0 deletes; 149 settled" in story
    assert story.count("89 puts, 0 deletes; 89 settled") == 2  # of the late data, and of the way back
    assert re.search(r"The audit: \d+ rows not received, block 0, rows \d+ to \d+ of 0.parquet", story)
