"""What Spark makes of a source's expressions: whether it understands them, and what they need.

Here: the settings they are written for, and analysis on empty frames; no record is read. Not here: the form
of a source's description (see `spec`) and the evaluation of expressions over records (see `landing` and
`transforms`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import TimestampNTZType, TimestampType

from feed_assets.sources.positions import Location
from feed_assets.sources.spec import CANONICAL_COLUMNS, Source, SpecError, quoted

SESSION_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # With ANSI on, one value that cannot be read fails the file or the day; off, it is NULL and goes to quarantine.
        "spark.sql.ansi.enabled": "false",
        # With any other policy, a date that Spark 2 read in its own way is an error instead of NULL.
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        # Wall time that a partner writes without a zone is read as UTC, then shifted from the source's zone.
        "spark.sql.session.timeZone": "UTC",
    }
)
"""What the session must be set to, so that a value which cannot be read is NULL and times are UTC."""


def check_expressions(spark: SparkSession, source: Source) -> None:
    """Let Spark analyse every expression. Raises SpecError with a line for each problem, where it stands.

    An expression must be of one record (no aggregate, window or generator), of columns the format
    declares, and of a type that its canonical column can hold.
    """
    problems: list[str] = []
    columns = dict(source.format.declared)
    if not columns:
        # Nothing but the header of each file names the columns, so any name may be right.
        columns = dict.fromkeys(needed_columns(spark, source), "string")
    with _quiet_analysis():
        for location, expression in _expressions(source).items():
            frame = empty_frame(spark, columns)
            if message := _fault(frame, source, location, expression):
                problems.append(source.problem(location, message))
    if problems:
        raise SpecError("\n".join(problems))


def needed_columns(spark: SparkSession, source: Source) -> tuple[str, ...]:
    """The partner's columns that the expressions and the identity use, as they spell them.

    Raises SpecError where an expression cannot be parsed or analysed.
    """
    return lacking_columns(spark, source, {})


def lacking_columns(spark: SparkSession, source: Source, available: Mapping[str, str]) -> tuple[str, ...]:
    """The partner's columns that the source needs besides the `available` ones (column -> Spark SQL type).

    Raises SpecError where an expression cannot be parsed or analysed.
    """
    known = {name.lower() for name in available}
    columns = dict(available)
    for name in source.identity:
        if name.lower() not in known:
            known.add(name.lower())
            columns[name] = source.format.declared.get(name, "string")
    texts = [functions.expr(text) for text in _parsed(source).values()]
    with _quiet_analysis():
        while (unresolved := _unresolved(spark, source, texts, columns)) is not None:
            columns[unresolved] = source.format.declared.get(unresolved, "string")
    return tuple(columns)[len(available) :]


def event_time(frame: DataFrame, source: Source) -> Column:
    """The time of each record of a frame of the partner's columns: a TIMESTAMP, NULL where it is not usable.

    The session's time zone must be UTC. Raises SpecError where the expression is no time, or is an
    instant although the source says that its times are local.
    """
    expression = functions.expr(source.columns["event_time"])
    type_ = frame.select(expression).schema[0].dataType
    location = ("columns", "event_time")
    if isinstance(type_, TimestampNTZType):
        return functions.to_utc_timestamp(expression.cast("timestamp"), source.time_zone)
    if not isinstance(type_, TimestampType):
        message = f"is a {type_.simpleString()}, not a time; use to_timestamp(...) or to_timestamp_ntz(...)"
        raise SpecError(source.problem(location, message))
    if source.time_zone not in {"UTC", "Etc/UTC"}:
        message = (
            f"is a TIMESTAMP, an instant, on which time_zone {source.time_zone} has no effect; "
            "use to_timestamp_ntz(...) for wall time, or time_zone: UTC"
        )
        raise SpecError(source.problem(location, message))
    return expression


def empty_frame(spark: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    """A frame without rows that has these columns of these types."""
    return spark.range(0).select(
        *(functions.expr(f"CAST(NULL AS {type_}) AS {quoted(name)}") for name, type_ in columns.items())
    )


def _expressions(source: Source) -> dict[Location, str]:
    expressions: dict[Location, str] = {("columns", name): text for name, text in source.columns.items()}
    return expressions | ({("filter",): source.filter} if source.filter else {})


def _fault(frame: DataFrame, source: Source, location: Location, expression: str) -> str | None:
    type_ = "boolean" if location == ("filter",) else CANONICAL_COLUMNS[source.kind][str(location[-1])]
    try:
        # In a condition Spark takes nothing but an expression over one record.
        frame.where(functions.expr(expression).isNotNull())
        frame.select(functions.expr(expression).cast(type_))
        if location == ("filter",):
            frame.where(functions.expr(expression))
        elif location == ("columns", "event_time"):
            event_time(frame, source)
    except SpecError as error:
        return str(error).split(": ", 2)[2]
    except AnalysisException as error:
        if name := _unresolved_name(error):
            return f"there is no column {name!r}; the format has {', '.join(frame.columns)}"
        return _refusal(expression, error)
    return None


def _parsed(source: Source) -> dict[Location, str]:
    """The expressions, each of which is known to be one. Raises SpecError."""
    for location, text in _expressions(source).items():
        try:
            functions.expr(text)
        except ParseException as error:
            raise SpecError(source.problem(location, _refusal(text, error))) from None
    return _expressions(source)


def _unresolved(
    spark: SparkSession, source: Source, expressions: Sequence[Column], columns: Mapping[str, str]
) -> str | None:
    """The first column the expressions use besides these."""
    try:
        empty_frame(spark, columns).select(*expressions)
    except AnalysisException as error:
        name = _unresolved_name(error)
        if name is not None and name not in columns:
            return name
        for location, text in _expressions(source).items():
            try:
                empty_frame(spark, columns).select(functions.expr(text))
            except AnalysisException as single:
                if _unresolved_name(single) is None:
                    raise SpecError(source.problem(location, _refusal(text, single))) from None
        raise
    return None


def _unresolved_name(error: AnalysisException) -> str | None:
    if isinstance(error, ParseException) or not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
        return None
    name = re.match(r"`((?:[^`]|``)*)`", (error.getMessageParameters() or {}).get("objectName", ""))
    return name[1].replace("``", "`") if name else None


def _refusal(expression: str, error: AnalysisException) -> str:
    reason = re.sub(r"\s*SQLSTATE: \w+.*", "", str(error).strip().splitlines()[0])
    return f"Spark does not take {expression!r}: {reason}"


@contextmanager
def _quiet_analysis() -> Iterator[None]:
    """Keep pyspark from logging each failed analysis with its stack trace: failing is an answer here."""
    # As loggers of pyspark's own class: it could not log its next error to one that was made here as a plain one.
    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
