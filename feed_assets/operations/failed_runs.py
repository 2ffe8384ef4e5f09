"""Runs that failed, in the words of people: which assets of which partition, and why.

Here: reading Dagster's events. Not here: what storage says of a day (`explanation`), which needs no Dagster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from feed_assets.sensors.failures import EVENTS, errors, rejections

LOOKED_AT = 50
"""Runs of a partition that are looked at, the newest first."""


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that failed, with nothing of its assets made since."""

    run_id: str
    assets: tuple[str, ...]
    ended: datetime | None
    reasons: tuple[str, ...]


def failed_runs(instance: dg.DagsterInstance, partition: str) -> list[FailedRun]:
    """The failed runs of a partition that no later run of the same assets has made good, newest first."""
    made: set[str] = set()
    found = []
    filters = dg.RunsFilter(tags={"dagster/partition": partition})
    for record in instance.get_run_records(filters, limit=LOOKED_AT):
        run = record.dagster_run
        assets = _assets(instance, run)
        if run.status == dg.DagsterRunStatus.SUCCESS:
            made.update(assets)
        elif run.status == dg.DagsterRunStatus.FAILURE and not set(assets) <= made:
            events = (entry.dagster_event for entry in instance.all_logs(run.run_id, of_type=EVENTS))
            reasons = tuple(failures(event for event in events if event is not None))
            ended = datetime.fromtimestamp(record.end_time, UTC) if record.end_time else None
            found.append(FailedRun(run.run_id, assets, ended, reasons))
            made.update(assets)
    return found


def _assets(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[str, ...]:
    """The assets that a run was to make; a run in this process has them in its log only."""
    keys = set(run.asset_selection or ())
    if not keys:
        planned = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
        events = (entry.dagster_event for entry in planned)
        keys = {event.asset_key for event in events if event is not None and event.asset_key is not None}
    return tuple(sorted(key.to_user_string() for key in keys))


def failures(events: Iterable[dg.DagsterEvent]) -> list[str]:
    """Why a run failed: each check that rejected, each error at its root, each once."""
    all_events = list(events)
    return list(dict.fromkeys([*rejections(all_events), *errors(all_events)]))
