"""Many days in one process; what a command line shows of it is tested there."""

from __future__ import annotations

import os
import signal
import time

import dagster as dg
import pytest

from feed_assets.backfill import backfill

DAYS = ["2019-11-24", "2019-11-25", "2019-11-26"]


def test_ctrl_c_ends_the_backfill_and_not_only_its_run():
    begun = []

    @dg.asset(partitions_def=dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30"))
    def slow(context):
        begun.append(context.partition_key)
        if context.partition_key == DAYS[1]:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)

    with dg.DagsterInstance.ephemeral() as instance:
        with pytest.raises(KeyboardInterrupt):
            list(backfill(dg.Definitions([slow]), instance, DAYS, run_config={}))
        runs = {run.tags["dagster/partition"]: run.status for run in instance.get_runs()}

    assert begun == DAYS[:2]
    assert runs == {DAYS[0]: dg.DagsterRunStatus.SUCCESS, DAYS[1]: dg.DagsterRunStatus.FAILURE}


def test_each_run_names_the_assets_and_the_partition_that_it_makes():
    days = dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30")

    @dg.asset(partitions_def=days)
    def first(): ...

    @dg.asset(partitions_def=days, deps=[first])
    def second(): ...

    with dg.DagsterInstance.ephemeral() as instance:
        results = list(backfill(dg.Definitions([first, second]), instance, DAYS[:1], run_config={}))
        runs = {run.run_id: run for run in instance.get_runs()}

    assert [(result.assets, result.success) for result in results] == [(("first",), True), (("second",), True)]
    for result in results:
        run = runs[result.run_id]
        assert {key.to_user_string() for key in run.asset_selection} == set(result.assets)
        assert run.tags["dagster/partition"] == result.partition == DAYS[0]
