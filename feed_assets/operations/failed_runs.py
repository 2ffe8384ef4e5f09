"""List failed runs: which assets of which partition failed, and why.

Here: reading Dagster's events. Not here: explaining a day from storage (`explanation`), which needs no Dagster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from feed_assets.feed_events.failures import EVENTS, errors, errors_outside_steps, rejections

LOOKED_AT = 50
"""The number of runs to look at for each partition, newest first."""


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A failed run with assets that no later run has updated."""

    run_id: str
    assets: tuple[str, ...]
    ended: datetime | None
    reasons: tuple[str, ...]


def failed_runs(instance: dg.DagsterInstance, partition: str) -> list[FailedRun]:
    """The failed runs of a partition whose assets no later run has updated, newest first."""
    updated: set[str] = set()
    found = []
    filters = dg.RunsFilter(tags={"dagster/partition": partition})
    for record in instance.get_run_records(filters, limit=LOOKED_AT):
        run = record.dagster_run
        assets = _assets(instance, run)
        if run.status == dg.DagsterRunStatus.SUCCESS:
            updated.update(assets)
        elif run.status == dg.DagsterRunStatus.FAILURE and not set(assets) <= updated:
            events = (entry.dagster_event for entry in instance.all_logs(run.run_id, of_type=EVENTS))
            reasons = tuple(failures(event for event in events if event is not None))
            ended = datetime.fromtimestamp(record.end_time, UTC) if record.end_time else None
            found.append(FailedRun(run.run_id, assets, ended, reasons))
            updated.update(assets)
    return found


def _assets(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[str, ...]:
    """The planned assets of a run. For a run in this process, only its log has them."""
    keys = set(run.asset_selection or ())
    if not keys:
        planned = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
        events = (entry.dagster_event for entry in planned)
        keys = {event.asset_key for event in events if event is not None and event.asset_key is not None}
    return tuple(sorted(key.to_user_string() for key in keys))


def failures(events: Iterable[dg.DagsterEvent]) -> list[str]:
    """The reasons of a failed run without repetition: the checks that rejected, and the root errors."""
    all_events = list(events)
    of_steps = [*rejections(all_events), *errors(all_events)]
    return list(dict.fromkeys(of_steps or errors_outside_steps(all_events)))
