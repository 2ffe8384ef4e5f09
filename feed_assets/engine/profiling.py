"""What rows look like: counts for each column, and a digest of their content, taken while they pass by.

Here: aggregates for `DataFrame.observe`, and what they found, as plain JSON. They take no pass of their own. Not here:
what is unusual (`dependencies.quality.profiles`), and where a profile is kept (`steps.writing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DoubleType,
    FloatType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from feed_assets.engine.moments import JSON_TIMES
from feed_assets.engine.sql import map_literal, quoted
from feed_assets.file_feed.digest import short_digest

MOST_COLUMNS: Final = 100
"""Columns that are profiled, the first ones: each takes four aggregates. The digest has all."""
_ROWS, _HASHES, _LOW, _HIGH = "rows", "hashes", "low", "high"
_COUNTED, _DISTINCT, _SMALLEST, _LARGEST = "counted", "distinct", "smallest", "largest"
_IN_JSON: Final = (NumericType, BooleanType, StringType, BinaryType, DateType, TimestampType, TimestampNTZType)
_HASHED: Final = (*_IN_JSON, DayTimeIntervalType, YearMonthIntervalType)
"""Types that Spark hashes; nested types are hashed as JSON, as Spark's hash of them leaves NULL and borders out."""
_FLAGS: Final = 63
"""NULLs that a number of 64 bits tells."""


def digest_counts(schema: StructType) -> list[Column]:
    """Named aggregates over rows of this schema, for `digest_found`. Empty if a column cannot be hashed."""
    if (row := _row_hash(schema)) is None:
        return []
    # Halves, so that no number of rows makes the sum too large; a sum does not depend on the order of rows.
    halves = [f"sum({row} & 4294967295L) AS {_LOW}", f"sum(shiftright({row}, 32)) AS {_HIGH}"]
    return [F.expr(each) for each in (f"count(1) AS {_HASHES}", *halves)]


def digest_found(schema: StructType, found: Mapping[str, Any]) -> str:
    """The digest of the content; "" if a column has a type that cannot be hashed.

    Equal rows, in any order, in columns of equal names and types have equal digests. `found` is empty if Spark knew
    before that there are no rows.
    """
    if _row_hash(schema) is None:
        return ""
    types = [[field.name, field.dataType.simpleString()] for field in schema]
    return short_digest(str([types, *(found.get(each) or 0 for each in (_HASHES, _LOW, _HIGH))]))


def profile_counts(schema: StructType) -> list[Column]:
    """Named aggregates over rows of this schema, for `profile_found`."""
    found = [f"count(1) AS {_ROWS}"]
    for number, field in enumerate(schema.fields[:MOST_COLUMNS]):
        found += [f"{sql} AS {_name(what, number)}" for what, sql in _of_column(field)]
    return [F.expr(each) for each in found]


def profile_found(schema: StructType, found: Mapping[str, Any]) -> dict[str, Any]:
    """The profile as JSON. `found` as in `digest_found`.

    `rows`; for each column `[nulls, distinct, smallest, largest]`, where `distinct` is an estimate, 5 % off in
    general; `times` names the columns whose values are seconds since 1970, UTC.
    """
    rows = int(found.get(_ROWS) or 0)
    columns = {
        field.name: [
            rows - int(found.get(_name(_COUNTED, number)) or 0),
            int(found.get(_name(_DISTINCT, number)) or 0),
            _plain(found.get(_name(_SMALLEST, number)), field.dataType),
            _plain(found.get(_name(_LARGEST, number)), field.dataType),
        ]
        for number, field in enumerate(schema.fields[:MOST_COLUMNS])
    }
    return {"rows": rows, "columns": columns, "times": [each.name for each in schema if _is_time(each.dataType)]}


def _of_column(field: StructField) -> Iterator[tuple[str, str]]:
    column, kind = quoted(field.name), field.dataType
    yield _COUNTED, f"count({column})"
    if not isinstance(kind, _HASHED):
        return
    yield _DISTINCT, f"approx_count_distinct({column})"
    if (number := _number(column, kind)) is not None:
        yield _SMALLEST, f"min({number})"
        yield _LARGEST, f"max({number})"


def _number(column: str, kind: DataType) -> str | None:
    """The value of a column as a finite number; None for other types."""
    match kind:
        case FloatType() | DoubleType():
            return f"IF(abs({column}) < double('inf'), {column}, NULL)"
        case NumericType():
            return column
        case DateType():
            return f"unix_date({column}) * 86400L"
        case TimestampType():
            return f"unix_micros({column})"
        case TimestampNTZType():
            return f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', {column})"
        case _:
            return None


def _row_hash(schema: StructType) -> str | None:
    """A number for the values of a row; None if a column has a type that cannot be hashed."""
    values = [_hashable(field) for field in schema]
    if not values or None in values:
        return None
    # Spark's hash skips NULL, so a value would count the same in any of two columns. By place in the schema: what Spark
    # knows of NULLs before may change from run to run.
    flags = [
        f"int({quoted(field.name)} IS NULL) * {1 << place % _FLAGS}L" if field.nullable else "0L"
        for place, field in enumerate(schema)
    ]
    sums = [" + ".join(flags[begin : begin + _FLAGS]) for begin in range(0, len(flags), _FLAGS)]
    return f"xxhash64({', '.join(filter(None, [*values, *sums]))})"


def _hashable(field: StructField) -> str | None:
    column = quoted(field.name)
    if isinstance(field.dataType, _HASHED):
        return column
    if _has_json(field.dataType):
        options = map_literal({**JSON_TIMES, "ignoreNullFields": "false"})
        return f"to_json(struct({column}), {options})"
    return None


def _has_json(kind: DataType) -> bool:
    match kind:
        case ArrayType():
            return _has_json(kind.elementType)
        case MapType():
            return _has_json(kind.keyType) and _has_json(kind.valueType)
        case StructType():
            return all(_has_json(field.dataType) for field in kind)
        case _:
            return isinstance(kind, _IN_JSON)


def _name(what: str, number: int) -> str:
    return f"{what}_{number}"


def _is_time(kind: DataType) -> bool:
    return isinstance(kind, DateType | TimestampType | TimestampNTZType)


def _plain(value: Any, kind: DataType) -> int | float | None:
    """A smallest or largest value as a number of JSON; times in seconds."""
    if value is None:
        return None
    if isinstance(kind, TimestampType | TimestampNTZType):
        return int(value) / 1_000_000
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    return value if isinstance(value, float) else int(value)
