"""What a run that is launched in the UI says on the terminal of `make dev`, and what its full log has."""

from __future__ import annotations

import shutil

import dagster as dg

from feed_assets.operations.day_runs import UNCAPTURED, instance_at
from feed_assets_tests import ROOT


@dg.asset
def talkative(context) -> None:
    context.log.debug("a detail")
    context.log.info("a fact")


def test_the_terminal_shows_what_a_run_does_and_not_dagsters_own_steps_which_the_log_has(tmp_path, capfd):
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    job = dg.Definitions([talkative]).resolve_implicit_global_asset_job_def()

    with instance_at(tmp_path, UNCAPTURED) as instance:  # else `tail` shows what is printed, and may end too early
        run = job.execute_in_process(instance=instance)
        logged = {entry.dagster_event_type for entry in instance.all_logs(run.run_id) if entry.is_dagster_event}

    shown = capfd.readouterr().err
    assert "a fact" in shown
    assert "STEP_START" not in shown
    assert dg.DagsterEventType.STEP_START in logged


def test_the_configuration_that_a_wheel_brings_is_that_of_the_project():
    assert (ROOT / "feed_assets/cli/dagster.yaml").read_bytes() == (ROOT / "dagster.yaml").read_bytes()
