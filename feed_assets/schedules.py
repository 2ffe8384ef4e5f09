"""A schedule instead of sensors: it runs each day once, when the day is complete. Only sensors find late data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from feed_assets.sources import Source

LAST_HOUR = 23
"""The last hour of a day, and the longest buffer that the schedule waits for."""


def process_yesterday(job: Any, sources: Sequence[Source]) -> Any:
    """Runs the day before after the longest `buffer_hours` of the sources. Stopped by default."""
    hours = min(max((source.buffer_hours for source in sources), default=0), LAST_HOUR)
    return dg.build_schedule_from_partitioned_job(
        job,
        name="process_yesterday",
        hour_of_day=hours,
        minute_of_hour=15,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=(
            f"Processes the day before at {hours:02}:15 UTC, when its last hour is {hours} h old. Not needed while the "
            "sensors run: they process each day, and find late data."
        ),
    )
