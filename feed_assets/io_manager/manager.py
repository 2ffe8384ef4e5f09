"""The IO manager: resolves inputs to exact files, stages outputs, and records what came from what.

Here: the meeting of Dagster's contexts and the File Feed protocol. Not here: Spark's reading and
writing (`spark_files`), what the UI shows of an update (`metadata`), publishing of audited assets (`checks`).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import reduce
from pathlib import Path
from typing import Any, get_origin

import dagster as dg
from pydantic import PrivateAttr
from pyspark.sql import DataFrame, Observation

from feed_assets.file_feed import (
    Claim,
    Facts,
    FeedInput,
    RawInput,
    Rows,
    Staged,
    Update,
    begun,
    claim,
    latest,
    publish,
    stage,
    staged_files,
)
from feed_assets.file_feed.wording import counted
from feed_assets.io_manager.declaration import (
    BOUNDARY,
    CONTEXT,
    EVENING_BEFORE,
    FeedDeclaration,
    is_required,
    plain,
    raw_source,
)
from feed_assets.io_manager.metadata import update_metadata
from feed_assets.io_manager.spark_files import Written, read_updates, write_files
from feed_assets.resources import BlackboardResource, Clock, SparkResource
from feed_assets.sources import Source, evening, load_sources, raw_frame, read_sets
from feed_assets.transforms import BOOKKEEPING, VERDICT, published_rows, quarantined_rows, verdict_counts
from feed_assets.transforms.days import ONE_DAY

INFRASTRUCTURE = frozenset({"blackboard", "clock", "file_feed", "io_manager", "spark"})
"""Resources that decide where and when something is computed, never what; no part of an update's configuration."""


@dataclass(slots=True)
class _StepInputs:
    """What one step has read so far: its lineage, and how many raw records there are of each day."""

    inputs: list[FeedInput | RawInput] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)


class FileFeedIOManager(dg.ConfigurableIOManager):
    """Reads raw partitions and feeds as DataFrames; writes DataFrames as updates.

    An input is all its partitions in one frame; annotated `dict[str, DataFrame]`, a frame a partition. An output is a
    DataFrame, or for a run over several partitions a `dict` of them. A frame with a verdict column (see
    `transforms.cleaning`) is split: published rows become the update, quarantined ones an update of the same name in
    the quarantine feed.

    An audited asset's update is only staged here; its checks publish or reject it. Any other is published at once.
    """

    blackboard: dg.ResourceDependency[BlackboardResource]
    spark: dg.ResourceDependency[SparkResource]
    clock: dg.ResourceDependency[Clock]
    sources_directory: str

    _steps: dict[tuple[str, str, int], _StepInputs] = PrivateAttr(default_factory=dict)
    _sources: dict[str, Source] = PrivateAttr(default_factory=dict)

    # --- reading -------------------------------------------------------------------------------------------------

    def load_input(self, context: dg.InputContext) -> DataFrame | dict[str, DataFrame]:
        """The input's rows: of raw partitions what is there now, of feeds the latest valid updates."""
        metadata = context.upstream_output.definition_metadata if context.upstream_output else {}
        source = raw_source(metadata)
        declaration = FeedDeclaration.of(metadata)
        if source is not None:
            frames = self._load_raw(context, source)
        elif declaration is not None:
            frames = self._load_feed(context, declaration)
        else:
            raise dg.DagsterInvariantViolationError(
                f"{context.asset_key.to_user_string()} is neither a feed nor raw data: give the asset "
                "`metadata=feed_metadata(...)` or `raw_metadata(...)`."
            )
        annotated = context.dagster_type.typing_type
        return frames if dict in {annotated, get_origin(annotated)} else reduce(DataFrame.unionByName, frames.values())

    def _load_raw(self, context: dg.InputContext, source_key: str) -> dict[str, DataFrame]:
        """A frame a day of the partner's records, as they lie there at this moment, and nothing that comes later.

        Where the input asks for it, the end of the day before comes with them, under that day, where there is any.
        """
        source = self._source(source_key)
        board = self.blackboard.blackboard
        step = self._step(context.step_context)
        spark = self.spark.spark_session
        hours = context.definition_metadata.get(EVENING_BEFORE, 0)
        days = sorted({date.fromisoformat(key[:10]) for key in context.asset_partition_keys})
        before = days[0] - ONE_DAY
        there = read_sets(board, source_key, [before, *days] if hours else days)
        frames = {}
        if hours and (snapshot := evening(there[before], hours)).files:
            step.inputs.append(snapshot)
            context.log.info(f"{source_key} {before}: the last {hours} h are read as context.")
            frames[str(before)] = raw_frame(spark, board, source, snapshot)
        for day in days:
            snapshot = there[day]
            frame = raw_frame(spark, board, source, snapshot)
            step.inputs.append(snapshot)
            if snapshot.files:
                # Parquet's footers tell. To count what passes through would keep Spark from compiling the pass as one.
                step.records[str(day)] += frame.count()
            files = counted(len(snapshot.files), "raw file")
            context.log.info(f"{source_key} {day}: the read set is {files}, {snapshot.bytes:,} bytes.")
            frames[str(day)] = frame
        return frames

    def _load_feed(self, context: dg.InputContext, declaration: FeedDeclaration) -> dict[str, DataFrame]:
        feed = declaration.on(self.blackboard.blackboard)
        spark = self.spark.spark_session
        step = self._step(context.step_context)
        context_days = bool(context.definition_metadata.get(CONTEXT))
        frames = {}
        partitions: Sequence[str | None] = context.asset_partition_keys if context.has_asset_partitions else [None]
        for partition in partitions:
            required = _is_required(context, partition)
            update = latest(feed, partition, now=self.clock.now())
            if update is None and required:
                raise _missing_upstream(declaration, feed.uri, partition)
            step.inputs.append(
                FeedInput(
                    feed=declaration.location,
                    partition=partition,
                    update=update.name if update else None,
                    context=context_days and not required,
                )
            )
            there = (
                f"update {update.name}, {counted(len(update.files), 'file')}"
                if update
                else "no valid update, read as empty"
            )
            context.log.info(f"{declaration.location} {partition or ''}: {there}.")
            frames[partition or ""] = read_updates(spark, [update] if update else [], declaration.schema)
        return frames

    # --- writing -------------------------------------------------------------------------------------------------

    def handle_output(self, context: dg.OutputContext, obj: DataFrame | Mapping[str, DataFrame]) -> None:
        """Write each partition's rows under a claim of its own, stage it, and tell Dagster about it."""
        declaration = FeedDeclaration.of(context.definition_metadata)
        if declaration is None:
            raise dg.DagsterInvariantViolationError(
                f"{context.asset_key.to_user_string()} is written by the File Feed IO manager but declares no feed: "
                "give the asset `metadata=feed_metadata(...)`."
            )
        step = self._steps.pop(_step_key(context.step_context), _StepInputs())
        frames = _by_partition(context, obj)
        # Dagster keeps one data version for all partitions of a run, so they are begun in the same second.
        now = self.clock.now()
        for partition, frame in frames.items():
            staged = self._stage(context, declaration, partition, frame, step, now)
            metadata = update_metadata(staged, self._previous(staged))
            if not declaration.audited:
                publish(staged, now=self.clock.now())
            context.step_context.set_data_version(context.asset_key, dg.DataVersion(staged.claim.name))
            if len(frames) == 1:
                context.add_output_metadata(metadata)
            else:
                context.step_context.add_asset_metadata(metadata, asset_key=context.asset_key, partition_key=partition)

    def _stage(
        self,
        context: dg.OutputContext,
        declaration: FeedDeclaration,
        partition: str | None,
        frame: DataFrame,
        step: _StepInputs,
        now: datetime,
    ) -> Staged:
        board = self.blackboard.blackboard
        claimed = claim(declaration.on(board), partition, now=now, owner=context.run_id)
        context.log.info(f"{declaration.location} {partition or ''}: update {claimed.name} begun.")
        expected, rows = self._write(claimed, declaration, frame, step.records[partition or ""])
        facts = Facts(
            rows=rows,
            schema=declaration.columns,
            inputs=tuple(step.inputs),
            code_version=_code_version(context),
            config_digest=_config_digest(context),
            run_id=context.run_id,
            details={"boundary": boundary} if (boundary := plain(context.output_metadata.get(BOUNDARY))) else {},
        )
        return stage(claimed, staged_files(claimed, expected), facts, now=self.clock.now())

    def _write(self, claimed: Claim, declaration: FeedDeclaration, frame: DataFrame, records: int) -> tuple[int, Rows]:
        """Write the data files, and what could not be used into the quarantine; the committed files, and the rows."""
        if VERDICT not in frame.columns:
            written = write_files(_conform(frame, declaration), claimed.uri)
            return written.files, Rows(
                read=written.rows, published=written.rows, quarantined=0, duplicates=0, reasons={}
            )
        # What only the quarantine needs is not carried along: the counting passes on whole rows.
        verdicts = Observation()
        judged = frame.drop(*BOOKKEEPING).observe(verdicts, *verdict_counts())
        written = write_files(_conform(published_rows(judged), declaration), claimed.uri)
        counts = {name: int(value or 0) for name, value in verdicts.get.items()}
        rows = _rows(counts, read=records, published=written.rows)
        self._quarantine(claimed, declaration, frame, rows)
        return written.files, rows

    def _quarantine(self, claimed: Claim, declaration: FeedDeclaration, frame: DataFrame, rows: Rows) -> None:
        """Keep the records that could not be used, under the same update's name where that is free.

        Where there are none any more, an empty update says so.
        """
        feed = FeedDeclaration(declaration.quarantine, declaration.table, ()).on(self.blackboard.blackboard)
        if not rows.quarantined and latest(feed, claimed.partition, now=self.clock.now()) is None:
            return
        kept = claim(feed, claimed.partition, now=begun(claimed.name), owner=claimed.owner)
        written = (
            write_files(quarantined_rows(frame), kept.uri, "json") if rows.quarantined else Written(files=0, rows=0)
        )
        facts = Facts(
            rows=Rows(read=rows.quarantined, published=written.rows, quarantined=0, duplicates=0, reasons={}),
            schema=(),
            inputs=(FeedInput(feed=declaration.location, partition=claimed.partition, update=claimed.name),),
            code_version="",
            config_digest="",
            run_id=claimed.owner,
            details={"quarantined_from": f"{declaration.location} {claimed.name}"},
        )
        publish(stage(kept, staged_files(kept, written.files), facts, now=self.clock.now()), now=self.clock.now())

    # --- small parts ---------------------------------------------------------------------------------------------

    def _previous(self, staged: Staged) -> Update | None:
        return latest(staged.claim.feed, staged.claim.partition, now=self.clock.now())

    def _source(self, key: str) -> Source:
        if not self._sources:
            self._sources = {source.key: source for source in load_sources(Path(self.sources_directory))}
        return self._sources[key]

    def _step(self, step_context: Any) -> _StepInputs:
        return self._steps.setdefault(_step_key(step_context), _StepInputs())


def _step_key(step_context: Any) -> tuple[str, str, int]:
    """One attempt at a step: what an attempt that failed has read is not what the next one reads."""
    return step_context.run_id, step_context.step.key, step_context.previous_attempt_count


def _is_required(context: dg.InputContext, partition: str | None) -> bool:
    """Whether a missing upstream partition is an error: it is inside the output's own window, and not optional.

    Partitions that a mapping adds outside that window (the next day's clicks) are read where they exist.
    """
    definition = context.asset_partitions_def if context.has_asset_partitions else None
    if partition is None or not isinstance(definition, dg.TimeWindowPartitionsDefinition):
        return is_required(context.definition_metadata, None, None)
    if not context.step_context.has_partitions:
        # An output without partitions is made from those that there are.
        return False
    window = definition.time_window_for_partition_key(partition)
    return is_required(context.definition_metadata, window, context.step_context.partition_time_window)


def _missing_upstream(declaration: FeedDeclaration, uri: str, partition: str | None) -> dg.Failure:
    """A permanent failure: running again changes nothing until someone publishes."""
    command = f"feed-assets feed ls {uri}" + (f" --partition {partition}" if partition else "")
    return dg.Failure(
        description=(
            f"{declaration.location} has no valid update" + (f" of {partition}" if partition else "") + ". "
            f"See why with `{command}`; then materialize that partition first."
        ),
        metadata={"feed": declaration.location, "partition": partition or "", "command": command},
        allow_retries=False,
    )


def _by_partition(
    context: dg.OutputContext, obj: DataFrame | Mapping[str, DataFrame]
) -> Mapping[str | None, DataFrame]:
    """The frames to write by the partition each belongs to. Raises where they are not those of this run."""
    keys = list(context.asset_partition_keys) if context.has_asset_partitions else []
    if isinstance(obj, DataFrame) and len(keys) <= 1:
        return {keys[0] if keys else None: obj}
    if isinstance(obj, Mapping) and keys and set(obj) == set(keys):
        frames: Mapping[str | None, DataFrame] = {key: obj[key] for key in keys}
        return frames
    got = sorted(obj) if isinstance(obj, Mapping) else type(obj).__name__
    raise dg.DagsterInvariantViolationError(
        f"{context.asset_key.to_user_string()} returned {got} for the partitions {keys}: return one DataFrame "
        "in a run over one partition, and a dict with a DataFrame for each key in a run over several."
    )


def _conform(frame: DataFrame, declaration: FeedDeclaration) -> DataFrame:
    """The declared columns in the declared order. Types are not cast: the schema check is to see what was made."""
    missing = [column.name for column in declaration.columns if column.name not in frame.columns]
    if missing:
        raise dg.DagsterInvariantViolationError(
            f"The result for {declaration.location} lacks the declared columns {', '.join(missing)}; "
            f"it has {', '.join(frame.columns)}."
        )
    return frame.select([column.name for column in declaration.columns])


def _rows(counts: Mapping[str, int], *, read: int, published: int) -> Rows:
    """The accounting of one write: each number counted where it arises, so that a check can compare them."""
    quarantined = {name: count for name, count in counts.items() if name.startswith("quarantined") and count}
    duplicates = {name: count for name, count in counts.items() if name.startswith("duplicate") and count}
    return Rows(
        read=read,
        published=published,
        quarantined=sum(quarantined.values()),
        duplicates=sum(duplicates.values()),
        reasons={**quarantined, **duplicates},
    )


def _code_version(context: dg.OutputContext) -> str:
    layer = context.step_context.job_def.asset_layer
    return layer.get(context.asset_key).code_version or ""


def _config_digest(context: dg.OutputContext) -> str:
    """16 hex digits that change with the configuration of the op and of every resource that is not infrastructure."""
    resolved = context.step_context.resolved_run_config
    op = resolved.ops.get(context.step_context.op.name)
    settings = {
        "op": op.config if op else None,
        "resources": {
            name: resource.config for name, resource in resolved.resources.items() if name not in INFRASTRUCTURE
        },
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]
