"""Runs whose process is killed: Dagster's retry ends with one update of each feed, reported once."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import pytest

from feed_assets.sensors.busy import RETRY
from feed_assets_tests.faults.killed_runs import (
    COPIED,
    IN_THE_AUDIT,
    MADE,
    Point,
    definitions,
    published_once,
    run_in_a_process_that_is_killed,
)
from feed_assets_tests.harness import DAY, messages

RETRIES = {"run_retries": {"enabled": True, "max_retries": 1, "retry_on_asset_or_op_failure": False}}
"""As in `deploy/dagster.yaml`."""

POINTS = {
    "before the update is staged": Point("create", f"{MADE}/.feed/records/"),
    "between stage and publish": Point("replace", f"{MADE}/.feed/records/"),
    "in the audit": IN_THE_AUDIT,
    "between the manifest and the last state": Point("replace", f"{MADE}/.feed/records/", 2),
    "between publish and the event": Point("create", f"{MADE}/.feed/changes/", after=True),
    "between stage and publish, without an audit": Point("replace", f"{COPIED}/.feed/records/"),
    "between the manifest and the last state, without an audit": Point("replace", f"{COPIED}/.feed/records/", 2),
    "between publish and the event, without an audit": Point("create", f"{COPIED}/.feed/changes/", after=True),
}


@pytest.fixture
def made(desk):
    with dg.instance_for_test(overrides=RETRIES) as instance:
        yield replace(desk, instance=instance, cursors={}, _definitions=definitions(desk.settings))


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_the_retry_of_a_killed_run_ends_with_one_update_reported_once(made, spark, point):
    run = run_in_a_process_that_is_killed(made.settings, made.instance, spark, DAY, point)
    made.instance.report_run_failed(run, "as the code server does, which started the process")

    # Until the retry begins, sensors leave its partition alone.
    before = made.tick("new_manifests")
    assert (before.requests, before.events) == ((), ())
    again = made.reexecute(run.run_id)
    made.instance.add_run_tags(run.run_id, {RETRY: again.run_id})  # as Dagster does

    assert again.success, messages(again)
    published_once(made, DAY)
