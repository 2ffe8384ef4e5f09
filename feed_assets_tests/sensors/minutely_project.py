"""A project whose schedule ticks each minute, and whose runs last until a file is there, for a real daemon.

Here: the definitions. Not here: any test. The environment names the base and the file.
"""

import os
import time
from pathlib import Path

import dagster as dg

from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.schedules import process_yesterday
from feed_assets.sensors.remembered_ticks import remembered_ticks

BASE = os.environ["FEED_ASSETS_BASE"]
MINUTES = dg.TimeWindowPartitionsDefinition(cron_schedule="* * * * *", fmt="%Y-%m-%d-%H:%M", start="2026-01-01-00:00")


@dg.asset(partitions_def=MINUTES)
def minutely() -> None:
    """Goes on until the file is there."""
    while not Path(BASE, "go").exists():
        time.sleep(0.1)


job = dg.define_asset_job("process_minute", [minutely], executor_def=dg.in_process_executor)
schedule = process_yesterday(job, [])
# A day is too long for a test.
schedule._cron_schedule = "* * * * *"
schedule._default_status = dg.DefaultScheduleStatus.RUNNING

defs = dg.Definitions(
    [minutely],
    jobs=[job],
    schedules=[schedule],
    sensors=[remembered_ticks({schedule.name: job}, interval_seconds=1)],
    resources={"blackboard": BlackboardResource(base=BASE), "state": StateResource(url=f"sqlite:///{BASE}/state.db")},
)
