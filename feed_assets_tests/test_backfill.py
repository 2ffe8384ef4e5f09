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
