"""The IO manager: resolves inputs to exact files, stages outputs, and records what came from what.

Here: the meeting of Dagster's contexts and the File Feed protocol. Not here: Spark's reading and
writing (`spark_files`), what the UI shows of an update (`metadata`), publishing of audited assets (`checks`).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Any, get_origin
from weakref import WeakKeyDictionary

import dagster as dg
from pydantic import PrivateAttr
from pyspark.sql import DataFrame, Observation

from feed_assets.blackboard import Blackboard
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
    read_record,
    stage,
    staged_files,
)
from feed_assets.file_feed.wording import counted
from feed_assets.io_manager.attempt import EMPTY_SOURCES, Attempt, outputs_of, partitions_of
from feed_assets.io_manager.declaration import (
    BOUNDARY,
    CONFIGURATION,
    CONTEXT,
    EVENING_BEFORE,
    FeedDeclaration,
    is_required,
    plain,
    raw_source,
)
from feed_assets.io_manager.metadata import STATE, published_metadata, staged_metadata
from feed_assets.io_manager.quarantine import publish_both, stage_quarantine
from feed_assets.io_manager.raw_hours import hours_by_day, of_hours
from feed_assets.io_manager.retries import retrying
from feed_assets.io_manager.spark_files import read_updates, write_files
from feed_assets.io_manager.time_windows import days_of, time_window
from feed_assets.resources import BlackboardResource, Clock, SparkResource
from feed_assets.sources import Source, evening, evening_read, load_sources, raw_frame, read_sets, why_nothing
from feed_assets.transforms import BOOKKEEPING, VERDICT, published_rows, verdict_counts
from feed_assets.transforms.days import ONE_DAY

INFRASTRUCTURE = frozenset({"blackboard", "clock", "file_feed", "io_manager", "spark"})
"""Resources that decide where and when something is computed, never what; no part of an update's configuration."""


class FileFeedIOManager(dg.ConfigurableIOManager):
    """Reads raw partitions and feeds as DataFrames; writes DataFrames as updates.

    An input is all its partitions in one frame; annotated `dict[str, DataFrame]`, a frame a partition. An output is a
    DataFrame, or for a run over several partitions a `dict` of them. A frame with a verdict column (see
    `transforms.cleaning`) is split: published rows become the update, quarantined ones an update of the same name in
    the quarantine feed.

    A step claims its updates when it reads its first input, before anything is looked up: an update that was begun
    on older inputs is older than one that was begun on newer ones, whichever is written first. An audited asset's
    update is only staged here; its checks publish or reject it. Any other is published at once. A step that storage
    did not answer is tried again, see `retries`.
    """

    blackboard: dg.ResourceDependency[BlackboardResource]
    spark: dg.ResourceDependency[SparkResource]
    clock: dg.ResourceDependency[Clock]
    sources_directory: str

    # By Dagster's context of the step: each attempt at it has its own.
    _attempts: WeakKeyDictionary[Any, Attempt] = PrivateAttr(default_factory=WeakKeyDictionary)
    _sources: dict[str, Source] = PrivateAttr(default_factory=dict)

    # --- reading -------------------------------------------------------------------------------------------------

    def load_input(self, context: dg.InputContext) -> DataFrame | dict[str, DataFrame]:
        """The input's rows: of raw partitions what is there now, of feeds the latest valid updates."""
        metadata = context.upstream_output.definition_metadata if context.upstream_output else {}
        source, declaration = raw_source(metadata), FeedDeclaration.of(metadata)
        if source is None and declaration is None:
            raise dg.DagsterInvariantViolationError(
                f"{context.asset_key.to_user_string()} is neither a feed nor raw data: give the asset "
                "`metadata=feed_metadata(...)` or `raw_metadata(...)`."
            )
        with retrying(context.step_context.previous_attempt_count):
            self._claim_outputs(context.step_context)
            frames = self._load_feed(context, declaration) if declaration else self._load_raw(context, str(source))
            annotated = context.dagster_type.typing_type
            if dict in {annotated, get_origin(annotated)}:
                return frames
            if not frames and declaration:
                # A partition mapping may name no partition, such as the next day of the last one.
                return read_updates(self.spark.spark_session, [], declaration.schema)
            return reduce(DataFrame.unionByName, frames.values())

    def _claim_outputs(self, step: Any) -> None:
        """Claim an update for each partition that this attempt is to make, before anything is read."""
        if step in self._attempts:
            return
        attempt = self._attempts[step] = Attempt()
        now = self.clock.now()
        for output in outputs_of(step, self):
            declaration = FeedDeclaration.of(output.definition_metadata)
            if declaration is None:
                continue
            for partition in partitions_of(output):
                claimed = claim(declaration.on(self._board), partition, now=now, owner=step.run_id)
                output.log.info(f"{declaration.location} {partition or ''}: update {claimed.name} begun.")
                attempt.claims[output.asset_key, partition] = claimed

    def _load_raw(self, context: dg.InputContext, source_key: str) -> dict[str, DataFrame]:
        """A frame a day of the partner's records, as they lie there at this moment, and nothing that comes later.

        Where the input asks for it, the end of the day before comes with them, under that day, where there is any.
        """
        source = self._source(source_key)
        board, spark = self._board, self.spark.spark_session
        attempt = self._attempts[context.step_context]
        evening_hours = context.definition_metadata.get(EVENING_BEFORE, 0)
        hours = hours_by_day(context.asset_partition_keys)
        before = min(hours) - ONE_DAY
        there = read_sets(board, source_key, [before, *hours] if evening_hours else list(hours))
        frames = {}
        if evening_hours and (snapshot := self._evening(attempt, there[before], evening_hours)).files:
            attempt.inputs.append(snapshot)
            context.log.info(f"{source_key} {before}: the last {evening_hours} h are read as context.")
            frames[str(before)] = raw_frame(spark, board, source, snapshot)
        for day in hours:
            snapshot = of_hours(there[day], hours[day])
            frame = raw_frame(spark, board, source, snapshot)
            attempt.inputs.append(snapshot)
            if snapshot.files:
                # Parquet's footers tell. To count what passes through would keep Spark from compiling the pass as one.
                attempt.records[str(day)] += frame.count()
            elif not self._read_before(attempt, source_key, day) and (why := why_nothing(board, source, day)):
                attempt.empty_sources.setdefault(str(day), {})[source_key] = why
                context.log.info(f"{source_key} {day}: no records, and none are missing: {why}.")
            files = counted(len(snapshot.files), "raw file")
            context.log.info(f"{source_key} {day}: the read set is {files}, {snapshot.bytes:,} bytes.")
            frames[str(day)] = frame
        return frames

    def _read_before(self, attempt: Attempt, source_key: str, day: date) -> bool:
        """Whether the update in force has read raw files of this source and day: if none is left, they were deleted."""
        for claimed in attempt.claims.values():
            update = latest(claimed.feed, claimed.partition, now=self.clock.now())
            record = read_record(claimed.feed, claimed.partition, update.name) if update else None
            inputs = record.facts.inputs if record else ()
            raw = (each for each in inputs if isinstance(each, RawInput) and not each.context)
            if any(each.files and (each.source, each.partition) == (source_key, str(day)) for each in raw):
                return True
        return False

    def _evening(self, attempt: Attempt, there: RawInput, hours: int) -> RawInput:
        """The last hours of the day before, as that day's update read them; as they are where it has no update.

        `there` is what lies there now of one source.
        """
        for claimed in attempt.claims.values():
            before = latest(claimed.feed, there.partition, now=self.clock.now())
            record = read_record(claimed.feed, there.partition, before.name) if before else None
            if record is not None and record.read_sets:
                nothing = replace(there, files=())
                return evening_read(record.read_sets.get(there.source, nothing), there, hours)
        return evening(there, hours)

    def _load_feed(self, context: dg.InputContext, declaration: FeedDeclaration) -> dict[str, DataFrame]:
        feed = declaration.on(self._board)
        spark = self.spark.spark_session
        attempt = self._attempts[context.step_context]
        context_days = bool(context.definition_metadata.get(CONTEXT))
        frames = {}
        partitions = list(map(str, context.asset_partition_keys)) if context.has_asset_partitions else [None]
        for partition in partitions:
            required = _is_required(context, partition)
            update = latest(feed, partition, now=self.clock.now())
            if update is None and required:
                raise _missing_upstream(declaration, feed.uri, partition)
            attempt.inputs.append(
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
        frames = _by_partition(context, obj)
        with retrying(context.step_context.previous_attempt_count):
            self._claim_outputs(context.step_context)
            for partition, frame in frames.items():
                staged = self._stage(context, declaration, partition, frame, alone=len(frames) == 1)
                self._report(context, declaration, staged, alone=len(frames) == 1)
                if not declaration.audited:
                    publish_both(staged, now=self.clock.now())

    def _stage(
        self,
        context: dg.OutputContext,
        declaration: FeedDeclaration,
        partition: str | None,
        frame: DataFrame,
        *,
        alone: bool,
    ) -> Staged:
        attempt = self._attempts[context.step_context]
        claimed = attempt.claims[context.asset_key, partition]
        run = context.step_context.dagster_run
        days = attempt.days if alone else days_of(context.asset_partitions_def, partition)
        empty_sources = {
            source: why for day in sorted(days) for source, why in attempt.empty_sources.get(day, {}).items()
        }
        facts = Facts(
            schema=declaration.columns,
            inputs=tuple(attempt.inputs),
            code_version=_code_version(context),
            config_digest=_config_digest(context),
            run_id=run.run_id,
            root_run_id=run.root_run_id or run.run_id,
            details=({EMPTY_SOURCES: empty_sources} if empty_sources else {})
            | ({"boundary": boundary} if (boundary := plain(context.output_metadata.get(BOUNDARY))) else {}),
        )
        read = sum(attempt.records[day] for day in days)
        files, facts = self._write(claimed, declaration, frame, facts, read)
        return stage(claimed, staged_files(claimed, files), facts, now=self.clock.now())

    def _write(
        self, claimed: Claim, declaration: FeedDeclaration, frame: DataFrame, facts: Facts, read: int
    ) -> tuple[int, Facts]:
        """Write the data files, and stage what could not be used; the number of committed files, the facts with rows.

        `read` is how many raw records there are of this partition.
        """
        if VERDICT not in frame.columns:
            written = write_files(_conform(frame, declaration), claimed.uri)
            rows = Rows(read=written.rows, published=written.rows, quarantined=0, duplicates=0, reasons={})
            return written.files, replace(facts, rows=rows)
        # What only the quarantine needs is not carried along: the counting passes on whole rows.
        verdicts = Observation()
        judged = frame.drop(*BOOKKEEPING).observe(verdicts, *verdict_counts())
        written = write_files(_conform(published_rows(judged), declaration), claimed.uri)
        counts = {name: int(value or 0) for name, value in verdicts.get.items()}
        rows = _rows(counts, read=read, published=written.rows)
        details = stage_quarantine(claimed, frame, rows, facts, now=self.clock.now())
        return written.files, replace(facts, rows=rows, details={**facts.details, **details})

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

    @property
    def _board(self) -> Blackboard:
        return self.blackboard.blackboard

    def _source(self, key: str) -> Source:
        if not self._sources:
            self._sources = {source.key: source for source in load_sources(Path(self.sources_directory))}
        return self._sources[key]


def _is_required(context: dg.InputContext, partition: str | None) -> bool:
    """Whether a missing upstream partition is an error: it is inside the output's own time, and not optional.

    Partitions that a mapping adds outside that time (the next day's clicks) are read where they exist, and so are all
    of an output without a time of its own, or without partitions.
    """
    upstream = context.asset_partitions_def if context.has_asset_partitions else None
    own = context.step_context.entity_partitions_def
    if upstream is not None and own is None:
        return False
    window = time_window(upstream, partition)
    if window is None:
        return is_required(context.definition_metadata, None, None)
    windows = [time_window(own, key) for key in context.step_context.partition_key_range]
    first, last = windows[0], windows[-1]
    time = dg.TimeWindow(first.start, last.end) if first is not None and last is not None else None
    return is_required(context.definition_metadata, window, time)


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
    keys = partitions_of(context)
    if isinstance(obj, DataFrame) and len(keys) == 1:
        return {keys[0]: obj}
    if isinstance(obj, Mapping) and set(obj) == set(keys):
        return {key: obj[key] for key in keys if key is not None}
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
    """16 hex digits that change with the configuration of the op and of every resource that is not infrastructure.

    So they do with what the asset was built from, where it says that (`CONFIGURATION`).
    """
    resolved = context.step_context.resolved_run_config
    op = resolved.ops.get(context.step_context.op.name)
    settings = {
        "asset": plain(context.definition_metadata.get(CONFIGURATION)),
        "op": op.config if op else None,
        "resources": {
            name: resource.config for name, resource in resolved.resources.items() if name not in INFRASTRUCTURE
        },
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]
