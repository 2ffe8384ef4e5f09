"""The tags of runs that a schedule starts one after the other.

Here: the tags, and whether such a run goes on. Not here: schedules, and the sensor that starts what they remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import dagster as dg

SCHEDULE_TAG: Final = "feed_assets/schedule"
WANTED_TAG: Final = "feed_assets/wanted"
"""The time of the tick, in ISO 8601."""
REMEMBERS: Final = "feed_assets/remembers"
"""In a schedule's metadata: it remembers a tick while its run goes on."""
UNFINISHED: Final = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def tags_of(schedule: str, wanted: datetime) -> dict[str, str]:
    """The tags of the run of a tick."""
    return {SCHEDULE_TAG: schedule, WANTED_TAG: wanted.astimezone(UTC).isoformat()}


def run_going_on(instance: dg.DagsterInstance, schedule: str) -> str | None:
    """The id of a run of this schedule that has not ended; None if there is none."""
    found = instance.get_runs(dg.RunsFilter(statuses=UNFINISHED, tags={SCHEDULE_TAG: schedule}), limit=1)
    return found[0].run_id if found else None


def was_started(instance: dg.DagsterInstance, tags: Mapping[str, str]) -> bool:
    """Whether there is a run with these tags, in any state."""
    return bool(instance.get_runs(dg.RunsFilter(tags=dict(tags)), limit=1))


def remembers(schedule: Any) -> bool:
    """Whether this schedule remembers ticks."""
    return bool((getattr(schedule, "metadata", None) or {}).get(REMEMBERS))
