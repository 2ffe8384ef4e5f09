"""The rows of files as a query of DuckDB, under the declared columns, and as CSV.

Here: types, conversions without loss, and streams. Not here: any warehouse. DuckDB reads the files and writes the text;
Python passes on bytes, and never holds a row.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from feed_assets.engine.duckdb_database import in_memory
from feed_assets.engine.duckdb_sql import literal, quoted_name, require_columns, rows_of
from feed_assets.file_feed.record import Column
from feed_assets.file_feed.wording import first_line
from feed_assets.warehouse.port import WarehouseError

CHUNK = 2**20
CSV = "FORMAT csv, HEADER false, NULLSTR ''"

TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
"""Types of Spark, and those of DuckDB that keep the same values."""

_NESTED = re.compile(r"(array|map|struct)<.*>")
_BINARY = re.compile(r"[:<,]binary[,>]")
_TEXT = re.compile(r"(var)?char\(\d+\)")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DIGITS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), 0),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"), 6),
}
"""How many digits after the point a type keeps."""
_EXPONENT = literal(r"^\s*[-+]?[0-9_.]+[eE]")
_SPACES = literal(" \t\r\n")

Render = Callable[[str, str], str]
"""From an expression and its DuckDB type to the expression that goes into a warehouse."""


def mapped(spark: str, types: Mapping[str, str], *, nested: str, decimal: str) -> str | None:
    """The counterpart of a type of Spark: in `types`, or `nested` for arrays, maps and structs, or `decimal(p,s)`."""
    if _NESTED.fullmatch(spark):
        return None if _BINARY.search(spark) else nested  # JSON has no bytes
    if found := _DECIMAL.fullmatch(spark):
        return f"{decimal}({found[1]},{found[2]})"
    return types.get("string" if _TEXT.fullmatch(spark) else spark)


def duckdb_type(spark: str) -> str | None:
    """The type of DuckDB that keeps this type of Spark without loss; JSON for nested types."""
    return mapped(spark, TYPES, nested="JSON", decimal="DECIMAL")


def query(
    database: duckdb.DuckDBPyConnection,
    files: Sequence[Path],
    columns: Sequence[Column],
    added: Mapping[str, str],
    render: Render = lambda expression, _: expression,
) -> str | None:
    """The SELECT of these columns of the files, in this order, and of the constants `added`; None without any row.

    A column that the files lack is NULL. A value that its type cannot keep is an error of the query. The session's time
    zone must be UTC. Raises UnknownFormatError and MalformedCsvError.
    """
    relation = rows_of(files)
    if relation is None:
        return None
    described = database.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()  # noqa: S608 - quoted paths
    found = {name.lower(): (name, type_) for name, type_, *_ in described}
    require_columns(files, [name for name, *_ in described], [column.name for column in columns])
    selected = [render(*_converted(column, *found.get(column.name.lower(), ("", "")))) for column in columns]
    constants = [literal(value) for value in added.values()]
    return f"SELECT {', '.join([*selected, *constants])} FROM {relation}"  # noqa: S608 - quoted paths and names


def _converted(column: Column, name: str, type_: str) -> tuple[str, str]:
    """The column as its declared type, and this type."""
    target, value = str(duckdb_type(column.type)), quoted_name(name)
    if not type_:
        return f"CAST(NULL AS {target})", target
    if target == "JSON":
        return (value if type_ in {"JSON", "VARCHAR"} else f"to_json({value})"), target
    if type_ == target:
        return value, target
    if (type_, target) == ("BLOB", "VARCHAR"):
        return f"decode({value})", target  # a cast would escape all bytes that are not ASCII
    cast = f"CAST({value} AS {target})"
    # DuckDB rounds, and cuts times, without an error.
    lost = literal(f"The column {column.name} is {type_} in the files. As {column.type} it would lose: ")
    loses = _text_loses(value, cast, target) if type_ == "VARCHAR" else _differs(f"CAST({cast} AS {type_})", value)
    return f"CASE WHEN {loses} THEN error({lost} || {value}) ELSE {cast} END", target


def _text_loses(value: str, cast: str, target: str) -> str:
    """Whether a text says more than its value as this type: a condition."""
    if target == "DATE":
        return _differs(f"TRY_CAST({cast} AS TIMESTAMP)", f"TRY_CAST(trim({value}, {_SPACES}) AS TIMESTAMP)")
    if target in {"FLOAT", "DOUBLE"}:
        return f"isinf({cast}) AND NOT contains(lower({value}), 'inf')"
    found = re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", target)
    digits = int(found[1]) if found else _DIGITS.get(target)
    if digits is None:
        return "false"
    further = f"regexp_matches({value}, '\\.[0-9_]{{{digits}}}[0-9_]*[1-9]')"
    if target == "TIMESTAMP WITH TIME ZONE":
        return further
    if target == "TIMESTAMP":
        # The offset of UTC is no loss: the session is in UTC.
        moment = "TIMESTAMP WITH TIME ZONE"
        return f"{further} OR {_differs(f'TRY_CAST({cast} AS {moment})', f'TRY_CAST({value} AS {moment})')}"
    # An exponent moves the point. Not from DECIMAL to DOUBLE, which is inexact; texts are read exactly.
    differs = _differs(f"CAST(CAST({cast} AS VARCHAR) AS DOUBLE)", f"TRY_CAST({value} AS DOUBLE)")
    return f"CASE WHEN regexp_matches({value}, {_EXPONENT}) THEN {differs} ELSE {further} END"


def _differs(one: str, other: str) -> str:
    return f"{one} IS DISTINCT FROM {other}"


@contextmanager
def reading() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB in memory that reads files, with its errors as WarehouseError."""
    # One thread: the database is the slower side, and needs the other cores.
    with in_memory(threads=1) as database:
        try:
            yield database
        except duckdb.Error as error:
            raise WarehouseError(unreadable(error)) from None


def unreadable(error: duckdb.Error) -> str:
    """The message for files that cannot be loaded."""
    advice = "Correct the data or the declared columns, and publish again."
    return f"The update's files cannot be loaded: {first_line(error)}. {advice}"


def send_csv(database: duckdb.DuckDBPyConnection, select: str, send: Callable[[bytes], object]) -> int:
    """Send the rows as CSV without header, piece by piece; returns their number. A NULL is an empty field, "" a text.

    DuckDB writes into a pipe in a thread, so it is at most some pieces ahead. Raises duckdb.Error, also after the last
    piece: until it returns, nobody knows that the rows are complete.
    """
    receiving, sending = os.pipe()
    with suppress(AttributeError, OSError):  # Linux only, and up to a limit: fewer switches between both sides
        fcntl.fcntl(sending, fcntl.F_SETPIPE_SZ, CHUNK)

    def write() -> int:
        try:
            return int(database.execute(f"COPY ({select}) TO '/dev/fd/{sending}' ({CSV})").fetchall()[0][0])
        finally:
            os.close(sending)

    with ThreadPoolExecutor(1) as thread, os.fdopen(receiving, "rb", buffering=0) as pipe:
        written = thread.submit(write)
        try:
            while chunk := pipe.read(CHUNK):
                send(chunk)
        finally:
            pipe.close()  # so that DuckDB stops if sending failed
        return written.result()
