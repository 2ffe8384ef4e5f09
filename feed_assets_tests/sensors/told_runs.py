"""Runs that Dagster is told of as if they had happened: when they were wanted, began and ended.

Here: the events of such runs, through Dagster's own storage. Nothing is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import dagster as dg
from dagster._core.events import DagsterEvent, DagsterEventType, StepMaterializationData
from dagster._core.events.log import EventLogEntry
from dagster._core.test_utils import create_run_for_test


def tell(
    instance: dg.DagsterInstance,
    wanted: datetime,
    minutes: float,
    *,
    delay: float = 0.5,
    schedule: str = "",
    assets: Mapping[str, Mapping[str, object]] | None = None,
    partition: str | None = None,
    succeeds: bool = True,
    tags: Mapping[str, str] | None = None,
) -> str:
    """A run of these assets that ended, each with the metadata of its update; its id. `delay` is in minutes."""
    more = {"dagster/partition": partition} if partition else {}
    if schedule:
        more |= {"dagster/schedule_name": schedule, ".dagster/scheduled_execution_time": wanted.isoformat()}
    keys = {dg.AssetKey.from_user_string(name): metadata for name, metadata in (assets or {}).items()}
    run = create_run_for_test(
        instance, job_name="job", asset_selection=frozenset(keys) or None, tags={**more, **(tags or {})}
    )
    started, ended = wanted + timedelta(minutes=delay), wanted + timedelta(minutes=delay + minutes)

    def event(kind: DagsterEventType, at: datetime, data: object = None) -> None:
        happened = DagsterEvent(kind.value, "job", event_specific_data=data)  # type: ignore[arg-type]
        instance.handle_new_event(
            EventLogEntry(None, "debug", "", run.run_id, at.timestamp(), job_name="job", dagster_event=happened)
        )

    event(DagsterEventType.RUN_START, started)
    for key, metadata in keys.items() if succeeds else ():
        made = dg.AssetMaterialization(key, partition=partition, metadata={"update": "x", **metadata})
        event(DagsterEventType.ASSET_MATERIALIZATION, ended, StepMaterializationData(made))
    event(DagsterEventType.RUN_SUCCESS if succeeds else DagsterEventType.RUN_FAILURE, ended)
    return run.run_id
