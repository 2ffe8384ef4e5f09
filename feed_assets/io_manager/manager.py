"""The IO manager: hands a step's inputs and outputs over between Dagster and `steps.step`.

Here: which inputs and outputs a Dagster step has, its errors as Dagster's, and its updates in Dagster's UI. Not here:
claiming, resolving and writing, which need no Dagster (`steps`), what contexts know (`step_contexts`), what the UI
shows of an update (`metadata`), publishing of audited assets (`checks`).
"""

from collections.abc import Mapping
from typing import Any, get_origin
from weakref import WeakKeyDictionary

import dagster as dg
from pydantic import PrivateAttr
from pyspark.sql import DataFrame

from feed_assets.datasets import FeedDeclaration
from feed_assets.file_feed import Staged, Update, begun, latest
from feed_assets.io_manager.asset_metadata import (
    BOUNDARY,
    CONTEXT,
    EVENING_BEFORE,
    declared_feed,
    plain,
    raw_source,
)
from feed_assets.io_manager.metadata import STATE, published_metadata, staged_metadata
from feed_assets.io_manager.retries import retrying
from feed_assets.io_manager.step_contexts import (
    frames_by_partition,
    is_required_input,
    makes_hours,
    outputs_of,
    partitions_read,
    run_of,
)
from feed_assets.resources import BlackboardResource, Clock, SparkResource
from feed_assets.sources import Source
from feed_assets.steps import MissingUpdateError, Reading, Step


class FileFeedIOManager(dg.ConfigurableIOManager):
    """Reads raw partitions and feeds as DataFrames; writes DataFrames as updates.

    An input is all its partitions in one frame; annotated `dict[str, DataFrame]`, a frame a partition. Of raw data,
    whose partitions are hours, it is a frame a day, and a frame an hour where the step makes shorter partitions than
    days. An output is a DataFrame, or for a run over several partitions a `dict` of them. A frame with a verdict column
    (see `engine.judged_rows`) is split: published rows become the update, quarantined ones an update of the same name
    in the quarantine feed.

    A step claims its updates when it reads its first input, before anything is looked up (see `steps.step`). An audited
    asset's update is only staged here; its checks publish or reject it. Any other is published at once. A step that
    storage did not answer is tried again, see `retries`. `sources` are all that raw inputs may name, by key.
    """

    blackboard: dg.ResourceDependency[BlackboardResource]
    spark: dg.ResourceDependency[SparkResource]
    clock: dg.ResourceDependency[Clock]
    sources: dg.ResourceDependency[Mapping[str, Source]]

    # By Dagster's context of the step: each attempt at it has its own.
    _steps: WeakKeyDictionary[Any, Step] = PrivateAttr(default_factory=WeakKeyDictionary)

    # --- reading -------------------------------------------------------------------------------------------------

    def load_input(self, context: dg.InputContext) -> DataFrame | dict[str, DataFrame]:
        """The input's rows: of raw partitions what is there now, of feeds the latest valid updates."""
        metadata = context.upstream_output.definition_metadata if context.upstream_output else {}
        source, declaration = raw_source(metadata), declared_feed(metadata)
        if source is None and declaration is None:
            raise dg.DagsterInvariantViolationError(
                f"{context.asset_key.to_user_string()} is neither a feed nor raw data: give the asset "
                "`metadata=feed_metadata(...)` or `raw_metadata(...)`."
            )
        with retrying(context.step_context.previous_attempt_count):
            reading = self._read_feed(context, declaration) if declaration else self._read_raw(context, str(source))
            annotated = context.dagster_type.typing_type
            return reading.frames() if dict in {annotated, get_origin(annotated)} else reading.frame()

    def _read_raw(self, context: dg.InputContext, source_key: str) -> Reading:
        return self._step(context).read_raw(
            self.sources[source_key],
            context.asset_partition_keys,
            by_hour=makes_hours(context.step_context),
            evening_hours=context.definition_metadata.get(EVENING_BEFORE, 0),
        )

    def _read_feed(self, context: dg.InputContext, declaration: FeedDeclaration) -> Reading:
        partitions = partitions_read(context)
        optional = {partition for partition in partitions if not is_required_input(context, partition)}
        is_context = bool(context.definition_metadata.get(CONTEXT))
        try:
            return self._step(context).read_feed(declaration, partitions, optional=optional, context=is_context)
        except MissingUpdateError as error:
            where = {"feed": error.feed.location, "partition": error.partition or "", "command": error.command}
            raise dg.Failure(description=str(error), metadata=where, allow_retries=False) from None

    # --- writing -------------------------------------------------------------------------------------------------

    def handle_output(self, context: dg.OutputContext, obj: DataFrame | Mapping[str, DataFrame]) -> None:
        """Write each partition's rows under a claim of its own, stage it, and tell Dagster about it."""
        declaration = declared_feed(context.definition_metadata)
        if declaration is None:
            raise dg.DagsterInvariantViolationError(
                f"{context.asset_key.to_user_string()} is written by the File Feed IO manager but declares no feed: "
                "give the asset `metadata=feed_metadata(...)`."
            )
        frames = frames_by_partition(context, obj)
        with retrying(context.step_context.previous_attempt_count):
            step = self._step(context)
            boundary = plain(context.output_metadata.get(BOUNDARY))
            for partition, frame in frames.items():
                place = declaration.location, partition
                staged = step.stage(place, frame, {"boundary": boundary} if boundary else None)
                self._report(context, declaration, staged, alone=len(frames) == 1)
                if not declaration.audited:
                    step.publish(staged)

    def _report(self, context: dg.OutputContext, declaration: FeedDeclaration, staged: Staged, *, alone: bool) -> None:
        """Tell Dagster what was written. The data version is that of the update that readers get in the end.

        Of an audited update Dagster hears only that it is staged: the audit reports the rest. Where an update that was
        begun later is in force already, this one becomes history at once.
        """
        feed, partition, name = staged.claim.feed, staged.claim.partition, staged.claim.name
        now = self.clock.now()
        in_force = latest(feed, partition, now=now)
        newer = in_force if in_force is not None and in_force.name > name else None
        previous = latest(feed, partition, now=now, as_of=begun(name)) if newer else in_force
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
        # Dagster keeps one data version for all partitions of a step; they are begun in the same second.
        step.set_data_version(context.asset_key, dg.DataVersion(newer.name if newer else name))
        if alone:
            context.add_output_metadata(metadata)
        else:
            step.add_asset_metadata(metadata, asset_key=context.asset_key, partition_key=partition)

    # --- small parts ---------------------------------------------------------------------------------------------

    def _step(self, context: dg.InputContext | dg.OutputContext) -> Step:
        """The step that this attempt is, begun when Dagster first asks for an input or gives an output."""
        step = context.step_context
        if step not in self._steps:
            run = run_of(step.dagster_run, self.blackboard, self.spark, self.clock, step.log)
            self._steps[step] = Step.begin(run, outputs_of(step, self))
        return self._steps[step]
