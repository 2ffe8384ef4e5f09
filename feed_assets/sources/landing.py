"""Putting a partner's file into raw hourly partitions, all of it or nothing.

Here: the steps, and their order. A landing copies the file to staging, lets Spark parse it there, and writes a plan of
the copies to make, which it then carries out (see `plan`). Not here: formats (see `records`), and the place of each
record (see `placing`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from feed_assets.blackboard.port import (
    AlreadyExistsError,
    Blackboard,
    BlackboardError,
    NotFoundError,
    UnavailableError,
)
from feed_assets.engine.paths import to_read
from feed_assets.engine.session import SESSION_SETTINGS, new_session
from feed_assets.sources.absence import files_gone
from feed_assets.sources.expressions import check_expressions, named_columns, nearest, needed_columns
from feed_assets.sources.layout import LandingId, landed_path, quarantine_key, raw_file_key, sent_key, staging_prefix
from feed_assets.sources.ledger import Landing, find, landings_of
from feed_assets.sources.partner_file import PartnerFile, check_column_names, inspect
from feed_assets.sources.placing import (
    FUTURE,
    MALFORMED,
    NO_TIME,
    REASONS,
    StagedRecords,
    staged_records,
    usable_from,
    write_by_hour,
    write_nothing,
    write_quarantine,
)
from feed_assets.sources.plan import Plan, clear, complete, keys, read_plan, tidy, write_plan
from feed_assets.sources.records import SINGLE_FILE_SETTINGS, parquet_records, text_records
from feed_assets.sources.source_errors import LandingError
from feed_assets.sources.spec import ParquetFormat, Source

__all__ = ["FUTURE", "MALFORMED", "NO_TIME", "REASONS", "is_outdated", "land", "land_kept"]

LANDING_SETTINGS = {
    **SESSION_SETTINGS,
    **SINGLE_FILE_SETTINGS,
    # Adaptive execution would leave out empty stages, and with them their counts.
    "spark.sql.adaptive.enabled": "false",
    # One file an hour.
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}


def land(
    spark: SparkSession,
    blackboard: Blackboard,
    source: Source,
    file: Path,
    *,
    now: datetime,
    again: bool = False,
    name: str | None = None,
) -> Landing:
    """Put the records of one file into the source's raw hourly partitions by event time.

    Records without a usable time go to quarantine; records that do not pass the source's filter are only counted. A
    usable time is from 1970 to a day after `now`, the landing time in the ledger. The file is kept as it was sent,
    under its own name or `name`.

    Content that landed for the source before adds nothing, whatever the name and compression of the file. A killed
    landing of it that has a plan is completed by the description that it was planned with; the result names that
    description. With `again`, the content lands anew if the earlier landing `is_outdated` or its raw files are gone.
    The new landing replaces the earlier ones at once: readers see either. Days in which only earlier landings had
    records get an empty file, so that these days change too.

    Raises LandingError if the file cannot be read or lacks a column that the source needs, and SpecError if Spark does
    not take an expression; then nothing has landed. After any other error, land the file again.
    """
    session = _session(spark)
    check_expressions(session, source)
    with TemporaryDirectory() as scratch:
        sent = inspect(file, source, Path(scratch), name=name)
        digest = sent.digest(source.key)
        before = landings_of(blackboard, source.key, digest)
        landing = None
        while not before or (again and _is_due_again(blackboard, before[-1], source, now)):
            landing = _land(session, blackboard, source, sent, before, now)
            tidy(blackboard, landing)
            if landing.description == source.landing_digest:
                return landing
            # Another process was faster, or had been killed, and had read the file by another description.
            before = landings_of(blackboard, source.key, digest)
    tidy(blackboard, before[-1])
    return replace(before[-1], already_landed=landing is None)


def land_kept(
    spark: SparkSession, blackboard: Blackboard, source: Source, landing: Landing, *, now: datetime
) -> Landing:
    """Land again the file that was kept of an earlier landing. Raises LandingError if it is missing, and as `land`."""
    key = sent_key(source.key, landing.digest)
    with TemporaryDirectory() as scratch:
        kept = Path(unquote(urlsplit(blackboard.uri(key)).path))
        try:
            if not blackboard.uri(key).startswith("file:"):
                kept = Path(scratch) / "kept"
                blackboard.download(key, kept)
            elif not kept.is_file():
                raise NotFoundError(key)  # noqa: TRY301 - as the store itself would
        except NotFoundError:
            raise LandingError(
                f"{landing.file} was not kept ({blackboard.uri(key)} is not there); "
                f"name the file itself: `feed-assets land --again {source.name} FILE`"
            ) from None
        return land(spark, blackboard, source, kept, now=now, again=True, name=landing.file)


def is_outdated(landing: Landing, source: Source, now: datetime) -> bool:
    """Whether landing the file again changes the result: the description changed, or future times became usable."""
    if landing.description != source.landing_digest:
        return True
    # Entries of earlier versions lack `future_until`.
    return FUTURE in landing.quarantined and (landing.future_until is None or landing.future_until <= now)


def _is_due_again(blackboard: Blackboard, landing: Landing, source: Source, now: datetime) -> bool:
    return is_outdated(landing, source, now) or bool(files_gone(blackboard, source.key, [landing]))


def _land(
    session: SparkSession,
    blackboard: Blackboard,
    source: Source,
    sent: PartnerFile,
    before: Sequence[Landing],
    now: datetime,
) -> Landing:
    """The next landing of a content after `before`: this one, or that of a faster process."""
    landing = LandingId(sent.digest(source.key), before[-1].generation + 1 if before else 1)
    staging = staging_prefix(source.key, landing)
    try:
        plan = read_plan(blackboard, staging)
        if plan is None:
            plan = write_plan(blackboard, staging, _prepare(session, blackboard, source, sent, landing, before, now))
        return complete(blackboard, plan, now=now)
    except Exception as error:
        # Another process may have landed the same content meanwhile, and removed the staging in use here.
        if (landed := find(blackboard, source.key, landing)) is not None:
            return landed
        if isinstance(error, NotFoundError):
            # A plan whose staged files are gone can never be completed.
            clear(blackboard, staging)
            raise LandingError(f"What was staged for {sent.path} was removed meanwhile; land the file again") from error
        raise


def _prepare(
    session: SparkSession,
    blackboard: Blackboard,
    source: Source,
    sent: PartnerFile,
    landing: LandingId,
    before: Sequence[Landing],
    now: datetime,
) -> Plan:
    """Stage the records by hour, below a prefix of this attempt, and plan their copies."""
    attempt = f"{staging_prefix(source.key, landing)}{uuid4().hex}/"
    rows = f"{attempt}rows"
    try:
        _check_columns(source, session, sent)
        kept, content = _upload(blackboard, sent, attempt)
        records = _records(session, blackboard.uri(content), source, sent)
        size = sent.content.stat().st_size
        counts = write_by_hour(records, source, sent.name, blackboard.uri(rows), size=size, now=now)
    except Exception as error:
        # What is staged takes space, on a disk that may be full.
        if not (isinstance(error, UnavailableError) and error.transient):
            with suppress(BlackboardError):
                clear(blackboard, attempt)
        raise
    staged = staged_records(keys(blackboard, f"{rows}/"), f"{rows}/")
    withdrawn = _withdrawn(staged, before)
    quarantine = quarantine_key(source.key, landing) if staged.quarantined else None
    return Plan(
        Landing(
            source=source.key,
            file=sent.name,
            sha256=sent.sha256,
            digest=landing.digest,
            generation=landing.generation,
            description=source.landing_digest,
            read=counts["read"],
            landed=counts["landed"],
            filtered=counts["filtered"],
            malformed=counts["malformed"],
            quarantined={reason: counts[reason] for reason in REASONS if counts[reason]},
            quarantine_key=quarantine,
            partitions=tuple(sorted(staged.hours)),
            withdrawn=withdrawn,
            days=tuple(sorted(counts["days"])),
            future_until=usable_from(counts["first_future"]),
        ),
        (
            *_raw_copies(source, landing, staged.hours),
            *_raw_copies(source, landing, _stage_nothing(session, blackboard, withdrawn, f"{attempt}nothing")),
            *([(_stage_quarantine(session, blackboard, staged, f"{attempt}bad"), quarantine)] if quarantine else []),
            (kept, sent_key(source.key, landing.digest)),
        ),
    )


def _upload(blackboard: Blackboard, sent: PartnerFile, attempt: str) -> tuple[str, str]:
    """Stage the file as it was sent; return its key, and the key of the content for Spark to read, often the same."""
    # Spark detects compression by the name.
    kept = content = f"{attempt}sent{'.gz' if sent.compressed else ''}"
    # Nobody else writes below this attempt: an object that is there is this one, and the first answer was lost.
    with suppress(AlreadyExistsError):
        blackboard.upload(kept, sent.path)
    if sent.content != sent.path:
        content = f"{attempt}content"
        with suppress(AlreadyExistsError):
            blackboard.upload(content, sent.content)
    sent.require_unchanged()
    return kept, content


def _raw_copies(source: Source, landing: LandingId, hours: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (staged, raw_file_key(source.key, hour[:10], landed_path(hour[11:], landing)))
        for hour, staged in sorted(hours.items())
    ]


def _withdrawn(staged: StagedRecords, before: Iterable[Landing]) -> tuple[str, ...]:
    """An hour of each day in which only superseded landings have a file."""
    days = {hour[:10] for hour in staged.hours}
    touched = sorted(hour for landing in before for hour in (*landing.partitions, *landing.withdrawn))
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


def _stage_quarantine(session: SparkSession, blackboard: Blackboard, staged: StagedRecords, prefix: str) -> str:
    """The key of a file with the quarantined records."""
    uris = {reason: blackboard.uri(key) for reason, key in staged.quarantined.items()}
    write_quarantine(session, uris, blackboard.uri(prefix))
    (key,) = (key for key in keys(blackboard, f"{prefix}/") if key.endswith(".json"))
    return key


def _session(spark: SparkSession) -> SparkSession:
    """A new session of the same application with the settings of landing."""
    codec = "spark.sql.parquet.compression.codec"
    return new_session(spark, {**LANDING_SETTINGS, codec: str(spark.conf.get(codec))})


def _check_columns(source: Source, session: SparkSession, sent: PartnerFile) -> None:
    """Raise LandingError if the file's header lacks a column that the source names."""
    if sent.columns is None:
        return
    present = {name.lower() for name in sent.columns}
    lacking: dict[str, str] = {}
    for location, names in named_columns(session, source).items():
        for name in names:
            if name.lower() not in present:
                lacking.setdefault(name, source.place(location))
    if lacking:
        has = f"it has {', '.join(sent.columns)}"
        near = [hint for hint in (nearest(name, sent.columns) for name in lacking) if hint.startswith("did you mean")]
        raise LandingError(
            f"{sent.path}:{sent.skip}: the header lacks {', '.join(lacking)}, which {source.key} needs; "
            f"{'; '.join([has, *near])}{'' if near else '.'} "
            f"Have the file sent again, or correct the source ({', '.join(dict.fromkeys(lacking.values()))})"
        )


def _records(session: SparkSession, uri: str, source: Source, sent: PartnerFile) -> DataFrame:
    if not isinstance(source.format, ParquetFormat):
        columns = tuple(source.format.declared) if sent.columns is None else sent.columns
        return text_records(session, to_read(uri), source.format, columns, skip=sent.skip)
    try:
        records = parquet_records(session, to_read(uri))
    except (AnalysisException, Py4JJavaError) as error:
        raise LandingError(f"{sent.path} cannot be read as Parquet: {_reason(error)}. Have it sent again") from error
    types = dict(records.dtypes)
    # The last three columns are not the partner's.
    check_column_names(str(sent.path), records.columns[:-3])
    problems = [f"lacks the column {name}" for name in needed_columns(session, source) if name not in types]
    problems += [
        f"has {name} as {types[name]}, not as {type_}"
        for name, type_ in source.format.declared.items()
        if name in types and types[name] != type_.lower().replace(" ", "")
    ]
    if problems:
        what = "; it ".join(problems)
        raise LandingError(f"{sent.path} {what}. Have it sent again, or correct the source {source.key}")
    return records


def _reason(error: Exception) -> str:
    """Why Spark cannot read a file, in one line."""
    text = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    reason = re.sub(r"^\[[\w.]+\]\s*|\s*SQLSTATE: \w+.*", "", text.strip().splitlines()[0])
    nanoseconds = "; write times in microseconds, as Spark has no others" if "NANOS" in reason else ""
    return reason.rstrip(".") + nanoseconds
