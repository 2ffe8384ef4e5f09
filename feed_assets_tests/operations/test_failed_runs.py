"""Why a run failed, also if none of its steps did."""

from __future__ import annotations

import sys

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.test_utils import create_run_for_test
from dagster._utils.error import serializable_error_info_from_exc_info

from feed_assets.operations.failed_runs import failed_runs
from feed_assets.sensors.alerts import alert_of

DAY = "2019-11-24"


@pytest.fixture
def run(dagster_instance):
    return create_run_for_test(
        dagster_instance,
        asset_selection=frozenset({dg.AssetKey("made")}),
        tags={"dagster/partition": DAY},
        status=dg.DagsterRunStatus.STARTED,
    )


def reasons(instance, run):
    (failed,) = failed_runs(instance, DAY)
    assert alert_of(instance, run, "the run was failure").reasons == failed.reasons
    return failed.reasons


def test_a_run_that_was_killed_gives_the_exit_code_as_its_reason(dagster_instance, run):
    dagster_instance.report_run_failed(run, "Its worker ended with exit code -9.")

    assert reasons(dagster_instance, run) == ("Its worker ended with exit code -9.",)


def test_a_run_whose_code_cannot_be_loaded_gives_the_error_of_the_code_as_its_reason(dagster_instance, run):
    try:
        import feed_assets.no_such_room  # type: ignore[import-not-found]  # noqa: F401, PLC0415
    except ImportError:
        error = serializable_error_info_from_exc_info(sys.exc_info())
    dagster_instance.report_engine_event("Could not load job definition.", run, EngineEventData(error=error))
    dagster_instance.report_run_failed(run)

    assert reasons(dagster_instance, run) == ("ModuleNotFoundError: No module named 'feed_assets.no_such_room'",)
