"""The IO manager: passes a step's inputs and outputs between Dagster and `steps.step`.

Here: the inputs and outputs of a Dagster step, and its errors and updates as Dagster's. Not here: claiming, resolving
and writing (`steps`), reading contexts (`step_contexts`), an update's metadata (`metadata`), audits (`checks`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_origin
from weakref import WeakKeyDictionary

import dagster as dg
from pyspark.sql import DataFrame

from feed_assets.datasets.declaration import FeedDeclaration, Place
from feed_assets.feed_events.declarations import BOUNDARY, CONTEXT, EVENING_BEFORE, declared_feed, plain, raw_source
from feed_assets.feed_events.metadata import STATE, published_metadata, staged_metadata
from feed_assets.feed_events.triggers import has_trigger
from feed_assets.file_feed.feed import Update
from feed_assets.file_feed.names import SECOND, begun
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.staging import Staged
from feed_assets.file_feed.start_objects import has_start
from feed_assets.io_manager.audits_under_way import once_audited
from feed_assets.io_manager.live_steps import LIVE_STEPS, LiveSteps, watched
from feed_assets.io_manager.observed import Observed
from feed_assets.io_manager.retries import retrying
from feed_assets.io_manager.run_attempts import ATTEMPTS, RunAttempts
from feed_assets.io_manager.step_contexts import (
    flows_of,
    frames_by_partition,
    is_required_input,
    is_selected,
    makes_hours,
    outputs_of,
    partitions_of,
    run_of,
)
from feed_assets.resources.settings import Clock
from feed_assets.resources.spark import SparkResource
from feed_assets.resources.storage import BlackboardResource
from feed_assets.sources.spec import Source
from feed_assets.starts.attempt import State
from feed_assets.steps.day_records import DayRecords
from feed_assets.steps.step import MissingUpdateError, Reading, Step


def file_feed_io_manager(sources: Iterable[Source], digested: Collection[dg.AssetKey] = ()) -> dg.IOManagerDefinition:
    """The IO manager of a project with these sources, on the resources of a run, including overrides.

    These are `blackboard`, `spark`, `clock`, `attempts` and `live_steps`. The records of `digested` assets, which
    assets with a trigger read, have a digest of the rows.
    """
    by_key = {source.key: source for source in sources}

    @dg.io_manager(required_resource_keys={"blackboard", "spark", "clock", ATTEMPTS, LIVE_STEPS})
    def file_feed(context: dg.InitResourceContext) -> FileFeedIOManager:
        given = context.resources
        digests = frozenset(digested)
        return FileFeedIOManager(
            given.blackboard, given.spark, given.clock, given.attempts, given.live_steps, by_key, digests
        )

    return file_feed


@dataclass(eq=False)
class FileFeedIOManager(dg.IOManager):
    """Reads raw partitions and feeds as DataFrames; writes DataFrames as updates.

    An input annotated `DataFrame` is one frame with all its partitions; annotated `dict[str, DataFrame]`, it is a frame
    for each partition. Raw data is a frame for each day, or for each hour if the step's own partitions are shorter than
    a day. An output is a DataFrame, or a `dict` of them in a run over several partitions. A frame with a verdict column
    (see `engine.judged_rows`) is split: published rows become the update, quarantined rows become an update of the same
    name in the quarantine feed. An output of one partition can be `Observed` rows.

    A step claims its updates before it reads its first input (see `steps.step`). The update of an audited asset is only
    staged; its checks publish or reject it. Other updates are published at once. A step is tried again if storage did
    not answer, or if a file of an input was replaced or removed while it ran (see `retries`). It waits for the audit
    of an input that another run has staged (see `audits_under_way`). If an earlier attempt stopped right after it had
    published, the next attempt reports that update, and publishes no other. `sources` has every source that raw inputs
    may name, by key.
    """

    blackboard: BlackboardResource
    spark: SparkResource
    clock: Clock
    attempts: RunAttempts
    live: LiveSteps
    sources: Mapping[str, Source]
    digested: frozenset[dg.AssetKey] = frozenset()

    # By Dagster's context of the step; each attempt has its own.
    _steps: WeakKeyDictionary[Any, Step] = field(init=False, default_factory=WeakKeyDictionary)

    # --- reading -------------------------------------------------------------------------------------------------

    def load_input(self, context: dg.InputContext) -> DataFrame | dict[str, DataFrame] | dict[str, DayRecords]:
        """The input's rows: raw partitions as they are now, or the latest valid updates of a feed.

        A raw input whose metadata declare a feed, which has its checked hours, is `DayRecords` for each day.
        """
        metadata = context.upstream_output.definition_metadata if context.upstream_output else {}
        source, declaration = raw_source(metadata), declared_feed(metadata)
        if source is None and declaration is None:
            raise dg.DagsterInvariantViolationError(
                f"{context.asset_key.to_user_string()} is neither a feed nor raw data: give the asset "
                "`metadata=feed_metadata(...)` or `raw_metadata(...)`."
            )
        attempt = context.step_context
        with self.live.failing(attempt.step.key), retrying(attempt.previous_attempt_count):
            checked = declared_feed(context.definition_metadata)
            if source is not None and checked is not None:
                return self._read_days(context, source, checked)
            reading = self._read_feed(context, declaration) if declaration else self._read_raw(context, str(source))
            annotated = context.dagster_type.typing_type
            return reading.frames() if dict in {annotated, get_origin(annotated)} else reading.frame()

    def _read_raw(self, context: dg.InputContext, source_key: str) -> Reading:
        return self._step(context).read_raw(
            self._source(source_key),
            context.asset_partition_keys,
            by_hour=makes_hours(context.step_context),
            evening_hours=context.definition_metadata.get(EVENING_BEFORE, 0),
        )

    def _source(self, key: str) -> Source:
        """Raises Failure if its description cannot be used: a day without its records would be incomplete."""
        source = self.sources[key]
        if source.problems:
            why = f"The description of {key} cannot be used, and a day without its records would be incomplete."
            raise dg.Failure(f"{why} Correct it, and reload the code location: {source.problems}", allow_retries=False)
        return source

    def _read_days(self, context: dg.InputContext, source_key: str, checked: FeedDeclaration) -> dict[str, DayRecords]:
        source, evening_hours = self._source(source_key), context.definition_metadata.get(EVENING_BEFORE, 0)
        keys = context.asset_partition_keys
        return self._step(context).read_days(source, keys, checked, evening_hours=evening_hours)

    def _read_feed(self, context: dg.InputContext, declaration: FeedDeclaration) -> Reading:
        partitions = partitions_of(context)
        optional = {partition for partition in partitions if not is_required_input(context, partition)}
        is_context = bool(context.definition_metadata.get(CONTEXT))
        made_elsewhere = not is_selected(context.step_context, context.asset_key)
        attempt, feed = context.step_context, declaration.on(self.blackboard.blackboard)

        def read() -> Reading:
            return self._step(context).read_feed(
                declaration, partitions, optional=optional, context=is_context, made_elsewhere=made_elsewhere
            )

        try:
            return once_audited(read, feed, partitions, attempt.instance, attempt.dagster_run, attempt.log)
        except MissingUpdateError as error:
            where = {"feed": error.feed.location, "partition": error.partition or "", "command": error.command}
            raise dg.Failure(description=str(error), metadata=where, allow_retries=False) from None

    # --- writing -------------------------------------------------------------------------------------------------

    def handle_output(self, context: dg.OutputContext, obj: DataFrame | Mapping[str, DataFrame] | Observed) -> None:
        """Write and stage each partition's rows under its own claim, and report the update to Dagster."""
        declaration = declared_feed(context.definition_metadata)
        if declaration is None:
            raise dg.DagsterInvariantViolationError(
                f"{context.asset_key.to_user_string()} is written by the File Feed IO manager but declares no feed: "
                "give the asset `metadata=feed_metadata(...)`."
            )
        frames = frames_by_partition(context, obj.rows if isinstance(obj, Observed) else obj)
        observed: dict[str, Any] = {}

        def details() -> dict[str, Any]:
            observed.update(obj.metadata() if isinstance(obj, Observed) else {})
            boundary = observed.pop(BOUNDARY, None) or plain(context.output_metadata.get(BOUNDARY))
            return {"boundary": boundary} if boundary else {}

        attempt = context.step_context
        with self.live.failing(attempt.step.key), retrying(attempt.previous_attempt_count):
            step, run = self._step(context), attempt.dagster_run
            places = [(declaration.location, partition) for partition in frames]
            published = {
                place: found for place in places if (found := self._published_before(context, declaration, place))
            }
            new = {place: frames[place[1]] for place in places if place not in published}
            staged_now = step.stage_all(new, details) if new else []
            context.add_output_metadata(observed)
            for staged in [*published.values(), *staged_now]:
                # Another update of its start may be published: that one is reported.
                started = not declaration.audited and has_start(staged.record)
                made = step.publish_start(staged) if started else staged
                self._report(context, declaration, made, alone=len(frames) == 1)
                if not (declaration.audited or started):
                    step.publish(staged)
                if not declaration.audited and has_trigger(context.definition_metadata):
                    self.attempts.end(run, (declaration.location, staged.claim.partition), State.PUBLISHED)
        self.live.written(attempt.step.key, places)

    def _published_before(self, context: dg.OutputContext, declaration: FeedDeclaration, place: Place) -> Staged | None:
        """The update that an earlier attempt at this step published before its process died, or None.

        After an attempt that succeeded, somebody wants another update.
        """
        attempt = context.step_context
        if declaration.audited or (attempt.previous_attempt_count == 0 and attempt.dagster_run.root_run_id is None):
            return None
        found = self._step(context).published_before(place)
        if found is None:
            return None
        succeeded = attempt.instance.all_logs(found.record.facts.run_id, of_type=dg.DagsterEventType.STEP_SUCCESS)
        if any(entry.step_key == attempt.step.key for entry in succeeded):
            return None
        context.log.info(
            f"{found.claim.uri} was published from the same inputs by an attempt that stopped before it could report "
            "it. It is reported now, and not written again."
        )
        return found

    def _report(self, context: dg.OutputContext, declaration: FeedDeclaration, staged: Staged, *, alone: bool) -> None:
        """Report an update to Dagster, with the data version of the update that readers will get.

        An audited update is reported as staged; the audit reports the rest. If an update that was begun later is in
        force, this update is history.
        """
        feed, partition, name = staged.claim.feed, staged.claim.partition, staged.claim.name
        now = self.clock.now()
        in_force = latest(feed, partition, now=now)
        newer = in_force if in_force is not None and in_force.name > name else None
        replaced = in_force is None or in_force.name < name
        previous = in_force if replaced else latest(feed, partition, now=now, as_of=begun(name) - SECOND)
        if declaration.audited:
            metadata = staged_metadata(feed, partition, name)
        else:
            update = Update(feed, partition, name, staged.record.files)
            metadata = published_metadata(update, staged.record, previous)
        if newer is not None:
            metadata[STATE] = f"history: {newer.name} is in force"
            context.log.warning(
                f"{feed.location} {partition or ''}: update {newer.name}, begun after {name}, is in force and stays: "
                f"it read newer inputs. {name} becomes history."
            )
        step = context.step_context
        # Dagster keeps one data version for all partitions of a step; their updates begin in the same second.
        step.set_data_version(context.asset_key, dg.DataVersion(newer.name if newer else name))
        if alone:
            context.add_output_metadata(metadata)
        else:
            step.add_asset_metadata(metadata, asset_key=context.asset_key, partition_key=partition)

    # --- small parts ---------------------------------------------------------------------------------------------

    def _step(self, context: dg.InputContext | dg.OutputContext) -> Step:
        """The step of this attempt, begun at its first input or output."""
        step = context.step_context
        if step not in self._steps:
            flows = flows_of(step, self)
            taken = self.attempts.take(step.dagster_run, flows)
            starts = {place: each.forced_key or flows[place] for place, each in taken.items()}
            run = run_of(step.dagster_run, self.blackboard, self.spark, self.clock, step.log, starts)
            outputs = list(outputs_of(step, self, self.digested))
            places = [output.place for output in outputs]
            watch = self.live.begin(step.step.key, places, step.log, attempts_before=step.previous_attempt_count)
            self._steps[step] = Step.begin(watched(run, watch), outputs)
        return self._steps[step]
