"""Reading the raw partitions of a step: which files it reads, and how many records belong to each output.

Not here: listing raw files (`sources.raw`), and reading feeds (`step`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from feed_assets.datasets.days import ONE_DAY
from feed_assets.datasets.declaration import Place
from feed_assets.file_feed.claims import Claim
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.read_sets import in_full
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.record import FeedInput, RawInput, Record
from feed_assets.file_feed.wording import counted
from feed_assets.sources.absence import absences
from feed_assets.sources.known_contents import remembered
from feed_assets.sources.raw import evening, evening_read, read_sets, record_count, records_by_hour
from feed_assets.sources.spec import Source
from feed_assets.steps.raw_hours import Slice
from feed_assets.steps.run import Run, Window


@dataclass(slots=True)
class RawReader:
    """Reads raw partitions for a step with these claims, and adds their read sets to the step's `inputs`.

    `records` counts raw records by hour, in UTC; in a step that makes a single partition, by the first hour of each
    call of `read`. `empty_sources` has, by the start of a slice, the sources without a raw file in the slice, each
    with the reason why the slice is complete.
    """

    run: Run
    claims: Sequence[Claim]
    inputs: list[FeedInput | RawInput]
    records: Counter[datetime] = field(default_factory=Counter)
    empty_sources: dict[datetime, dict[str, str]] = field(default_factory=dict)
    _in_force: dict[Place, Record | None] = field(default_factory=dict, init=False)

    def read(self, source: Source, slices: Sequence[Slice], *, evening_hours: int) -> dict[str, list[RawInput]]:
        """The files of each slice, and those of the last `evening_hours` of the day before, if any."""
        board, log = self.run.board, self.run.log
        before = slices[0].day - ONE_DAY
        days = sorted({each.day for each in slices})
        listed = read_sets(board, source.key, [before, *days] if evening_hours else days)
        listed = {day: remembered(board, each) for day, each in listed.items()}
        found = {}
        if evening_hours and (snapshot := self._evening(listed[before], evening_hours)).files:
            self.inputs.append(snapshot)
            log.info(f"{source.key} {before}: the last {evening_hours} h are read as context.")
            found[str(before)] = [snapshot]
        read = {each: listed[each.day].during(each.hours) for each in slices}
        for day in days:
            # A record keeps one read set for each day, also if the day is read in several frames.
            files = tuple(file for each in slices if each.day == day for file in read[each].files)
            snapshot = replace(listed[day], files=files)
            self.inputs.append(snapshot)
            size = f"{counted(len(files), 'raw file')}, {snapshot.bytes:,} bytes"
            log.info(f"{source.key} {day}: the read set is {size}.")
        self._count(read)
        self._explain_empty(source, [each for each, snapshot in read.items() if not snapshot.files])
        return found | {each.key: [snapshot] for each, snapshot in read.items()}

    def records_read(self, window: Window | None) -> int:
        """How many raw records were read for a partition with this window."""
        return sum(count for moment, count in self.records.items() if self._belongs(moment, window))

    def empty_in(self, window: Window | None) -> dict[str, str]:
        """The sources without a raw file in this window, each with the reason why it is complete."""
        empty = [reasons for moment, reasons in sorted(self.empty_sources.items()) if self._belongs(moment, window)]
        return {source: reason for reasons in empty for source, reason in reasons.items()}

    @property
    def _single(self) -> bool:
        """Whether the step makes one partition only, so that all records are read for it."""
        return len({each.partition for each in self.claims}) <= 1

    def _belongs(self, moment: datetime, window: Window | None) -> bool:
        return self._single or (window is not None and window[0] <= moment < window[1])

    def _count(self, read: Mapping[Slice, RawInput]) -> None:
        """Count the records: names of landed files have the number, other files are counted in one job.

        Counting them in the step's own pass would keep Spark from compiling it.
        """
        spark, board = self.run.spark(), self.run.board
        if not self._single:
            self.records.update(records_by_hour(spark, board, read.values()))
        elif any(snapshot.files for snapshot in read.values()):
            self.records[min(each.start for each in read)] += record_count(spark, board, read.values())

    def _explain_empty(self, source: Source, empty: Sequence[Slice]) -> None:
        """Note why slices without a raw file are complete; if the reason is unknown, the checks judge.

        Raises RawFilesGoneError if somebody removed the files of a landing.
        """
        known = absences(self.run.board, source, sorted({each.day for each in empty}))
        for each in empty:
            reason = known.reason(each.day)
            if reason and not self._read_before(source.key, each):
                self.empty_sources.setdefault(each.start, {})[source.key] = reason
                self.run.log.info(f"{source.key} {each.key}: no records, and none are missing: {reason}.")

    def _read_before(self, source_key: str, wanted: Slice) -> bool:
        """Whether the update in force read raw files of these hours: then somebody deleted them since."""
        for claimed in self.claims:
            record = self._record_in_force(claimed, claimed.partition)
            read = record.read_sets.get((source_key, str(wanted.day))) if record else None
            if read and wanted.hours & read.hours.keys():
                return True
        return False

    def _evening(self, listed: RawInput, hours: int) -> RawInput:
        """The last hours of the day before: as that day's update read them, or without an update as `listed` now."""
        for claimed in self.claims:
            record = self._record_in_force(claimed, listed.partition)
            if record is not None and record.read_sets:
                read = record.read_sets.get((listed.source, listed.partition), replace(listed, files=()))
                place = claimed.feed, record.partition, record.update
                return evening_read(read, listed, hours, partial(in_full, *place)) or evening(listed, hours)
        return evening(listed, hours)

    def _record_in_force(self, claimed: Claim, partition: str | None) -> Record | None:
        """The record of the update in force, None without an update; looked up once for all sources."""
        place = claimed.feed.location, partition
        if place not in self._in_force:
            update = latest(claimed.feed, partition, now=self.run.now())
            self._in_force[place] = read_record(claimed.feed, partition, update.name) if update else None
        return self._in_force[place]
