"""Putting what a partner sent into raw hourly partitions, all of it or nothing.

Here: the steps, and their order. A file is copied to staging, taken apart by Spark there, and what is to
become of the result is written down as a plan. From then on a landing only moves forward: every step of
the plan can be repeated, so whoever lands the file again after a crash completes it. The ledger entry
comes last, and only with it do the files count for readers (see `raw`). Not here: formats (see `records`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import unquote
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, SparkSession, functions

from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, NotFoundError
from feed_assets.sources.errors import LandingError
from feed_assets.sources.expressions import SESSION_SETTINGS, event_time, lacking_columns
from feed_assets.sources.layout import landed_path, ledger_key, quarantine_key, raw_key, staging_prefix
from feed_assets.sources.ledger import Landing, entry_json, find_entry, landing_from_json
from feed_assets.sources.partner_file import PartnerFile, inspect
from feed_assets.sources.records import SINGLE_FILE_SETTINGS, parquet_records, text_records, with_nulls
from feed_assets.sources.spark_paths import to_read, to_write
from feed_assets.sources.spec import JsonLinesFormat, ParquetFormat, Source, SpecError, quoted

MALFORMED = "malformed record"
NO_TIME = "no usable time"
REASONS = (MALFORMED, NO_TIME)
"""Why a record cannot be put into any hour: it did not parse as declared, or its time is none."""

USABLE_YEARS = (1970, 9999)
"""The years in which a time is usable; others come from a number in the wrong unit."""

LANDING_SETTINGS = {
    **SESSION_SETTINGS,
    **SINGLE_FILE_SETTINGS,
    # Adaptive execution would leave out what turns out to be empty, and with it the counts taken there.
    "spark.sql.adaptive.enabled": "false",
    # One file an hour.
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}

T = TypeVar("T")

_PLAN = "plan.json"
_QUARANTINED = "quarantined"
_STAGED = re.compile(r"rows/_day=([^/]+)/_hour=([^/]+)/part-[^/]+\.parquet")
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a landing will have done: staged objects to copy, each with its key, and the entry that follows."""

    landing: Landing
    copies: tuple[tuple[str, str], ...]


def land(spark: SparkSession, blackboard: Blackboard, source: Source, file: Path, *, now: datetime) -> Landing:
    """Put the records of one file into the source's raw hourly partitions by event time.

    Records without a usable time go to quarantine; those that do not pass the source's filter are only
    counted. A content that landed for the source before adds nothing, whatever the file is called and
    however it is packed. `now` is noted in the ledger.

    Raises LandingError where the file cannot be read or lacks a column that the source needs, and
    SpecError where Spark does not take one of its expressions; nothing has landed then. After any other
    error, land the file again: it is completed, or begun anew.
    """
    with TemporaryDirectory() as scratch:
        sent = inspect(file, source, Path(scratch))
        digest = sent.digest(source.key)
        staging = staging_prefix(source.key, digest)
        landing = find_entry(blackboard, source.key, digest)
        if landing is None:
            try:
                plan = _read_plan(blackboard, staging)
                if plan is None:
                    plan = _write_plan(blackboard, staging, _prepare(spark, blackboard, source, sent))
                landing = _complete(blackboard, plan, now)
            except Exception:
                # Another process may have landed the same meanwhile, and cleared away what was in use here.
                landing = find_entry(blackboard, source.key, digest)
                if landing is None:
                    raise
    _clear(blackboard, staging)
    return landing


def _prepare(spark: SparkSession, blackboard: Blackboard, source: Source, sent: PartnerFile) -> _Plan:
    """Stage the records by hour, in a place of this attempt's own, and say where they are to go."""
    digest = sent.digest(source.key)
    attempt = f"{staging_prefix(source.key, digest)}{uuid4().hex}/"
    content = f"{attempt}sent{'.gz' if sent.compressed else ''}"
    session = _session(spark)
    if not isinstance(source.format, ParquetFormat):
        _check_columns(session, source, sent, _text_columns(source, sent))
    blackboard.upload(content, sent.content)
    try:
        sent.require_unchanged()
        records = _records(session, blackboard.uri(content), source, sent)
        counts = _write_rows(records, source, sent.name, blackboard.uri(f"{attempt}rows"))
    except (LandingError, SpecError):
        _clear(blackboard, attempt)
        raise
    staged = _staged(blackboard, attempt)
    quarantined = {hour: key for (day, hour), key in staged.items() if day == _QUARANTINED}
    rows = {place: key for place, key in staged.items() if place[0] != _QUARANTINED}
    copies = [(key, raw_key(source.key, day, landed_path(hour, digest))) for (day, hour), key in rows.items()]
    if quarantined:
        written = _write_quarantine(session, blackboard, quarantined, f"{attempt}quarantine")
        copies.append((written, quarantine_key(source.key, digest)))
    landing = Landing(
        source=source.key,
        file=sent.name,
        sha256=sent.sha256,
        digest=digest,
        read=counts["read"],
        landed=counts["landed"],
        filtered=counts["filtered"],
        malformed=counts["malformed"],
        quarantined={reason: counts[reason] for reason in REASONS if counts[reason]},
        quarantine_key=quarantine_key(source.key, digest) if quarantined else None,
        partitions=tuple(sorted(f"{day}/{hour}" for day, hour in rows)),
        first_day=counts["first_day"],
        last_day=counts["last_day"],
    )
    return _Plan(landing, tuple(sorted(copies)))


def _session(spark: SparkSession) -> SparkSession:
    """A session of the same application with its own settings, whatever those of the caller's."""
    session = spark.newSession()
    codec = "spark.sql.parquet.compression.codec"
    for name, value in {**LANDING_SETTINGS, codec: str(spark.conf.get(codec))}.items():
        session.conf.set(name, value)
    return session


def _text_columns(source: Source, sent: PartnerFile) -> tuple[str, ...]:
    return tuple(source.format.declared) if sent.columns is None else sent.columns


def _check_columns(session: SparkSession, source: Source, sent: PartnerFile, columns: Iterable[str]) -> None:
    lacking = lacking_columns(session, source, dict.fromkeys(columns, "string"))
    if lacking and sent.columns is None:
        message = f"lacks {', '.join(lacking)}, which the source's expressions use; add it"
        raise SpecError(source.problem(("format", "columns"), message))
    if lacking:
        message = (
            f"{sent.path}:{sent.skip}: the header lacks {', '.join(lacking)}, which {source.key} needs; "
            f"it has {', '.join(sent.columns or ())}. Have the file sent again, or correct the source"
        )
        raise LandingError(message)


def _records(session: SparkSession, uri: str, source: Source, sent: PartnerFile) -> DataFrame:
    if not isinstance(source.format, ParquetFormat):
        columns = _text_columns(source, sent)
        return text_records(session, to_read(uri), source.format, columns, skip=sent.skip)
    records = parquet_records(session, to_read(uri))
    types = dict(records.dtypes)
    declared = source.format.declared
    needed = lacking_columns(session, source, {})
    problems = [f"lacks the column {name}" for name in needed if name not in types]
    problems += [
        f"has {name} as {types[name]}, not as {type_}"
        for name, type_ in declared.items()
        if name in types and types[name] != type_.lower().replace(" ", "")
    ]
    if problems:
        message = f"{sent.path} {'; it '.join(problems)}. Have it sent again, or correct the source {source.key}"
        raise LandingError(message)
    return records


def _write_rows(records: DataFrame, source: Source, name: str, uri: str) -> Mapping[str, Any]:
    """Write the records by day and hour, those without a place under `_QUARANTINED`.

    Returns how many have which fate, and the first and the last day of them all.
    """
    col, lit, when = functions.col, functions.lit, functions.when
    partners = [column for column in records.columns if column not in {"_line", "_record", "_malformed"}]
    # What was sent is kept as it was sent; expressions see NULL for the null tokens in it.
    sent = records.withColumn("_sent", functions.struct(*map(quoted, partners)))
    nulled = with_nulls(sent, source)
    malformed = col("_malformed").isNotNull()
    # Of a malformed record it may not be known whether it passes: then it does, so that none is lost.
    passes = functions.expr(source.filter) if source.filter else functions.expr("true")
    fate = (
        when(~functions.coalesce(passes, malformed), lit("filtered"))
        .when(functions.year("_time").between(*USABLE_YEARS), lit("landed"))
        .when(malformed, lit(MALFORMED))
        .otherwise(lit(NO_TIME))
    )
    judged = nulled.withColumn("_time", event_time(nulled, source)).withColumn("_fate", fate)
    observation = Observation(f"landing-{uuid4().hex}")
    landed = col("_fate") == "landed"
    day = when(functions.year("_time").between(*USABLE_YEARS), functions.date_format("_time", "yyyy-MM-dd"))
    counted = judged.observe(
        observation,
        functions.count(lit(1)).alias("read"),
        functions.count_if(landed & malformed).alias("malformed"),
        *(functions.count_if(col("_fate") == fate).alias(fate) for fate in ("landed", "filtered", *REASONS)),
        functions.min(day).alias("first_day"),
        functions.max(day).alias("last_day"),
    )
    keeps_record = isinstance(source.format, JsonLinesFormat)
    rows = counted.where(col("_fate") != "filtered").select(
        "_sent.*",
        lit(name).alias("_file"),
        "_line",
        when(landed, col("_malformed")).otherwise(col("_record")).alias("_malformed"),
        *(["_record"] if keeps_record else []),
        when(landed, functions.date_format("_time", "yyyy-MM-dd")).otherwise(_QUARANTINED).alias("_day"),
        when(landed, functions.date_format("_time", "HH")).otherwise(col("_fate")).alias("_hour"),
    )
    (
        rows.repartition(records.sparkSession.sparkContext.defaultParallelism, "_day", "_hour")
        .sortWithinPartitions("_day", "_hour", "_line")
        .write.partitionBy("_day", "_hour")
        .parquet(to_write(uri))
    )
    return observation.get


def _staged(blackboard: Blackboard, attempt: str) -> dict[tuple[str, str], str]:
    """Day and hour -> key of the one file that Spark wrote for it."""
    staged: dict[tuple[str, str], str] = {}
    for key in _keys(blackboard, attempt):
        if match := _STAGED.fullmatch(key.removeprefix(attempt)):
            place = (match[1], unquote(match[2]))
            if place in staged:
                raise LandingError(f"Spark wrote two files for one hour, {staged[place]} and {key}; land again")
            staged[place] = key
    return staged


def _write_quarantine(session: SparkSession, blackboard: Blackboard, staged: Mapping[str, str], prefix: str) -> str:
    """Write the records without a place, staged by reason, as JSON lines; the key of the file."""
    schema = "_file STRING, _line BIGINT, _malformed STRING"
    parts = [
        session.read.schema(schema)
        .parquet(to_read(blackboard.uri(key)))
        .select(
            functions.col("_file").alias("file"),
            functions.col("_line").alias("line"),
            functions.lit(reason).alias("reason"),
            functions.col("_malformed").alias("record"),
        )
        for reason, key in sorted(staged.items())
    ]
    whole = reduce(DataFrame.unionAll, parts)
    whole.coalesce(1).sortWithinPartitions("line").write.json(to_write(blackboard.uri(prefix)))
    (key,) = (key for key in _keys(blackboard, f"{prefix}/") if key.endswith(".json"))
    return key


def _read_plan(blackboard: Blackboard, staging: str) -> _Plan | None:
    try:
        fields = json.loads(blackboard.read(f"{staging}{_PLAN}").data)
    except NotFoundError:
        return None
    copies = tuple((source, key) for source, key in fields["copies"])
    return _Plan(landing_from_json(fields["landing"]), copies)


def _write_plan(blackboard: Blackboard, staging: str, plan: _Plan) -> _Plan:
    """The plan that holds: this one, or that of another process which landed the same and was faster."""
    fields = {"landing": asdict(plan.landing), "copies": plan.copies}
    try:
        blackboard.create(f"{staging}{_PLAN}", json.dumps(fields, indent=1).encode())
    except AlreadyExistsError:
        return _read_plan(blackboard, staging) or plan
    return plan


def _complete(blackboard: Blackboard, plan: _Plan, now: datetime) -> Landing:
    """Carry the plan out; every step of it may have been done before."""
    landing = plan.landing
    # A faster process may have completed its own plan, and removed it, before this one was written.
    if (landed := find_entry(blackboard, landing.source, landing.digest)) is not None:
        return landed
    _in_parallel(lambda copy: _copy(blackboard, *copy), plan.copies)
    try:
        key = ledger_key(landing.source, landing.newest_day, landing.digest)
        blackboard.create(key, entry_json(landing, landed_at=now))
    except AlreadyExistsError:
        pass
    return landing


def _copy(blackboard: Blackboard, staged: str, key: str) -> None:
    try:
        blackboard.copy(staged, key)
    except AlreadyExistsError:
        there, here = (blackboard.read(name).data for name in (key, staged))
        if there != here:
            message = (
                f"{blackboard.uri(key)} is there with other content than this landing gives it; "
                "delete the files of the earlier landing of the same name, then land the file again"
            )
            raise LandingError(message) from None


def _clear(blackboard: Blackboard, staging: str) -> None:
    """Remove what is staged, the plan last: while anything is there, so is what it is for."""
    keys = list(_keys(blackboard, staging))
    plan = f"{staging}{_PLAN}"
    _in_parallel(blackboard.delete, [key for key in keys if key != plan])
    if plan in keys:
        blackboard.delete(plan)


def _keys(blackboard: Blackboard, prefix: str) -> Iterator[str]:
    after: str | None = ""
    while after is not None:
        page = blackboard.page(prefix, after=after)
        yield from (entry.key for entry in page.entries)
        after = page.next_after


def _in_parallel(do: Callable[[T], None], items: Sequence[T]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for future in [pool.submit(do, item) for item in items]:
            future.result()
