"""Trying a source on a file: the answer is that of landing and cleaning, and nothing is left behind."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.operations.trial import DroppedZones, Example, TriedColumn, try_source
from feed_assets.sources.landing import land
from feed_assets.sources.placing import NO_TIME
from feed_assets.sources.source_errors import SourceError
from feed_assets.sources.spec import Source

NOW = datetime(2019, 12, 1, tzinfo=UTC)

LOG = """\
id,time,ad,price
1,2019-11-30 05:00:00,a,0.5
2,2019-11-30 06:00:00,b,0.25,more
3,2019-11-29 07:00:00,,free
1,2019-11-29 08:00:00,a,
5,never,a,1
6,2019-11-30 09:00:00,test,1
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    return directory


def shop(**more: object) -> Source:
    description = {
        "name": "shop",
        "kind": "ads",
        "format": {"type": "csv", "columns": ["id", "time", "ad", "price"], "header": True},
        "columns": {"event_time": "to_timestamp(time)", "ad_id": "ad", "cost": "price"},
        "filter": "ad IS DISTINCT FROM 'test'",
        "identity": ["id"],
        "growth_threshold_percent": 5,
        "lookback_days": 7,
    }
    return Source.of(description | more, KINDS)


def log_in(directory: Path, text: str = LOG) -> Path:
    path = directory / "log.csv"
    path.write_text(text)
    return path


def test_a_trial_counts_what_each_column_has_and_shows_what_it_cannot_read(spark: SparkSession, tmp_path: Path) -> None:
    trial = try_source(spark, shop(), log_in(tmp_path), now=NOW)

    assert (trial.landing.read, trial.landing.landed, trial.landing.filtered) == (6, 4, 1)
    assert trial.redelivered == 1
    assert trial.first_malformed == Example(3, "2,2019-11-30 06:00:00,b,0.25,more")
    assert [(each.reason, each.records, each.line, each.example) for each in trial.not_landed] == [
        (NO_TIME, 1, 6, "5,never,a,1")
    ]
    by_name = {each.name: each for each in trial.columns}
    assert list(by_name) == ["impression_id", "event_time", "ad_id", "campaign_id", "user_id", "placement_id", "cost"]
    # A record that does not land for its time counts, too.
    assert trial.reasons == {"event_time unparsable": 1}
    never = Example(6, '{"id":"5","time":"never","ad":"a","price":"1"}')
    assert by_name["event_time"] == TriedColumn("event_time", "timestamp", 4, 0, 1, "2019-11-30 05:00:00", never)
    assert by_name["ad_id"] == TriedColumn("ad_id", "string", 4, 1, 0, "a", None)
    assert by_name["campaign_id"] == TriedColumn("campaign_id", "string", 0, 5, 0, None, None)
    cost = by_name["cost"]
    assert (cost.filled, cost.empty, cost.unparsable, cost.first) == (3, 1, 1, "0.500000")
    assert cost.first_unparsable is not None
    assert cost.first_unparsable.line == 4
    assert json.loads(cost.first_unparsable.record) == {
        "id": "3",
        "time": "2019-11-29 07:00:00",
        "ad": None,
        "price": "free",
    }


def test_a_trial_counts_the_records_whose_zone_an_expression_drops(spark: SparkSession, tmp_path: Path) -> None:
    log = "id,time,ad,price\n1,2019-11-30 05:00:00,a,\n2,2019-11-30T05:00:00Z,a,\n3,2019-11-30 05:00:00 +0530,a,\n"
    wall = {"event_time": "to_timestamp_ntz(time)", "ad_id": "ad"}

    dropping = try_source(spark, shop(columns=wall), log_in(tmp_path, log), now=NOW)
    keeping = try_source(spark, shop(), log_in(tmp_path, log), now=NOW)

    first = Example(3, '{"time":"2019-11-30T05:00:00Z"}')
    assert dropping.dropped_zones == (DroppedZones("columns.event_time", 2, first),)
    assert (dropping.landing.landed, keeping.landing.landed) == (3, 3)
    assert keeping.dropped_zones == ()


def test_a_trial_foretells_the_landing_and_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, temporary: Path
) -> None:
    log = log_in(tmp_path)

    trial = try_source(spark, shop(), log, now=NOW)

    assert list(temporary.iterdir()) == []
    landed = land(spark, LocalBlackboard(tmp_path / "base"), shop(), log, now=NOW)
    assert replace(trial.landing, landed_at=None) == replace(landed, landed_at=None)


@pytest.mark.parametrize("text", [LOG.splitlines()[0] + "\n", LOG.splitlines()[0] + "\n6,2019-11-30 09:00:00,test,1\n"])
def test_a_file_without_a_record_that_lands_has_empty_columns(spark: SparkSession, tmp_path: Path, text: str) -> None:
    trial = try_source(spark, shop(), log_in(tmp_path, text), now=NOW)

    assert trial.landing.landed == 0
    assert {(each.filled, each.empty, each.unparsable, each.first) for each in trial.columns} == {(0, 0, 0, None)}
    assert (trial.redelivered, trial.first_malformed, trial.not_landed) == (0, None, ())


def test_a_file_that_cannot_land_and_an_expression_that_spark_refuses_are_errors_and_leave_nothing_behind(
    spark: SparkSession, tmp_path: Path, temporary: Path
) -> None:
    with pytest.raises(SourceError, match="lacks"):
        try_source(spark, shop(), log_in(tmp_path, "id,at\n1,2\n"), now=NOW)
    misspelt = shop(columns={"event_time": "to_timestamp(time)", "ad_id": "ad", "cost": "prize"})
    with pytest.raises(SourceError, match="price"):
        try_source(spark, misspelt, log_in(tmp_path), now=NOW)

    assert list(temporary.iterdir()) == []
