"""A partner's records in canonical columns.

Here: evaluating a source's expressions, which tells values that were not sent from values that cannot be read. Not
here: whether a record can be used (a project's own rules), and which fields a source has (see `spec`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark
from pyspark.sql.types import FractionalType

from feed_assets.engine.judged_rows import RAISED
from feed_assets.engine.moments import JSON_TIMES
from feed_assets.engine.session import SESSION_SETTINGS
from feed_assets.engine.sql import map_literal, quoted
from feed_assets.sources.expressions import check_expressions, event_time, named_columns, unless_incomplete
from feed_assets.sources.formats import RESERVED_COLUMNS
from feed_assets.sources.kinds import EVENT_TIME, SOURCE
from feed_assets.sources.lookups import with_table
from feed_assets.sources.partner_columns import fields_named
from feed_assets.sources.raising import VALUE, to_try, tried
from feed_assets.sources.spec import Source, SpecError

VERSION: Final = "4"
"""Changes with what becomes of the same records, here and in `quality.judging`; it is in the record of each update."""

_WHOLE_NUMBERS: Final = {"tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"}


class SessionSettingsError(RuntimeError):
    """The Spark session does not read bad values as NULL; the message names the setting."""


def canonical(raw: DataFrame, source: Source) -> DataFrame:
    """The records of a raw frame in the canonical columns of their kind, one row each, ready to be judged.

    `raw` holds the partner's columns, `_file`, `_line`, `_malformed`. Look-ups add columns. The result has the columns
    of the kind's schema, NULL if no usable value was sent; `source`; `_file`, `_line`, `_malformed`; `_raw`, the
    partner's fields as a JSON object; `_unparsable`, an array of the kind's `parsed` columns that are NULL although all
    their fields were sent, NULL if there is none. If evaluating an expression raises an error for a record, its column
    is NULL, and `_unparsable` has its name twice: first with `RAISED` before it, and before all other names.

    Raises SessionSettingsError if the session does not have `SESSION_SETTINGS`, and SpecError if Spark does not take
    an expression or `raw` lacks a column that an expression names.
    """
    _check_settings(raw.sparkSession)
    check_expressions(raw.sparkSession, source)
    _check_columns(raw, source)
    kind = source.declared_kind
    types = {column.name: column.type for column in kind.schema}
    sent = [name for name in raw.columns if name not in RESERVED_COLUMNS]
    records = reduce(with_table, source.tables, raw)
    raising = {name: safe for name, text in source.columns.items() if (safe := to_try(source, text)) is not None}
    values = {name: F.expr(text) for name, text in (source.expressions | raising).items()}
    values |= {
        name: unless_incomplete(records, text, values[name])
        for name, text in (source.columns | raising).items()
        if types.get(name, "").lower() == "timestamp"
    }
    values |= {EVENT_TIME: event_time(raw, source, raising.get(EVENT_TIME)), SOURCE: F.lit(source.name)}
    values = _as_declared(records, values, types)
    # Columns: Spark would evaluate the expressions for the value and for the remark.
    evaluated = {name: (f"_tried {name}", tried(raw.sparkSession, values[name])) for name in raising}
    records = records.withColumns(dict(evaluated.values()))
    values |= {name: F.col(quoted(place))[VALUE] for name, (place, _) in evaluated.items()}
    unreadable = {
        name: values[name].isNull() & F.expr(were_sent)
        for name in kind.parsed
        if (were_sent := _all_sent(raw.sparkSession, source.columns.get(name)))
    }
    raised = {name: F.col(quoted(place)).isNull() for name, (place, _) in evaluated.items()}
    unreadable |= {name: unreadable[name] | raised[name] if name in unreadable else raised[name] for name in raised}
    remarks = {f"{RAISED}{name}": applies for name, applies in raised.items()} | unreadable
    options = map_literal({"ignoreNullFields": "false", **JSON_TIMES})
    fields = f"to_json(struct({', '.join(map(quoted, sent))}), {options}) AS _raw"
    return records.select(
        *[values[name].alias(name) for name in (*types, *({SOURCE} - types.keys()))],
        "_file",
        "_line",
        "_malformed",
        F.expr(fields),
        _all_that_apply([F.when(applies, name) for name, applies in remarks.items()]).alias("_unparsable"),
    )


def _check_settings(spark: SparkSession) -> None:
    for name, wanted in SESSION_SETTINGS.items():
        found = spark.conf.get(name)
        if str(found).lower() != wanted.lower():
            raise SessionSettingsError(
                f"The Spark session has {name}={found}, and partners' values are read with {name}={wanted}. "
                "Start the session with engine.session.SESSION_SETTINGS."
            )


def _check_columns(raw: DataFrame, source: Source) -> None:
    """Raise SpecError for a column that `raw` lacks: its name may mean something else, such as Spark's own `user`."""
    present = {name.lower() for name in raw.columns}
    problems = [
        source.problem(location, f"the records have no column {name!r}; they have {', '.join(raw.columns)}")
        for location, names in named_columns(raw.sparkSession, source).items()
        for name in names
        if name.lower() not in present
    ]
    if problems:
        raise SpecError("\n".join(problems))


def _as_declared(records: DataFrame, values: Mapping[str, Column], types: Mapping[str, str]) -> dict[str, Column]:
    """The values in their columns' types; NULL if its type cannot hold a value. A DECIMAL is rounded to its places."""
    whole = [name for name in values if types.get(name, "").lower() in _WHOLE_NUMBERS]
    given = records.select(*(values[name].alias(name) for name in whole)).schema if whole else ()
    # A cast would cut the fraction off.
    fractional = {field.name for field in given if isinstance(field.dataType, FractionalType)}
    values = {name: F.when(value % 1 == 0, value) if name in fractional else value for name, value in values.items()}
    # A plain cast makes another number of what does not fit, such as 0 of NaN.
    return {name: value.try_cast(types.get(name, "string")) for name, value in values.items()}


def _all_that_apply(names: Sequence[Column]) -> Column:
    """The names that are not NULL, as an array; NULL without any, as for nearly every record."""
    if not names:
        return F.lit(None).cast("array<string>")
    return F.when(F.coalesce(*names).isNotNull(), F.array_compact(F.array(*names)))


def _all_sent(spark: SparkSession, expression: str | None) -> str:
    """The condition that all of the partner's fields in this SQL expression hold a value; empty if it names none."""
    named = fields_named(spark, expression) if expression else ()
    return " AND ".join(f"{'.'.join(map(quoted, parts))} IS NOT NULL" for parts in named)
