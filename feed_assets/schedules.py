"""Starts by the clock: polls of partners, and a schedule instead of sensors, which runs each day once.

Here: schedules and the jobs of polls. Not here: polling (`polling.poller`), and late data, which sensors find.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import dagster as dg

from feed_assets.feed_events.scheduled import REMEMBERS, run_going_on, tags_of
from feed_assets.file_feed.wording import counted
from feed_assets.polling.poller import Poller, landing_by, open_index
from feed_assets.resources.settings import Clock, Settings
from feed_assets.resources.spark import SparkResource
from feed_assets.resources.storage import BlackboardResource
from feed_assets.run_history.remembered import Remembered
from feed_assets.run_history.tables import remember
from feed_assets.sources.spec import Source

LAST_HOUR = 23
"""The last hour of a day, and the longest buffer that the schedule waits for."""


SHOWN = 100
"""The most files of each outcome that a poll's run names: Dagster stores them with every poll of a file that fails."""


def process_yesterday(job: Any, sources: Sequence[Source]) -> Any:
    """Runs the day before after the longest `buffer_hours` of the sources. Stopped by default.

    If its last run still goes on, the tick is remembered, and the sensor `remembered_ticks` starts it after that run.
    `project.definitions` brings that sensor, and the resources that the schedule needs.
    """
    hours = min(max((source.buffer_hours for source in sources), default=0), LAST_HOUR)
    name = "process_yesterday"

    @dg.schedule(
        name=name,
        job=job,
        cron_schedule=f"15 {hours} * * *",
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        required_resource_keys={"blackboard", "state"},
        metadata={REMEMBERS: True},
        description=(
            f"Processes the day before at {hours:02}:15 UTC, when its last hour is {hours} h old; later if the run "
            "before has not ended by then. Not needed while the sensors run: they process each day, and find late data."
        ),
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        wanted = context.scheduled_execution_time
        with dg.partition_loading_context(wanted):
            days = context.repository_def.get_job(job.name).partitions_def if context.repository_def else None
            day = days.get_last_partition_key() if days else None
        if day is None:
            return dg.SkipReason("The job has no partition yet.")
        if (run := run_going_on(context.instance, name)) is not None:
            resources: Any = context.resources
            tick = Remembered(name, day, wanted)
            remember(resources.state.store, resources.blackboard.blackboard.uri(""), tick)
            return dg.SkipReason(f"Run {run} goes on: {day} is remembered, and starts when it has ended.")
        return dg.RunRequest(run_key=day, partition_key=day, tags=tags_of(name, wanted))

    return schedule


def polls(sources: Sequence[Source], settings: Settings) -> list[dg.ScheduleDefinition]:
    """A schedule and its job, `poll_<kind>_<name>`, for each polled source. Running by default.

    The sources are those of `with_schedules`. A tick while the schedule's run goes on is skipped, and not remembered:
    the next poll fetches all that is there.
    """
    return [_poll(source, settings) for source in sources if source.poll is not None]


def with_schedules(sources: Iterable[Source]) -> tuple[Source, ...]:
    """The sources, with `Source.unusable` for each whose schedule Dagster does not take."""
    return tuple(map(_with_schedule, sources))


def _with_schedule(source: Source) -> Source:
    if source.poll is None:
        return source
    try:
        dg.ScheduleDefinition(job_name="poll", cron_schedule=source.poll.every)
    except dg.DagsterInvalidDefinitionError:
        problem = f"{source.poll.every!r} is no schedule; write five fields of cron, such as '*/15 * * * *'"
        return Source.unusable(source.declared_kind, source.name, source.problem(("poll", "every"), problem))
    return source


def _poll(source: Source, settings: Settings) -> dg.ScheduleDefinition:
    suffix, every = source.key.replace("/", "_"), source.poll.every if source.poll else ""
    name = f"poll_{suffix}"
    description = f"Fetches and lands the new files of {source.key}. A file that fails keeps no other file back."

    # Dagster takes no op with the name of its job, nor of another op.
    @dg.op(name=f"fetch_{suffix}", description=description)
    def take(
        context: dg.OpExecutionContext, blackboard: BlackboardResource, spark: SparkResource, clock: Clock
    ) -> None:
        board = blackboard.blackboard
        land = landing_by(lambda: spark.spark_session, board, clock.now)
        index = open_index(board, settings.poll_table)
        polled = Poller(board, index, land, clock.now, begin=context.log.info).poll(source)
        metadata = _shown(polled.summary)
        if problems := polled.problems:
            left = len(problems) - SHOWN
            more = [f"and {left:,} more, which `feed-assets poll {source.key}` names"] if left > 0 else []
            what = f"{counted(len(problems), 'file')} of {source.key} failed: {'; '.join(problems[:SHOWN] + more)}"
            raise dg.Failure(what, metadata, allow_retries=False)
        context.add_output_metadata(metadata)

    @dg.job(name=name, description=description, executor_def=dg.in_process_executor, config=settings.run_config)
    def job() -> None:
        take()

    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if (run := run_going_on(context.instance, name)) is not None:
            return dg.SkipReason(f"Run {run} goes on. Nothing is lost: the next poll fetches all files that are there.")
        return dg.RunRequest(tags=tags_of(name, context.scheduled_execution_time))

    return dg.ScheduleDefinition(
        name=name,
        job=job,
        cron_schedule=every,
        execution_fn=tick,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=description,
    )


def _shown(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary of a poll with at most SHOWN files of each outcome, and then their number."""
    shown = dict(summary)
    for name, found in summary.items():
        if isinstance(found, list | dict) and len(found) > SHOWN:
            shown[name] = dict(islice(found.items(), SHOWN)) if isinstance(found, dict) else found[:SHOWN]
            shown[f"{name} in all"] = len(found)
    return shown
