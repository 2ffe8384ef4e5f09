"""One attempt at a step: it claims its updates, reads its inputs, and stages or publishes its results.

Here: claiming and resolving, in that order. Claims order updates, so an update made from older inputs never overtakes
an update made from newer inputs, whichever is written first. Not here: reading raw files (`raw_reading`), writing files
(`writing`), the audit (`audit`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame

from feed_assets.datasets.declaration import FeedDeclaration, Place
from feed_assets.engine.spark_schemas import spark_schema
from feed_assets.engine.update_files import read_updates
from feed_assets.file_feed.claims import Claim, claim
from feed_assets.file_feed.control import record_key, stored_record
from feed_assets.file_feed.errors import NoValidUpdateError, StartTakenError, UnreadableRecordError
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.quarantine import publish_both
from feed_assets.file_feed.reading import changed_files, latest
from feed_assets.file_feed.record import Facts, FeedInput, RawInput, inputs_digest
from feed_assets.file_feed.staging import Staged, stage, staged_files, staged_of
from feed_assets.file_feed.start_objects import REVISIONS, START
from feed_assets.file_feed.wording import counted
from feed_assets.sources.absence import EMPTY_SOURCES
from feed_assets.sources.raw import changed_raw_files, raw_frame
from feed_assets.sources.spec import Source
from feed_assets.steps.day_records import DayRecords, split
from feed_assets.steps.quarantining import Unstaged
from feed_assets.steps.raw_hours import slices
from feed_assets.steps.raw_reading import RawReader
from feed_assets.steps.run import Output, Run
from feed_assets.steps.transient import InputChangedError, is_sparks
from feed_assets.steps.writing import write


class MissingUpdateError(NoValidUpdateError):
    """A required input has no valid update. Running again does not help until someone publishes one."""

    def __init__(self, feed: Feed, partition: str | None) -> None:
        self.feed, self.partition = feed, partition
        of = f" of {partition}" if partition else ""
        self.command = f"feed-assets feed ls {feed.arguments(partition)}"
        advice = f"See why with `{self.command}`; then materialize that partition first."
        super().__init__(f"{feed.location} has no valid update{of}. {advice}")


@dataclass(frozen=True, slots=True)
class Reading:
    """The files that a step reads of an input, by partition."""

    parts: Mapping[str, Sequence[Any]]
    read: Callable[[Sequence[Any]], DataFrame]

    def frame(self) -> DataFrame:
        """The rows of all partitions, in one scan."""
        return self.read([each for part in self.parts.values() for each in part])

    def frames(self) -> dict[str, DataFrame]:
        """The rows of each partition, each with a scan of its own."""
        return {key: self.read(part) for key, part in self.parts.items()}


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt at a step. Make it with `Step.begin`, which claims before any input is read.

    `claims` has the claim for each output. `inputs` lists the inputs read so far, for the record of each update, and
    `updates` those of feeds with their files. If Spark fails and a file of an input changed, that is the error.
    """

    run: Run
    outputs: Mapping[Place, Output]
    claims: Mapping[Place, Claim]
    inputs: list[FeedInput | RawInput]
    raw: RawReader
    updates: list[Update] = field(default_factory=list)

    @classmethod
    def begin(cls, run: Run, outputs: Iterable[Output]) -> Step:
        """Claim an update for each output: one LIST and one PUT for each."""
        expected = {output.place: output for output in outputs}
        claims: dict[Place, Claim] = {}
        now = run.now()
        for place, output in expected.items():
            claims[place] = claim(output.declaration.on(run.board), output.partition, now=now, owner=run.run_id)
            title = _title(output.declaration.location, output.partition)
            run.log.info(f"{title}: update {claims[place].name} begun.")
        inputs: list[FeedInput | RawInput] = []
        return cls(run, expected, claims, inputs, RawReader(run, tuple(claims.values()), inputs))

    def read_feed(
        self,
        declaration: FeedDeclaration,
        partitions: Sequence[str | None] = (None,),
        *,
        optional: Collection[str | None] = (),
        context: bool = False,
        made_elsewhere: bool = False,
    ) -> Reading:
        """The rows of the latest valid update of each of these partitions, by partition ("" for a feed without any).

        An `optional` partition without a valid update has no rows. With `context`, the record marks the optional
        partitions as context only. Raises MissingUpdateError, and when the rows are read, as `read_updates` does.
        """
        feed, now = declaration.on(self.run.board), self.run.now()
        updates: dict[str, list[Update]] = {}
        inputs: list[FeedInput] = []
        for partition in partitions:
            update = latest(feed, partition, now=now)
            if update is None and partition not in optional:
                raise MissingUpdateError(feed, partition)
            noted = context and partition in optional
            name = update.name if update else None
            inputs.append(FeedInput(feed=feed.location, partition=partition, update=name, context=noted))
            updates[partition or ""] = [update] if update else []
        self.inputs.extend(inputs)
        self._log(feed, updates)
        self.updates.extend(each for found in updates.values() for each in found)
        spark = self.run.spark()
        schema = spark_schema(declaration.columns)

        def read(each: Sequence[Update]) -> DataFrame:
            with self._naming_changed_inputs():
                return read_updates(spark, each, schema, made_elsewhere=made_elsewhere)

        return Reading(updates, read)

    def _log(self, feed: Feed, updates: Mapping[str, Sequence[Update]]) -> None:
        """Log the updates that are read of an input, and in one line the partitions without a valid update."""
        for partition, found in updates.items():
            for update in found:
                files = counted(len(update.files), "file")
                self.run.log.info(f"{_title(feed.location, partition)}: update {update.name}, {files}.")
        if absent := [partition for partition, found in updates.items() if not found]:
            several = f" to {absent[-1]} ({len(absent)} partitions)" if len(absent) > 1 else ""
            title = _title(feed.location, absent[0])
            self.run.log.info(f"{title}{several}: no valid update, read as empty.")

    def read_raw(
        self, source: Source, hours: Iterable[str], *, by_hour: bool = False, evening_hours: int = 0
    ) -> Reading:
        """The partner's records of these hours, such as `2019-11-24-05:00`, by day, or with `by_hour` by hour.

        Only files that are present now are read. With `evening_hours`, the result also has the last hours of the day
        before, under that day, if they have files.
        """
        with self._naming_changed_inputs():
            found = self.raw.read(source, slices(hours, by_hour=by_hour), evening_hours=evening_hours)
        return Reading(found, lambda each: raw_frame(self.run.spark(), self.run.board, source, *each))

    def read_days(
        self, source: Source, hours: Iterable[str], checked: FeedDeclaration, *, evening_hours: int = 0
    ) -> dict[str, DayRecords]:
        """As `read_raw` by day, without the hours whose files were read by the update in force of the feed `checked`.

        Their rows come from that feed.
        """
        reading = self.read_raw(source, hours, evening_hours=evening_hours)
        spark, schema, feed = self.run.spark(), spark_schema(checked.columns), checked.on(self.run.board)
        days = {}
        for day, read in reading.parts.items():
            parts = split(self.run, feed, day, read)
            self.updates.extend(parts.checked)
            with self._naming_changed_inputs():
                days[day] = DayRecords(
                    raw=reading.read(parts.raw) if parts.raw or not parts.checked else None,
                    checked=read_updates(spark, parts.checked, schema) if parts.checked else None,
                )
        return days

    def stage(self, place: Place, frame: DataFrame) -> Staged:
        """As `stage_all`, for one output."""
        return self.stage_all({place: frame})[0]

    def stage_all(
        self, frames: Mapping[Place, DataFrame], details: Callable[[], Mapping[str, Any]] = dict
    ) -> list[Staged]:
        """Write and record the rows of these outputs; readers do not see them yet.

        When the rows are written, `details` gives more entries for their records.

        A frame with a verdict column (see `engine.judged_rows`) is split: published rows become the update, quarantined
        rows an update of the same name in the quarantine feed. Spark reads the inputs while it writes, so they are
        listed once more before anything is recorded: a LIST for each update read and each 1,000 files. Raises
        InputChangedError if a file was replaced or removed, and MissingColumnsError.
        """
        with self._naming_changed_inputs():
            written = [each for place, frame in frames.items() for each in self._write(place, frame)]
        self.require_unchanged()
        staged, own, more = [], set(self.claims.values()), details()
        for each in written:
            facts = replace(each.facts, details={**each.facts.details, **more}) if each.claim in own else each.facts
            staged.append(stage(each.claim, staged_files(each.claim, each.files), facts, now=self.run.now()))
        return [each for each in staged if each.claim in own]

    def _write(self, place: Place, frame: DataFrame) -> list[Unstaged]:
        output = self.outputs[place]
        empty_sources = self.raw.empty_in(output.window)
        start: dict[str, Any] = {START: self.run.starts[place]} if place in self.run.starts else {}
        if start and self.run.revisions:
            start[REVISIONS] = dict(self.run.revisions)
        facts = Facts(
            schema=output.declaration.columns,
            inputs=tuple(self.inputs),
            code_version=output.code_version,
            config_digest=output.config_digest,
            run_id=self.run.run_id,
            root_run_id=self.run.root_run_id,
            details={**({EMPTY_SOURCES: empty_sources} if empty_sources else {}), **start},
        )
        read = self.raw.records_read(output.window)
        return write(self.claims[place], frame, facts, read=read, content=output.content)

    def require_unchanged(self) -> None:
        """Raise InputChangedError if a file that this step reads is gone or changed since it was resolved."""
        changed = [uri for update in self.updates for uri in changed_files(update)]
        changed += changed_raw_files(self.run.board, [each for each in self.inputs if isinstance(each, RawInput)])
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise InputChangedError(
                f"{changed[0]}{more} changed or vanished while the step read it, so its result could mix two versions. "
                "Nothing was staged. Run the step again: it resolves its inputs anew."
            )

    @contextmanager
    def _naming_changed_inputs(self) -> Iterator[None]:
        """If Spark fails in here, look at the inputs, and raise InputChangedError if one changed."""
        try:
            yield
        except Exception as error:
            if is_sparks(error):
                try:
                    self.require_unchanged()
                except InputChangedError as changed:
                    raise changed from error
            raise

    def published_before(self, place: Place) -> Staged | None:
        """The update in force of an output, if an earlier attempt at this step published it from the same inputs.

        Earlier attempts are those of this run, and of the runs that it re-executes. None if an input, the code version
        or the configuration differs. Costs a LIST, and a LIST and a GET if an update is in force.
        """
        output = self.outputs[place]
        feed, partition = output.declaration.on(self.run.board), output.partition
        in_force = latest(feed, partition, now=self.run.now())
        try:
            stored = stored_record(feed, partition, in_force.name) if in_force else None
        except UnreadableRecordError:
            return None
        if stored is None:
            return None
        record, facts = stored.record, stored.record.facts
        # The key has the digest of the inputs.
        key = record_key(feed, partition, record.update, inputs_digest(self.inputs))
        made = (facts.root, facts.code_version, facts.config_digest, stored.key)
        if made != (self.run.root_run_id, output.code_version, output.config_digest, key):
            return None
        return staged_of(feed, stored)

    def publish_start(self, staged: Staged) -> Staged:
        """As `publish`; returns the update that is published, with its record: this one, or another of its start."""
        update = self.publish(staged)
        stored = stored_record(update.feed, update.partition, update.name)
        return staged if stored is None else staged_of(update.feed, stored)

    def publish(self, staged: Staged) -> Update:
        """Publish a staged update without an audit. Raises as `file_feed.publish` does.

        If another update of the same start is published, returns that one, and rejects this one.
        """
        try:
            return publish_both(staged, now=self.run.now())
        except StartTakenError as taken:
            if taken.update is None:
                raise
            self.run.log.warning(f"{staged.claim.uri} is not published: {taken}")
            return taken.update


def _title(location: str, partition: str | None) -> str:
    """The feed and the partition, for logs."""
    return f"{location} {partition}" if partition else location
