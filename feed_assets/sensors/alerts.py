"""The sensor that sends alerts for failed runs and rejected updates; `resources.notifier` delivers them."""

from __future__ import annotations

import dagster as dg

from feed_assets.datasets.days import is_day
from feed_assets.feed_events.failures import EVENTS, errors, errors_outside_steps, progress, rejections
from feed_assets.resources.notifier import Alert, Notifier
from feed_assets.sensors.busy import WILL_RETRY


def alerts(*, interval_seconds: int) -> dg.SensorDefinition:
    """Sends an alert for each failed run of this code location's assets, including runs of `feed-assets backfill`."""

    @dg.run_failure_sensor(
        name="alerts",
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        # Runs of the command line belong to no code location. `_is_ours` leaves out the runs of other code locations.
        monitor_all_code_locations=True,
        description=(
            "Sends an alert, by the resource `notifier`, for each run that failed and is not retried, and for each "
            "update that its checks rejected."
        ),
    )
    def sensor(context: dg.RunFailureSensorContext, notifier: Notifier) -> None:
        if not _is_ours(context) or context.dagster_run.tags.get(WILL_RETRY) == "true":
            return
        alert = alert_of(context.instance, context.dagster_run, context.failure_event.message or "")
        notifier.notify(alert)
        context.log.info(f"Sent: {alert.text}")

    return sensor


def alert_of(instance: dg.DagsterInstance, run: dg.DagsterRun, message: str) -> Alert:
    """The alert of a failed run; without another reason it states Dagster's `message`."""
    records = instance.get_records_for_run(run.run_id, of_type=EVENTS).records
    events = [event for each in records if (event := each.event_log_entry.dagster_event) is not None]
    rejected, failed = rejections(events), errors(events)
    ends = [run.tags.get(f"dagster/asset_partition_range_{end}") for end in ("start", "end")]
    partition = run.tags.get("dagster/partition") or " to ".join(filter(None, ends)) or None
    day = (partition or "")[:10]
    return Alert(
        kind="rejected" if rejected and not failed else "failed",
        assets=tuple(sorted(key.to_user_string() for key in run.asset_selection or ())) or (run.job_name,),
        partition=partition,
        reasons=(*rejected, *failed, *progress(events)) or errors_outside_steps(events) or (message,),
        run_id=run.run_id,
        command=f"feed-assets explain {day}" if is_day(day) else f"the run {run.run_id} in the UI",
    )


def _is_ours(context: dg.RunFailureSensorContext) -> bool:
    """Whether the run computes assets of this code location."""
    repository, run = context.repository_def, context.dagster_run
    if repository is None or run.asset_selection is None:
        return repository is None or repository.has_job(run.job_name)
    return bool(run.asset_selection & repository.asset_graph.get_all_asset_keys())
