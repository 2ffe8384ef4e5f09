"""An event log with open connections, beside Dagster's own."""

from __future__ import annotations

import sys

import dagster as dg
import pytest

from feed_assets.resources.event_log import OPEN, keep_open

opened = []


def _note(event, arguments):
    if event == "sqlite3.connect":
        opened.append(str(arguments[0]))


sys.addaudithook(_note)  # Python has no way to remove a hook


@pytest.fixture
def instance(tmp_path):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


def talkative(lines):
    @dg.asset
    def talkative(context):
        for line in range(lines):
            context.log.info(f"line {line}")
            context.log_event(dg.AssetObservation("seen", description=f"line {line}"))

    return dg.Definitions([talkative]).resolve_implicit_global_asset_job_def()


def checked(checks):
    names = [f"check_{number}" for number in range(checks)]

    @dg.asset(check_specs=[dg.AssetCheckSpec(name, asset="checked") for name in names])
    def checked():
        results = [dg.AssetCheckResult(check_name=name, passed=True) for name in names]
        return dg.MaterializeResult(check_results=results)

    return dg.Definitions([checked]).resolve_implicit_global_asset_job_def()


def connections(instance, job):
    """How many connections to databases of events a run of this job opens."""
    before = len(opened)
    assert job.execute_in_process(instance=instance).success
    return sum("/history/" in name for name in opened[before:])


@pytest.mark.parametrize("job", [talkative, checked], ids=["event", "check"])
def test_a_run_opens_no_connection_for_each(instance, job):
    usual = connections(instance, job(20)) - connections(instance, job(5))
    keep_open(instance)
    connections(instance, job(1))

    assert usual >= 15
    assert connections(instance, job(20)) == connections(instance, job(5))


def test_other_processes_read_the_events_and_add_theirs(instance, tmp_path):
    keep_open(instance)
    runs = [talkative(3).execute_in_process(instance=instance).run_id for _ in range(OPEN + 2)]

    with dg.DagsterInstance.local_temp(str(tmp_path)) as other:
        assert [len(other.all_logs(run)) for run in runs] == [len(instance.all_logs(run)) for run in runs]
        assert talkative(1).execute_in_process(instance=other).success
        seen = instance.fetch_observations(dg.AssetKey("seen"), limit=100).records
    assert len(seen) == 3 * len(runs) + 1


def test_an_instance_in_memory_stays_as_it_is():
    with dg.DagsterInstance.ephemeral() as instance:
        keep_open(instance)
        assert talkative(1).execute_in_process(instance=instance).success


def test_at_its_end_an_instance_leaves_nothing_beside_the_databases(tmp_path):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        keep_open(instance)
        for _ in range(OPEN + 2):
            talkative(20).execute_in_process(instance=instance)

    assert [path.name for path in tmp_path.rglob("*.db-*")] == []
