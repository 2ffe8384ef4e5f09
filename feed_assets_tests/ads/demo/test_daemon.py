"""A turn of the sensors in this process, after runs that others made."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from feed_assets.ads.demo.daemon import IN_THIS_PROCESS, MODULE, tick_sensors
from feed_assets.operations.day_runs import instance_at

pytestmark = pytest.mark.slow


def test_runs_of_an_earlier_backfill_are_not_taken_for_those_of_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes of a backfill begin runs at once, so the run with the later number may have the earlier time."""
    monkeypatch.setenv("FEED_ASSETS_BASE", str(tmp_path / "base"))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)  # another test may have loaded it for its own base
    began = datetime.now(UTC)
    with instance_at(tmp_path, IN_THIS_PROCESS) as instance, dg.DagsterInstance.ephemeral() as elsewhere:
        for moment in (began, began - timedelta(seconds=1)):
            instance.run_storage.add_historical_run(create_run_for_test(elsewhere), moment)

        assert tick_sensors(instance) == []
