"""A schedule for those to whom sensors are too much: each day once, when it is complete.

Here: the schedule. Not here: late data, which only the sensors find (`sensors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from feed_assets.sources import Source

LAST_HOUR = 23
"""The last hour of a day; a longer buffer is cut to it."""


def process_yesterday(job: Any, sources: Sequence[Source]) -> Any:
    """Asks for the day before, once every source's `buffer_hours` have passed. Stopped unless somebody starts it."""
    hours = min(max((source.buffer_hours for source in sources), default=0), LAST_HOUR)
    return dg.build_schedule_from_partitioned_job(
        job,
        name="process_yesterday",
        hour_of_day=hours,
        minute_of_hour=15,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=(
            f"Processes the day before at {hours:02}:15 UTC, when its last hour is {hours} h old. Not needed while the "
            "sensors run: they do the same, and also find late data."
        ),
    )
