"""What the history of a series says, as notices, plots and Dagster's metadata.

Not here: the answers (`run_history`), and when they are sent or shown (`sensors.run_history`, `checks.deadlines`).
"""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import dagster as dg

from feed_assets.notices.messages import Notice
from feed_assets.run_history.health import DEADLINE, OVERLAP, Health
from feed_assets.run_history.overlap import TIGHT

SUBJECTS = {OVERLAP: "Runs will overlap", DEADLINE: "A deadline will be missed"}


def notice_of(found: Health, kind: str) -> Notice:
    """The notice of a warning."""
    subject = f"{SUBJECTS[kind]}: {found.series}"
    return Notice(subject, (found.warnings[kind],), recipients=(), kind=kind, command="feed-assets health")


def pictures_of(found: Health) -> dict[str, bytes]:
    """The plots of a series as PNG, by the kind of their warning; none without figures."""
    from feed_assets.notices import pictures  # noqa: PLC0415 - loads matplotlib

    drawn: dict[str, bytes] = {}
    if found.overlap is not None:
        drawn[OVERLAP] = pictures.interval_shares(found.series, found.overlap.shares, limit=TIGHT)
    if (made := found.forecast) is not None:
        drawn[DEADLINE] = pictures.deadline_forecast(
            found.series,
            {day: _minutes(each) for day, each in made.taken.items()},
            {day: _minutes(made.delay + each) for day, each in made.expected.items()},
            band=[(_minutes(made.delay + low), _minutes(made.delay + high)) for low, high in made.band.values()],
            limit=_minutes(made.limit),
        )
    return drawn


def metadata_of(found: Health) -> dict[str, Any]:
    """The figures of a series in Dagster's metadata; numbers stay numbers, which Dagster plots over time."""
    shown: dict[str, Any] = {"executions": found.executions}
    if found.overlap is not None:
        shown["share of the interval, %"] = round(100 * found.overlap.share, 1)
    if (made := found.forecast) is not None:
        shown["growth a week, %"] = round(100 * made.growth, 2)
        shown["missed on"] = str(made.missed_on or "none")
    for kind, picture in pictures_of(found).items():
        data = base64.b64encode(picture).decode()
        shown[kind] = dg.MetadataValue.md(f"![{kind}](data:image/png;base64,{data})")
    return shown


def _minutes(duration: timedelta) -> float:
    return duration.total_seconds() / 60
