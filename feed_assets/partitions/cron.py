"""The ticks of cron expressions, as Dagster's schedules have them. Not here: what happens at a tick."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import dagster as dg

from feed_assets.errors import FeedAssetsError

_BEFORE_ALL: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CronError(FeedAssetsError):
    """Not a cron expression."""


def check_cron(expression: str) -> None:
    """Raise CronError unless this is a cron expression with a tick."""
    _ticks(expression, "UTC")


def first_tick(expression: str, timezone: str, moment: datetime) -> datetime:
    """The first tick at or after a moment, in UTC. A time that the clock skips is the first one after it.

    Raises CronError.
    """
    window = _ticks(expression, timezone).get_next_partition_window(moment, respect_bounds=False)
    if window is None:
        raise CronError(f"{expression!r} has no tick after {moment}.")
    return window.start.astimezone(UTC)


def _ticks(expression: str, timezone: str) -> dg.TimeWindowPartitionsDefinition:
    try:
        return dg.TimeWindowPartitionsDefinition(
            start=_BEFORE_ALL, fmt="%Y-%m-%dT%H:%M", cron_schedule=expression, timezone=timezone
        )
    except dg.DagsterInvalidDefinitionError:
        raise CronError(f"{expression!r} is no cron expression: write five fields, such as '0 6 * * *'.") from None
