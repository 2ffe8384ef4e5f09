"""The sensor that starts the ticks that schedules have remembered, each when the run before has ended.

Not here: remembering (`schedules`), and what starts for other reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import dagster as dg

from feed_assets.feed_events.scheduled import run_going_on, tags_of, was_started
from feed_assets.run_history.tables import forget, remembered

NAME: Final = "remembered_ticks"


def remembered_ticks(jobs: Mapping[str, Any], *, interval_seconds: int) -> dg.SensorDefinition:
    """Starts the remembered ticks of these schedules, one after the other. `jobs` are theirs, by their names."""

    @dg.sensor(
        name=NAME,
        jobs=list(jobs.values()),
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={"blackboard", "state"},
        description=(
            "Starts a tick of a schedule that came while the run of an earlier tick went on, when that has ended: "
            f"{', '.join(jobs)}."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        resources: Any = context.resources
        store, base = resources.state.store, resources.blackboard.blackboard.uri("")
        requests: dict[str, dg.RunRequest] = {}
        waiting = 0
        for tick in remembered(store, base):
            name, tags = tick.schedule, tags_of(tick.schedule, tick.wanted)
            # Forgotten only when the run is there: a request may be lost with the daemon.
            if was_started(context.instance, tags):
                forget(store, base, tick)
            elif name in jobs and name not in requests and run_going_on(context.instance, name) is None:
                requests[name] = dg.RunRequest(
                    run_key=f"{name} {tick.partition} {tick.wanted.isoformat()}",
                    job_name=jobs[name].name,
                    partition_key=tick.partition or None,
                    tags=tags,
                )
            else:
                waiting += 1
        skipped = f"{waiting} wait for a run to end." if waiting else "No tick is remembered."
        return dg.SensorResult(
            run_requests=list(requests.values()), skip_reason=None if requests else dg.SkipReason(skipped)
        )

    return sensor
