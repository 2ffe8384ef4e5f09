"""Spark's analysis of a source's expressions: whether Spark takes them, and which columns they need.

Here: analysis on empty frames; no record is read. Not here: the form of a source's description (see `spec`), and the
evaluation over records (see `landing` and `canonical`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from operator import and_
from threading import RLock
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import StringType, StructType, TimestampNTZType, TimestampType

from feed_assets.engine.sql import quoted
from feed_assets.engine.value_errors import reason_of
from feed_assets.sources.formats import RESERVED_COLUMNS, ParquetFormat
from feed_assets.sources.kinds import Kind
from feed_assets.sources.partner_columns import UnnamedColumnsError, columns_named, distinct
from feed_assets.sources.positions import Location
from feed_assets.sources.raising import located_expressions, may_raise, to_try, tried
from feed_assets.sources.spec import Source, SpecError
from feed_assets.sources.time_texts import texts_read_as_times

_AT_LANDING: Final[tuple[Location, ...]] = (("filter",), ("columns", "event_time"))
"""Expressions that landing evaluates; the others are evaluated when a day is processed."""

_TIME_OF_DAY: Final = r"^\s*(T\d\d?|T?\d\d?(:\d\d?){1,2}(\.\d*)?)\s*(Z|(UTC|GMT|UT)?([+-]\d\d?(:?\d\d)?)?)\s*$"
"""A text with a time of day and no date, such as 10:15 or T10:15:30Z."""
_PART_OF_DATE: Final = r"^\s*[+-]?\d{4,6}(-\d\d?)?\s*$"
"""A text with a year, or with a year and a month."""
_DATE_AND_TIME_BYTES: Final = 19
"""So long a text is not looked at: it has room for a date and a time, and a look costs as much as reading the time."""

_EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)
_LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC)
"""Times of records are bounded by these; landing takes no time near them."""

_ERROR_LOGGERS: Final = tuple(
    PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
)
"""To them pyspark logs failures; of its own class, since it cannot log them to plain loggers."""
_analysing: Final = RLock()
"""Held by the thread that keeps them quiet."""

_passed: set[tuple[Kind, str]] = set()
"""Descriptions of the sources that passed `check_expressions` in this process."""
_schemas: dict[tuple[tuple[str, str], ...], StructType] = {}
"""Columns and their types -> the schemas that `schema_of` returned in this process."""


def check_expressions(spark: SparkSession, source: Source) -> None:
    """Let Spark analyse every expression. Raises SpecError with a line for each problem, with its place.

    An expression must be over one record (no aggregate, window or generator), use declared columns only, and have a
    type that its canonical column can hold. A source that passed is not checked again in this process. The session
    must have `SESSION_SETTINGS`.
    """
    description = (source.declared_kind, f"{source.model_dump_json()} {source.digest}")
    if description in _passed:
        return
    with _quiet_analysis():
        _check_types(spark, source)
    named, problems = _named(spark, source)
    declared = source.format.declared
    frame = _empty_records(spark, source, named)
    with _quiet_analysis():
        for location, names in named.items():
            message = _foreign_name(names, declared)
            if message is None and location in located_expressions(source):
                message = _fault(frame, source, location, located_expressions(source)[location])
            if message is not None:
                problems[location] = message
    problems |= _identity_without_effect(source, named)
    if problems:
        fields = (*located_expressions(source), *named)
        ordered = [location for location in dict.fromkeys(fields) if location in problems]
        raise SpecError("\n".join(source.problem(location, problems[location]) for location in ordered))
    _passed.add(description)


def check_constants(spark: SparkSession, source: Source) -> None:
    """Let Spark evaluate every expression for records without values. The source must pass `check_expressions`.

    Raises SpecError with a line for each expression that fails whatever the record, such as for its pattern.
    """
    declared = source.format.declared or dict.fromkeys(needed_columns(spark, source), "string")
    columns = {**declared, **dict.fromkeys(_looked_up(source).values(), "string"), "_line": "bigint"}
    schema = schema_of(spark, columns)
    nothing = [None] * len(schema)
    empty = ["" if isinstance(column.dataType, StringType) else None for column in schema]
    records = spark.createDataFrame([nothing, empty], schema)
    problems = []
    for location, expression in located_expressions(source).items():
        text = to_try(source, expression)
        if text is None and may_raise(source, expression):
            continue  # it may raise for these records alone
        value = functions.expr(expression) if text is None else tried(spark, functions.expr(text))
        try:
            records.select(value).collect()
        except (PySparkException, Py4JJavaError) as error:
            problems.append(source.problem(location, f"Spark fails with {expression!r}: {reason_of(error)}"))
    if problems:
        raise SpecError("\n".join(problems))


def needed_columns(spark: SparkSession, source: Source) -> tuple[str, ...]:
    """The partner's columns that the expressions and the identity name, as they spell them.

    Raises SpecError if an expression cannot be parsed, or uses a value that is not a column.
    """
    return _distinct_names(named_columns(spark, source))


def named_columns(spark: SparkSession, source: Source) -> dict[Location, tuple[str, ...]]:
    """The partner's columns that each field of the source names, without those that it looks up.

    Raises SpecError as `needed_columns` does.
    """
    named, problems = _named(spark, source)
    if problems:
        raise SpecError("\n".join(source.problem(location, message) for location, message in problems.items()))
    return named


def event_time(frame: DataFrame, source: Source, text: str | None = None) -> Column:
    """The time of each record of a frame of the partner's columns: a TIMESTAMP, NULL if it is not usable.

    `text` is another spelling of the source's expression, with the same result.
    The session's time zone must be UTC. Raises SpecError if the expression is not a time, or is an instant although
    the source states a local time zone.
    """
    spelled = text or source.columns["event_time"]
    expression = functions.expr(spelled)
    type_ = frame.select(expression).schema[0].dataType
    location = ("columns", "event_time")
    if isinstance(type_, TimestampNTZType):
        time = expression.cast("timestamp")
        # Spark raises an error for a time that the shift makes too late or too early.
        bounded = functions.when(time > _LATEST, _LATEST).when(time < _EARLIEST, _EARLIEST).otherwise(time)
        instant = functions.to_utc_timestamp(bounded, source.time_zone)
        return _unless_incomplete_text(frame, spelled, instant)
    if not isinstance(type_, TimestampType):
        message = f"is a {type_.simpleString()}, not a time; use to_timestamp(...) or to_timestamp_ntz(...)"
        raise SpecError(source.problem(location, message))
    if source.time_zone not in {"UTC", "Etc/UTC"}:
        message = (
            f"is a TIMESTAMP, an instant, on which time_zone {source.time_zone} has no effect; "
            "use to_timestamp_ntz(...) for wall time, or time_zone: UTC"
        )
        raise SpecError(source.problem(location, message))
    return unless_incomplete(frame, spelled, expression)


def unless_incomplete(frame: DataFrame, expression: str, value: Column) -> Column:
    """The value of an expression for a TIMESTAMP; NULL if it was made of a time of day, of a year or of a month.

    Spark would add today's date to a time of day, so the value would differ from run to run, and the first day to a
    year or a month. Texts with a format of their own are what the description says.
    """
    return _unless_time_of_day(frame, expression, _unless_incomplete_text(frame, expression, value))


def _unless_time_of_day(frame: DataFrame, expression: str, value: Column) -> Column:
    """The value; NULL if all columns of the expression that are sent have a time of day only."""
    types = {column.name.lower(): column.dataType for column in frame.schema}
    named = columns_named(frame.sparkSession, expression)
    if not named or not all(isinstance(types.get(name.lower()), StringType) for name in named):
        return value
    return _unless_all(_TIME_OF_DAY, [functions.col(quoted(name)) for name in named], value)


def _unless_incomplete_text(frame: DataFrame, expression: str, value: Column) -> Column:
    """The value; NULL if all texts that Spark reads as times without a format have no date, or a part of one."""
    with _quiet_analysis():
        texts = texts_read_as_times(frame, expression)
    return _unless_all(f"{_TIME_OF_DAY}|{_PART_OF_DATE}", list(map(functions.expr, texts)), value) if texts else value


def _unless_all(pattern: str, texts: Sequence[Column], value: Column) -> Column:
    """The value; NULL if all texts that are not NULL match, and there is one."""
    matching = (
        functions.coalesce(  # only a short text is looked at
            (functions.octet_length(text) < _DATE_AND_TIME_BYTES) & text.rlike(pattern),
            functions.lit(True),  # noqa: FBT003 - a literal
        )
        for text in texts
    )
    return functions.when(~reduce(and_, matching, functions.coalesce(*texts).isNotNull()), value)


def empty_records(spark: SparkSession, source: Source) -> DataFrame:
    """A frame without rows that has the columns of the partner and of the look-ups. Raises as `needed_columns`."""
    return _empty_records(spark, source, named_columns(spark, source))


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint for messages about a name that is not among these: the nearest name, else all names."""
    spelled = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), spelled, n=1)
    return f"did you mean {spelled[near[0]]!r}?" if near else f"there are {', '.join(spelled.values())}"


def empty_frame(spark: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    """A frame without rows that has these columns of these types."""
    nulls = (functions.expr(f"CAST(NULL AS {type_}) AS {quoted(name)}") for name, type_ in columns.items())
    # With the filter, Spark knows before it runs that there are no rows.
    return spark.range(0).select(*nulls).where(functions.lit(False))  # noqa: FBT003 - a literal


def schema_of(spark: SparkSession, columns: Mapping[str, str]) -> StructType:
    """The schema of columns of these types as Spark has them in a frame: a text of limited length is a string."""
    key = tuple(columns.items())
    if key not in _schemas:
        _schemas[key] = empty_frame(spark, columns).schema
    return _schemas[key]


def _empty_records(spark: SparkSession, source: Source, named: Mapping[Location, tuple[str, ...]]) -> DataFrame:
    # Without declared columns, only the header of each file names them, so any name may be right.
    columns = source.format.declared or dict.fromkeys(_distinct_names(named), "string")
    return empty_frame(spark, {**columns, **dict.fromkeys(_looked_up(source).values(), "string")})


def _named(spark: SparkSession, source: Source) -> tuple[dict[Location, tuple[str, ...]], dict[Location, str]]:
    """The columns that each field names, and the problem of each field that cannot be parsed."""
    named: dict[Location, tuple[str, ...]] = {
        ("identity", position): (name,) for position, name in enumerate(source.identity)
    } | {("lookups", table): (key,) for table, key in source.lookups.items()}
    looked_up = _looked_up(source)
    problems: dict[Location, str] = {}
    for location, expression in located_expressions(source).items():
        try:
            names = columns_named(spark, expression)
            named[location] = tuple(name for name in names if name.lower() not in looked_up)
            if len(named[location]) < len(names) and location in _AT_LANDING:
                message = "uses a column that is looked up later, when a day is processed; use what the partner sends"
                problems[location] = message
        except UnnamedColumnsError as error:
            problems[location] = f"{expression!r}: {error}"
        except ParseException as error:
            problems[location] = _refusal(expression, error)
    return named, problems


def _looked_up(source: Source) -> dict[str, str]:
    """The columns that the source's tables add: in lower case -> as the tables spell them."""
    return {name.lower(): name for table in source.tables for name in table.columns}


def _distinct_names(named: Mapping[Location, tuple[str, ...]]) -> tuple[str, ...]:
    return distinct(name for names in named.values() for name in names)


def _check_types(spark: SparkSession, source: Source) -> None:
    """Raise SpecError if a declared column's type is not one of Spark's; columns of text are all strings."""
    if not isinstance(source.format, ParquetFormat):
        return
    problems = []
    for name, type_ in source.format.declared.items():
        try:
            empty_frame(spark, {name: type_})
        except AnalysisException:
            message = f"{type_!r} is no type of Spark's; use one such as string, bigint or timestamp"
            problems.append(source.problem(("format", "columns", name), message))
    if problems:
        raise SpecError("\n".join(problems))


def _foreign_name(names: Iterable[str], declared: Mapping[str, str]) -> str | None:
    """The problem of the first name that cannot be one of the partner's columns, or None."""
    known = {name.lower() for name in declared}
    for name in names:
        if name.lower() in RESERVED_COLUMNS:
            return f"{name!r} is a name of the raw files' own; use only the partner's columns"
        if declared and name.lower() not in known:
            return f"there is no column {name!r}; {nearest(name, declared)}"
    return None


def _identity_without_effect(source: Source, named: Mapping[Location, tuple[str, ...]]) -> dict[Location, str]:
    """The problem of each column of the identity that the identifier's own expression, if there is one, leaves out."""
    used = named.get(("columns", source.identifier))
    if used is None:
        return {}
    known = {name.lower() for name in used}
    message = (
        f"does not tell events apart, as `columns` has an expression for {source.identifier} without it: use it there, "
        "or leave it out here"
    )
    unused = [number for number, name in enumerate(source.identity) if name.lower() not in known]
    return {("identity", number): message for number in unused}


def _fault(frame: DataFrame, source: Source, location: Location, expression: str) -> str | None:
    """Why Spark cannot evaluate this expression over the frame, or None."""
    type_ = "boolean" if location == ("filter",) else source.declared_kind.columns[str(location[-1])]
    try:
        # In a condition Spark takes only an expression over one record.
        frame.where(functions.expr(expression).isNotNull())
        frame.select(functions.expr(expression).try_cast(type_))
        if location == ("filter",):
            frame.where(functions.expr(expression))
        elif location == ("columns", "event_time"):
            event_time(frame, source)
    except SpecError as error:
        return str(error).split(": ", 2)[2]
    except AnalysisException as error:
        return _refusal(expression, error)
    return None


def _refusal(expression: str, error: AnalysisException) -> str:
    reason = re.sub(r"\s*SQLSTATE: \w+.*", "", str(error).strip().splitlines()[0])
    return f"Spark does not take {expression!r}: {reason}"


@contextmanager
def _quiet_analysis() -> Iterator[None]:
    """Keep pyspark from logging each failed analysis with its stack trace: a failure is an answer here.

    One thread at a time: what is disabled is the process's, and two threads in PySparkLogger.getLogger, which pyspark
    calls for each failure, may leave pyspark's class as that of all loggers: Dagster cannot make its own from it.
    """
    with _analysing:
        before = [logger.disabled for logger in _ERROR_LOGGERS]
        for logger in _ERROR_LOGGERS:
            logger.disabled = True
        try:
            yield
        finally:
            for logger, disabled in zip(_ERROR_LOGGERS, before, strict=True):
                logger.disabled = disabled
