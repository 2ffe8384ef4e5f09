"""An asset with a deadline has a check in Dagster that warns before its runs miss it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.checks.deadlines import deadline_checks
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.run_history.executions import Execution
from feed_assets.run_history.tables import record
from feed_assets.state.store import Store

SCHEMA = StructType([StructField("x", StringType())])
DAYS = dg.DailyPartitionsDefinition("2026-01-01")
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@dg.asset(metadata=feed_metadata("prices/v1.0", SCHEMA, deadline="06:00"), partitions_def=DAYS)
def prices() -> None:
    """A daily feed with a deadline."""


@dg.asset
def other() -> None:
    """No feed."""


def evaluated(folder, minutes: float, growth: float) -> dg.AssetCheckEvaluation:
    """The check after a month of runs at 04:00 UTC that took so long at first."""
    board, store = BlackboardResource(base=str(folder)), Store(f"sqlite:///{folder}/state.db")
    found = []
    for day in range(30):
        wanted = TODAY - timedelta(days=30 - day) + timedelta(hours=4)
        ended = wanted + timedelta(minutes=minutes * (1 + growth * day / 7))
        found.append(Execution("asset prices", f"run-{day}", str(wanted.date()), wanted, wanted, ended, succeeded=True))
    record(store, board.blackboard.uri(""), found, now=datetime.now(UTC))
    checks = list(deadline_checks([prices, other]))
    assert len(checks) == 1
    made = dg.materialize(
        [prices, *checks],
        partition_key="2026-01-05",
        resources={"blackboard": board, "state": StateResource(url=store.url)},
    )
    assert made.success
    (evaluation,) = made.get_asset_check_evaluations()
    return evaluation


def test_the_check_warns_with_the_sentence_and_the_plots(tmp_path):
    found = evaluated(tmp_path, 70, 0.12)

    assert not found.passed
    assert found.severity is dg.AssetCheckSeverity.WARN
    assert found.description is not None
    assert found.description.startswith("asset prices will miss its deadline 06:00 UTC from ")
    assert found.metadata["growth a week, %"].value == pytest.approx(8.4, abs=0.6)
    for kind in ("overlap", "deadline"):
        assert found.metadata[kind].value.startswith(f"![{kind}](data:image/png;base64,")


def test_the_check_passes_where_the_deadline_is_kept(tmp_path):
    found = evaluated(tmp_path, 20, 0.01)
    assert found.passed
    assert found.description is not None
    assert "will keep its deadline 06:00 UTC" in found.description


def test_an_hourly_asset_has_no_deadline():
    hours = dg.HourlyPartitionsDefinition("2026-01-01-00:00")

    @dg.asset(metadata=feed_metadata("hourly/v1.0", SCHEMA, deadline="06:00"), partitions_def=hours)
    def hourly() -> None:
        """An hourly feed."""

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="give the deadline to a daily asset"):
        list(deadline_checks([hourly]))
