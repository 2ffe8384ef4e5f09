"""Landing the segments of a journal, and the process that does so: the only one of a receiver that loads Spark.

Here: the file of a segment for each source, and the loop of the process. Not here: landing files (`sources.landing`),
and who starts the process and removes segments (`keeping`).

The file of a segment is always the same, whoever writes it and how often, and no two segments have equal files. So a
segment that is landed again, after any crash, adds nothing. Once a file has landed, its receipts are written
(`receipts`), so that each record leads to its request.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from feed_assets.blackboard.port import Blackboard
from feed_assets.journal.segments import MEDIUM_ERRORS, Segments
from feed_assets.processes.child import end_with_parent, leave_signals
from feed_assets.receiving.entries import Entry, entries
from feed_assets.receiving.receipts import ENDING, Receipt, Receipts, receipt, write_receipts
from feed_assets.receiving.rejections import line_of
from feed_assets.sources.reasons import with_columns
from feed_assets.sources.scratch import TOGETHER, scratch_directory
from feed_assets.sources.source_errors import SourceError
from feed_assets.sources.spec import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from feed_assets.sources.ledger import Landing


_OF_A_SOURCE: Final = (SourceError, LookupError)
"""Errors that concern no other source."""
_GONE: Final = "is no source any more; describe it again"


@dataclass(frozen=True, slots=True)
class SourceOutcome:
    """What became of the records of one source: how many landed, and how many went to quarantine.

    `later` counts those that were accepted first, by partner and reason.
    """

    landed: int
    quarantined: int
    later: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a segment: records by outcome, the sources that landed, and the problem of each that did not.

    `stuck` has the sources whose problem is their own, such as a description that takes no file; `failed` the others,
    whose problem may be that of all sources, such as storage that does not answer. `sources` has what became of each
    source in `done`.
    """

    segment: str
    landed: int = 0
    quarantined: int = 0
    problems: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    sources: Mapping[str, SourceOutcome] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """The file of a segment for one source, and which of its lines are which request's."""

    path: Path
    requests: list[Receipt]


class _Quarantined(msgspec.Struct, frozen=True):
    """What is needed of a record that landing put into quarantine."""

    line: int
    reason: str


_quarantined = msgspec.json.Decoder(_Quarantined).decode


@dataclass(frozen=True, slots=True)
class Place:
    """Where segments land: made in the process that lands them, as none of it can be sent to another."""

    blackboard: Blackboard
    journal: Segments
    sources: Sequence[Source]
    spark: Callable[[], SparkSession]
    now: Callable[[], datetime]

    def land(self, source: Source, files: Sequence[Path]) -> Iterator[Landing | Exception]:
        """Land files of a source; yields the landing of each, or its error."""
        from feed_assets.sources.landing import land_files  # noqa: PLC0415 - loads Spark's Python side

        return land_files(self.spark(), self.blackboard, source, files, now=self.now())


def land_segments(place: Place, segments: Sequence[str]) -> list[Outcome]:
    """Land sealed segments: one file for each and for each source. A problem of a source keeps up no other source."""
    sources = {source.key: source for source in place.sources}
    landed: dict[str, dict[str, SourceOutcome]] = {segment: {} for segment in segments}
    errors: dict[str, dict[str, Exception]] = {segment: {} for segment in segments}
    problems: dict[str, list[str]] = {segment: [] for segment in segments}
    with scratch_directory("feed-assets-receive-") as scratch:
        files: dict[str, dict[str, SegmentFile]] = {}
        for segment in segments:
            try:
                for key, file in write_files(place.journal, segment, scratch).items():
                    files.setdefault(key, {})[segment] = file
            except MEDIUM_ERRORS as error:
                problems[segment].append(str(error))
        for key, of_segment in files.items():
            outcomes = _outcomes(place, sources.get(key), [file.path for file in of_segment.values()])
            for (segment, file), outcome in zip(of_segment.items(), outcomes, strict=True):
                became = _became(place.blackboard, sources.get(key), outcome, file)
                if isinstance(became, Exception):
                    errors[segment][key] = became
                    problems[segment].append(f"{key}: {became}")
                else:
                    landed[segment][key] = became
    return [
        Outcome(
            segment,
            sum(each.landed for each in landed[segment].values()),
            sum(each.quarantined for each in landed[segment].values()),
            tuple(problems[segment]),
            tuple(landed[segment]),
            tuple(key for key, error in errors[segment].items() if isinstance(error, _OF_A_SOURCE)),
            tuple(key for key, error in errors[segment].items() if not isinstance(error, _OF_A_SOURCE)),
            landed[segment],
        )
        for segment in segments
    ]


def _became(
    blackboard: Blackboard, source: Source | None, outcome: Landing | Exception, file: SegmentFile
) -> SourceOutcome | Exception:
    """What became of the records of a file, or the error: if it has landed, its receipts are written, too."""
    if source is None or isinstance(outcome, Exception):
        return outcome if isinstance(outcome, Exception) else LookupError(_GONE)
    try:
        return _receipted(blackboard, source, outcome, file)
    except Exception as error:  # noqa: BLE001 - the other sources and segments land
        return error


def _receipted(blackboard: Blackboard, source: Source, landing: Landing, file: SegmentFile) -> SourceOutcome:
    """Write the receipts of a file that has landed. Returns what became of its records."""
    receipts = Receipts(landing.source, file.path.name, landing.digest, tuple(file.requests))
    write_receipts(blackboard, receipts)
    later: dict[str, Counter[str]] = {}
    if landing.quarantine_key is not None:
        kept = file.path.with_name("quarantined")
        blackboard.download(landing.quarantine_key, kept)
        rejected = {each.first_line + index for each in file.requests for index, _ in each.rejected}
        with kept.open("rb") as lines:
            for each in map(_quarantined, lines):
                found = receipts.of_line(each.line)
                if found is not None and each.line not in rejected:
                    later.setdefault(found[0].partner, Counter())[with_columns(each.reason, source)] += 1
        kept.unlink()
    counts = {partner: dict(reasons) for partner, reasons in later.items()}
    return SourceOutcome(landing.landed, sum(landing.quarantined.values()), counts)


def _outcomes(place: Place, source: Source | None, files: Sequence[Path]) -> Sequence[Landing | Exception]:
    """The landing of each file, or its error."""
    if source is None:
        return [LookupError(_GONE)] * len(files)
    try:
        return list(place.land(source, files))
    except Exception as error:  # noqa: BLE001 - the other sources land
        return [error] * len(files)


def write_files(journal: Segments, segment: str, folder: Path) -> dict[str, SegmentFile]:
    """Write the records of a segment as JSON lines, a file for each source. Returns the files by the source's key."""
    files: dict[str, SegmentFile] = {}
    opened: dict[str, BinaryIO] = {}
    following: dict[str, int] = {}
    with ExitStack() as stack:
        for entry in entries(journal, segment):
            key = entry.header.source
            if not entry.records:
                continue
            if key not in files:
                path = folder / key / f"{segment}{ENDING}"
                path.parent.mkdir(parents=True, exist_ok=True)
                opened[key] = stack.enter_context(path.open("wb"))
                files[key], following[key] = SegmentFile(path, []), 1
                opened[key].writelines(_marked(entry, segment))
            else:
                opened[key].writelines(_lines(entry))
            files[key].requests.append(receipt(entry.header, following[key]))
            following[key] += files[key].requests[-1].records
    return files


def _lines(entry: Entry) -> Iterator[bytes]:
    """The lines of an entry. A rejected record is an array of its reason and its text, which lands in quarantine."""
    if not entry.header.rejected:
        yield entry.records
        return
    rejected = dict(entry.header.rejected)
    for index, line in enumerate(entry.records.split(b"\n")[:-1]):
        yield line_of(rejected[index], line) if index in rejected else line + b"\n"


def _marked(entry: Entry, segment: str) -> Iterator[bytes]:
    """The same lines; the first names the segment, in a key that no partner can have sent."""
    first, *others = _lines(entry)
    if entry.header.rejected[:1] and entry.header.rejected[0][0] == 0:
        yield first[:-2] + b"," + msgspec.json.encode(segment) + b"]\n"
    else:
        yield b'{"_segment ' + segment.encode() + b'":true,' + first[1:]
    yield from others


def work(connection: Connection, place: Callable[[], Place]) -> None:
    """Land the segments whose names come, several together, and send each `Outcome`. Ends with the parent."""
    leave_signals(signal.SIGINT, signal.SIGTERM)  # the receiver gets them, too, and ends this process
    end_with_parent()
    here: Place | None = None
    with suppress(EOFError, BrokenPipeError):  # the parent has ended
        while True:
            segments = [connection.recv()]
            here = here or place()
            while len(segments) < TOGETHER and connection.poll():
                segments.append(connection.recv())
            for outcome in land_segments(here, segments):
                connection.send(outcome)
