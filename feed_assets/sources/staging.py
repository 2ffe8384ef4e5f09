"""Staging files of a partner: their records by hour, and the plan that puts them into raw partitions.

Here: one Spark job for files of the same columns, and what Spark must find in them. Not here: checking a file before
Spark reads it (see `partner_file`), the place of each record (see `placing`), carrying plans out (see `plan`), and
which files land (see `landing`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import cast
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, IntegerType, StructType

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, BlackboardError, UnavailableError
from feed_assets.engine.paths import to_read, to_write
from feed_assets.engine.spark_schemas import (
    is_nanoseconds,
    keeps_values,
    readable_columns,
    stated_rows,
    type_of,
    with_nanoseconds,
    with_null_columns,
)
from feed_assets.engine.value_errors import is_of_a_value, reason_of, root_cause
from feed_assets.sources.expressions import needed_columns
from feed_assets.sources.formats import ParquetFormat
from feed_assets.sources.layout import (
    LandingId,
    attempt_prefix,
    attempted_prefix,
    landed_path,
    quarantine_key,
    raw_file_key,
    sent_key,
)
from feed_assets.sources.ledger import Landing
from feed_assets.sources.partner_file import PartnerFile, check_column_names
from feed_assets.sources.placing import (
    SAMPLES,
    Counts,
    Hours,
    StagedRecords,
    hours_of_sample,
    records_by_hour,
    staged_records,
    usable_from,
    write_by_hour,
    write_nothing,
    write_quarantine,
)
from feed_assets.sources.plan import Plan, clear, keys
from feed_assets.sources.records import parquet_records, text_records
from feed_assets.sources.source_errors import LandingError, PassingError
from feed_assets.sources.spec import Source


@dataclass(frozen=True, slots=True)
class Due:
    """A file to land, and its landing.

    `before` is the last landing of the content, or the name, which this landing supersedes. `plan` is that of a killed
    process. With `any_hours`, the file lands however many hours its records have.
    """

    sent: PartnerFile
    landing: LandingId
    before: Landing | None
    plan: Plan | None
    any_hours: bool = False


def stage(
    session: SparkSession,
    blackboard: Blackboard,
    source: Source,
    due: Sequence[Due],
    *,
    now: datetime,
    suspicious: bool = False,
) -> list[Plan | Exception]:
    """Stage the records of files by hour, and plan their copies; for a file that cannot be read, its error.

    Files of the same columns share a Spark job. If it fails, each has a job of its own, so that a bad file holds up no
    other; an error of storage is that of all. If that job fails by a value, a second one evaluates the expressions as
    those that can raise (`suspicious`, see `write_by_hour`). A file that fails leaves nothing.
    """
    try:
        return list(_stage(session, blackboard, source, due, now, suspicious=suspicious))
    except Exception as error:  # noqa: BLE001 - the caller raises it, or goes on with other files
        if isinstance(error, BlackboardError):
            return [error] * len(due)
        if len(due) == 1 and (suspicious or not is_of_a_value(error)):
            return [_explained(error, due[0].sent, source)]
        alone = len(due) == 1
        return [plan for each in due for plan in stage(session, blackboard, source, [each], now=now, suspicious=alone)]


def _stage(
    session: SparkSession,
    blackboard: Blackboard,
    source: Source,
    due: Sequence[Due],
    now: datetime,
    *,
    suspicious: bool,
) -> list[Plan]:
    attempt = attempt_prefix(source.key, uuid4().hex)
    try:
        uploads = {
            each.landing: _upload(blackboard, each.sent, attempted_prefix(attempt, each.landing)) for each in due
        }
        counts: dict[LandingId, Counts] = {}
        hints: dict[LandingId, tuple[str, ...]] = {}
        contents = [(each, to_read(blackboard.uri(uploads[each.landing].content))) for each in due]
        of_landing = {each.landing: each for each in due}
        for landings, records, size, more in _records(session, source, contents, to_write(blackboard.uri(attempt))):
            place = blackboard.uri(attempt)
            hints |= {landing: (*of_landing[landing].sent.hints, *more) for landing in landings}
            these = [of_landing[landing] for landing in landings]
            _check_sample(session, records, source, these, now, suspicious=suspicious)
            counts |= write_by_hour(records, source, landings, place, size=size, now=now, suspicious=suspicious)
        for each in due if isinstance(source.format, ParquetFormat) else ():
            _check_rows(session, each.sent, counts[each.landing].read)
        folders = {landing: upload.folder for landing, upload in uploads.items()}
        staged = {landing: staged_records(list_all(blackboard, folder), folder) for landing, folder in folders.items()}
        for each in due:
            _check_hours(source, each, Hours.of(staged[each.landing].hours))
        by_hour = records_by_hour(session, blackboard, staged)
        write_quarantine(session, blackboard, staged, attempt)
        made = [(each, uploads[each.landing], staged[each.landing], counts[each.landing]) for each in due]
        return [
            _plan(session, blackboard, source, *each, by_hour[each[0].landing], hints[each[0].landing]) for each in made
        ]
    except Exception as error:
        # What is staged takes space, on a disk that may be full.
        if not (isinstance(error, UnavailableError) and error.transient):
            with suppress(BlackboardError):
                clear(blackboard, attempt)
        raise


def _records(
    session: SparkSession, source: Source, contents: Sequence[tuple[Due, str]], base: str
) -> Iterator[tuple[list[LandingId], DataFrame, int, tuple[str, ...]]]:
    """For files of the same columns, each with its path: their landings, their records, their size in bytes, hints."""
    columns: dict[LandingId, Hashable] = {}
    for each, path in contents:
        if isinstance(source.format, ParquetFormat):
            columns[each.landing] = _parquet_schema(session, path, source, each.sent)
        else:
            names = tuple(source.format.declared) if each.sent.columns is None else each.sent.columns
            columns[each.landing] = (names, each.sent.unnamed)
    for these in dict.fromkeys(columns.values()):
        alike = [(each, path) for each, path in contents if columns[each.landing] == these]
        files = {str(each.landing): (path, each.sent) for each, path in alike}
        hints: tuple[str, ...] = ()
        if isinstance(source.format, ParquetFormat):
            schema = cast("StructType", these)
            hints = tuple(
                f"{each.name} has nanoseconds; its times are cut off to microseconds, the most that Spark keeps"
                for each in schema
                if is_nanoseconds(each)
            )
            records = parquet_records(session, files, base, schema, source.format.declared)
        else:
            names, _ = cast("tuple[tuple[str, ...], int]", these)
            records = text_records(session, files, base, source.format, names)
        size = sum(each.sent.content.stat().st_size for each, _ in alike)
        yield [each.landing for each, _ in alike], records, size, hints


def _check_sample(
    session: SparkSession, records: DataFrame, source: Source, due: Sequence[Due], now: datetime, *, suspicious: bool
) -> None:
    """Raise LandingError if some records of a file already have more hours than one landing may have.

    Writing each of thousands of hours takes about 25 ms, and in a bucket about 45 requests. Files of few records are
    not looked at.
    """
    steps: dict[LandingId, int] = {}
    for each in due:
        is_parquet, most = isinstance(source.format, ParquetFormat), _most_hours(source, each)
        lines = stated_rows(session, each.sent.content.absolute().as_uri()) if is_parquet else each.sent.lines
        if lines > most:  # so there is one
            steps[each.landing] = max(1, lines // (SAMPLES * int(most)))
    if steps:
        found = hours_of_sample(records, source, steps, now=now, suspicious=suspicious)
        for each in due:
            if each.landing in found:
                _check_hours(source, each, found[each.landing], sampled=True)


def _most_hours(source: Source, due: Due) -> float:
    """As many as the source takes, or as an earlier landing of the file had, which a person may have let land."""
    return inf if due.any_hours else max(source.most_hours, len(due.before.partitions) if due.before else 0)


def _check_hours(source: Source, due: Due, found: Hours, *, sampled: bool = False) -> None:
    """Raise LandingError if the records of a file have more hours than one landing may have."""
    if found.count <= _most_hours(source, due):
        return
    raise LandingError(
        f"{due.sent.path} has records in {'at least ' if sampled else ''}{found.count:,} hours, from {found.first} to "
        f"{found.last}, and {source.key} takes {source.most_hours:,} of one file. Is `event_time` in a wrong unit, "
        f"such as milliseconds, or another column ({source.place(('columns', 'event_time'))})? Then correct it. If the "
        "times are right, a larger `most_hours` in the source lands all such files, pushed events too; for once, "
        f"`feed-assets land --any-hours {source.key} FILE` lands the file"
    )


def _plan(
    session: SparkSession,
    blackboard: Blackboard,
    source: Source,
    due: Due,
    upload: _Upload,
    records: StagedRecords,
    counts: Counts,
    by_hour: Mapping[str, int],
    hints: tuple[str, ...],
) -> Plan:
    landing, sent, folder = due.landing, due.sent, upload.folder
    hours = sorted(records.hours)
    withdrawn = _withdrawn(records, due.before)
    nothing = _stage_nothing(session, blackboard, withdrawn, f"{folder}nothing")
    quarantine = quarantine_key(source.key, landing) if records.quarantined else None
    return Plan(
        Landing(
            source=source.key,
            file=sent.name,
            sha256=sent.sha256,
            digest=landing.digest,
            generation=landing.generation,
            description=source.landing_digest,
            read=counts.read,
            landed=counts.landed,
            filtered=counts.filtered,
            malformed=counts.malformed,
            quarantined=counts.quarantined,
            quarantine_key=quarantine,
            partitions=tuple(hours),
            records=tuple(by_hour[hour] for hour in hours),
            withdrawn=withdrawn,
            days=counts.days,
            future_until=usable_from(counts.first_future),
            hints=hints,
            columns=sent.seen.plain if sent.seen else None,
        ),
        (
            *((records.hours[hour].key, _raw_key(source, landing, hour, by_hour[hour])) for hour in hours),
            *((empty, _raw_key(source, landing, hour, 0)) for hour, empty in nothing.items()),
            *([(_quarantine_in(blackboard, folder), quarantine)] if quarantine else []),
            (upload.kept, sent_key(source.key, sent.digest(source.key))),
        ),
        folder,
    )


@dataclass(frozen=True, slots=True)
class _Upload:
    """The folder of a staged file, its key as it was sent, and that of its content for Spark; often the same key."""

    folder: str
    kept: str
    content: str


def _upload(blackboard: Blackboard, sent: PartnerFile, folder: str) -> _Upload:
    # Spark detects compression by the name.
    kept = content = f"{folder}sent{'.gz' if sent.compressed else ''}"
    # Nobody else writes into this folder: an object that is there is this one, and the first answer was lost.
    with suppress(AlreadyExistsError):
        blackboard.upload(kept, sent.path)
    if sent.content != sent.path:
        content = f"{folder}content"
        with suppress(AlreadyExistsError):
            blackboard.upload(content, sent.content)
    sent.require_unchanged()
    return _Upload(folder, kept, content)


def _raw_key(source: Source, landing: LandingId, hour: str, records: int) -> str:
    return raw_file_key(source.key, hour[:10], landed_path(hour[11:], landing, records))


def _withdrawn(staged: StagedRecords, before: Landing | None) -> tuple[str, ...]:
    """An hour of each day in which only superseded landings have a file; the last of them has one in each such day."""
    days = {hour[:10] for hour in staged.hours}
    touched = sorted((*before.partitions, *before.withdrawn)) if before else []
    return tuple({hour[:10]: hour for hour in reversed(touched) if hour[:10] not in days}.values())[::-1]


def _stage_nothing(
    session: SparkSession, blackboard: Blackboard, hours: Sequence[str], prefix: str
) -> Mapping[str, str]:
    """Hour -> key of a raw file without records, one for all of these hours."""
    if not hours:
        return {}
    write_nothing(session, blackboard.uri(prefix))
    (key,) = (key for key in keys(blackboard, f"{prefix}/") if key.endswith(".parquet"))
    return dict.fromkeys(hours, key)


def _quarantine_in(blackboard: Blackboard, folder: str) -> str:
    """The key of the file with the quarantined records."""
    (key,) = (key for key in keys(blackboard, folder) if key.endswith(".json"))
    return key


def _parquet_schema(session: SparkSession, path: str, source: Source, sent: PartnerFile) -> StructType:
    """The columns of a Parquet file that Spark can read; others only stay in the file as it was sent.

    Raises LandingError if the file is no Parquet, or if its columns are not as the source says.
    """
    unreadable: Mapping[str, PySparkException | Py4JJavaError] = {}
    try:
        schema = session.read.parquet(path).schema
    except (PySparkException, Py4JJavaError) as error:
        with suppress(PySparkException, Py4JJavaError):  # no Parquet, as Spark has just said
            schema, unreadable = readable_columns(session, sent.content.absolute().as_uri())
        if not unreadable:
            reason = _reason(error)
            raise LandingError(f"{sent.path} cannot be read as Parquet: {reason}. Have it sent again") from error
    schema = with_nanoseconds(schema, session, sent.content.absolute().as_uri())
    if any(isinstance(type_, IntegerType) for type_ in _differing(schema, source).values()):
        schema = with_null_columns(schema, session, sent.content.absolute().as_uri())
    check_column_names(str(sent.path), schema.names)
    declared = {name.lower() for name in source.format.declared}
    if refused := [f"{name} ({_reason(error)})" for name, error in unreadable.items() if name.lower() in declared]:
        raise LandingError(
            f"{sent.path} has columns of types that Spark cannot read: {', '.join(refused)}. "
            f"Have them sent as another type, such as text, or take them out of the source {source.key}"
        )
    problems = [f"lacks the column {name}" for name in needed_columns(session, source) if name not in schema.names]
    problems += [
        f"has {name} as {type_.simpleString()}, not as {source.format.declared[name]}"
        for name, type_ in _differing(schema, source).items()
    ]
    if problems:
        what = "; it ".join(problems)
        raise LandingError(f"{sent.path} {what}. Have it sent again, or correct the source {source.key}")
    return schema


def _differing(schema: StructType, source: Source) -> dict[str, DataType]:
    """The columns that cannot be read as the source declares them, with their types."""
    types, declared = {column.name: type_of(column) for column in schema}, source.format.declared
    return {name: types[name] for name in declared if name in types and not keeps_values(types[name], declared[name])}


def _check_rows(session: SparkSession, sent: PartnerFile, read: int) -> None:
    """Raise LandingError if Spark read other rows than the file's footer states.

    Spark leaves out row groups that begin beyond the end of a file, as its footer does if a part before it is missing.
    """
    stated = stated_rows(session, sent.content.absolute().as_uri())
    if read != stated:
        raise LandingError(
            f"{sent.path} states {stated:,} rows, and Spark reads {read:,}: a part of it is missing. Have it sent again"
        )


def _explained(error: Exception, sent: PartnerFile, source: Source) -> Exception:
    """A LandingError if Spark failed to read the file, or to evaluate an expression; else the error itself."""
    if is_of_a_value(error):
        explained = LandingError(
            f"{sent.path} cannot be landed: Spark fails with {reason_of(error)}. Correct `event_time` or `filter` "
            f"({source.place(('columns', 'event_time'))}); `feed-assets sources check {source.key}` looks at them"
        )
        explained.__cause__ = error
        return explained
    if not isinstance(error, Py4JJavaError) or "[FAILED_READ_FILE" not in str(error.java_exception.getMessage()):
        return error
    cause = root_cause(error.java_exception)
    reason = str(cause.toString()).splitlines()[0].rstrip(".")
    kind: type[LandingError] = PassingError
    advice = "Land it again; if that fails too, have it sent again, unpacked or packed in another way"
    if codec := re.search(r"ClassNotFoundException: \S+\.(\w+)Codec$", reason):
        reason = f"it is packed with {codec[1]}, which Spark cannot unpack"
        kind, advice = LandingError, "Have it sent again, packed with Snappy or Zstandard"
    elif reason.endswith("not a gzip file"):
        reason = "bytes that are not gzip follow on its packed content, such as zeros that fill up a block"
        kind, advice = LandingError, f"Unpack it by `python3 -m gzip -d {sent.path.name}`, and land that"
    explained = kind(f"{sent.path} cannot be read to its end: {reason}. {advice}")
    explained.__cause__ = error
    return explained


def _reason(error: Exception) -> str:
    """Why Spark cannot read a file, in one line."""
    text = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    reason = re.sub(r"^\[[\w.]+\]\s*|\s*SQLSTATE: \w+.*", "", text.strip().splitlines()[0])
    return reason.rstrip(".")
