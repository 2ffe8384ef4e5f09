"""Runs that failed, in the words of people: which assets of which partition, and why.

Here: reading Dagster's events. Not here: what storage says of a day (`explanation`), which needs no Dagster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg

JAVA_CAUSE = "Caused by: "
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
            events = (entry.dagster_event for entry in instance.all_logs(run.run_id))
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


def failures(events: Iterable[Any]) -> list[str]:
    """Why a run failed: each check that rejected, each error at its root; that a check failed is not said twice."""
    found = []
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            if not check.passed and check.severity == dg.AssetCheckSeverity.ERROR:
                values = ", ".join(
                    f"{name} {value.value}" for name, value in check.metadata.items() if name != "update"
                )
                found.append(f"{check.asset_key.to_user_string()} {check.check_name}: {values}")
        elif event.is_step_failure and (reason := _unexpected(event.step_failure_data)):
            found.append(reason)
    return list(dict.fromkeys(found))


def _unexpected(data: Any) -> str | None:
    """What went wrong at the root, in a line; None where it is only that checks failed, which say so themselves."""
    error = data.error
    if error is None or error.cls_name == "DagsterAssetCheckFailedError":
        return None
    if data.user_failure_data is not None and data.user_failure_data.description:
        return str(data.user_failure_data.description)
    while error.cause is not None:
        error = error.cause
    return root_cause(str(error.message))


def root_cause(message: str) -> str:
    """The line of an error's message that says most: the last cause that Java names, else the first line."""
    lines = [line.strip() for line in message.strip().splitlines()]
    causes = [line.removeprefix(JAVA_CAUSE) for line in lines if line.startswith(JAVA_CAUSE)]
    return (causes or lines or ["no reason known"])[-1 if causes else 0]
