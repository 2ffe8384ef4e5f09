"""A warehouse in Snowflake, filled through a stage by PUT and COPY INTO. Not here: what all have in common (`port`).

Tested with an emulator only (fakesnow). Secrets come from the URL or from SNOWFLAKE_PASSWORD, or the key from the file
SNOWFLAKE_PRIVATE_KEY_FILE, with SNOWFLAKE_PRIVATE_KEY_FILE_PWD.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import SplitResult, parse_qsl, unquote

import snowflake.connector
from snowflake.connector.errors import OperationalError

from feed_assets.engine.duckdb_sql import literal, quoted_name
from feed_assets.file_feed.record import Column
from feed_assets.warehouse.port import (
    WAIT_SECONDS,
    Parameters,
    SchemaMismatchError,
    Table,
    Warehouse,
    WarehouseError,
)
from feed_assets.warehouse.rows import CSV, mapped, query, reading

LONGEST_NAME = 255
LOCK = "feed_assets_lock"
STAGE = "feed_assets_stage"
FORMAT = "TYPE = CSV COMPRESSION = GZIP FIELD_OPTIONALLY_ENCLOSED_BY = '\"' EMPTY_FIELD_AS_NULL = TRUE NULL_IF = ()"
SESSION = {"TIMEZONE": "UTC", "LOCK_TIMEOUT": WAIT_SECONDS, "QUERY_TAG": "feed_assets"}
SECRETS = {
    "password": "SNOWFLAKE_PASSWORD",
    "private_key_file": "SNOWFLAKE_PRIVATE_KEY_FILE",
    "private_key_file_pwd": "SNOWFLAKE_PRIVATE_KEY_FILE_PWD",
}

_WHOLE = "NUMBER(38,0)"
_TEXT = "VARCHAR(16777216)"
TYPES = {
    "boolean": "BOOLEAN",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE),
    **dict.fromkeys(("float", "double"), "FLOAT"),
    "string": _TEXT,
    "binary": "BINARY(8388608)",
    "date": "DATE",
    "timestamp": "TIMESTAMP_TZ(9)",
    "timestamp_ntz": "TIMESTAMP_NTZ(9)",
}


class SnowflakeWarehouse(Warehouse):
    """A schema of Snowflake. Plain names are in upper case, so queries need no quotes."""

    kind = "snowflake"

    def __init__(self, options: Mapping[str, Any], title: str) -> None:
        self._options, self.title = options, title

    @classmethod
    def at(cls, parts: SplitResult, title: str) -> Self:
        """The warehouse at `snowflake://user@account/database/schema?warehouse=NAME&role=NAME`."""
        database, schema = (unquote(part) for part in parts.path.strip("/").split("/"))
        secrets = {name: os.environ[variable] for name, variable in SECRETS.items() if os.environ.get(variable)}
        given = {"user": parts.username, "password": parts.password}
        named = {name: unquote(value) for name, value in given.items() if value}
        place = {"account": parts.hostname, "database": database, "schema": schema}
        return cls({**secrets, **dict(parse_qsl(parts.query)), **named, **place}, title)

    @contextmanager
    def open(self, *, writes: bool) -> Iterator[Any]:
        """See `Warehouse.open`."""
        with self._explained():
            connection = snowflake.connector.connect(**self._options, autocommit=True, session_parameters=SESSION)
        try:
            if writes:
                # DDL commits, so no transaction can be under way. The stage goes with the session.
                self.execute(connection, f"CREATE TABLE IF NOT EXISTS {LOCK} AS SELECT 0 AS taken")
                self.execute(connection, f"CREATE TEMPORARY STAGE IF NOT EXISTS {STAGE}")
            yield connection
        finally:
            with suppress(snowflake.connector.Error):
                connection.close()

    def execute(self, connection: Any, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """See `Warehouse.execute`."""
        with self._explained(), connection.cursor() as cursor:
            text = statement.replace("?", "%s") if parameters else statement
            rows: list[tuple[Any, ...]] = cursor.execute(text, tuple(parameters) or None).fetchall()
            return rows

    def lock(self, connection: Any, table: str, partition: str) -> None:
        """See `Warehouse.lock`. An UPDATE locks its row until the transaction ends: all loads wait for each other."""
        del table, partition
        self.execute(connection, f"UPDATE {LOCK} SET taken = taken + 1")  # noqa: S608 - a constant

    def prepare(self, connection: Any, table: Table) -> None:
        """See `Warehouse.prepare`. Each definition commits by itself in Snowflake, and does nothing a second time."""
        for statement in self.definitions(connection, table):
            self.execute(connection, statement)

    def columns(self, connection: Any, table: str) -> Mapping[str, str]:
        """See `Warehouse.columns`."""
        there = "SELECT 1 FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = ?"
        if not self.execute(connection, there, (_stored(table),)):
            return {}
        return {name: type_ for name, type_, *_ in self.execute(connection, f"DESCRIBE TABLE {self.quoted(table)}")}

    def insert(
        self, connection: Any, into: str, columns: Sequence[Column], files: Sequence[Path], added: Mapping[str, str]
    ) -> int:
        """The rows go into the stage as packed CSV, and from there into the table."""
        nested = [self.type_of(column.type) == "VARIANT" for column in columns] + [False] * len(added)
        fields = (f"PARSE_JSON(${place})" if each else f"${place}" for place, each in enumerate(nested, 1))
        with reading() as database, TemporaryDirectory() as folder:
            select = query(database, files, columns, added, render=_rendered)
            if select is None:
                return 0
            packed = Path(folder) / "rows.csv.gz"
            database.execute(f"COPY ({select}) TO {literal(str(packed))} ({CSV}, COMPRESSION gzip)")
            put = f"PUT {literal(packed.as_uri())} @{STAGE} AUTO_COMPRESS = FALSE SOURCE_COMPRESSION = GZIP"
            self.execute(connection, f"{put} OVERWRITE = TRUE")
        # Without a query Snowflake would keep the text of a nested value as text. The emulator knows no such query.
        source = f"(SELECT {', '.join(fields)} FROM @{STAGE})" if any(nested) else f"@{STAGE}"  # noqa: S608 - constants
        options = f"FILE_FORMAT = ({FORMAT}) ON_ERROR = ABORT_STATEMENT FORCE = TRUE"
        done = self.execute(connection, f"COPY INTO {into} FROM {source} {options}")
        return sum(int(row[3]) for row in done)

    def type_of(self, spark: str) -> str | None:
        """See `Warehouse.type_of`."""
        return mapped(spark, TYPES, nested="VARIANT", decimal="NUMBER")

    def quoted(self, name: str) -> str:
        """See `Warehouse.quoted`."""
        if len(name) > LONGEST_NAME:
            raise SchemaMismatchError(f"Snowflake cannot have the name {name}: it is longer than {LONGEST_NAME}.")
        return quoted_name(_stored(name))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except snowflake.connector.Error as error:
            transient = isinstance(error, OperationalError)
            raise WarehouseError(f"{self.title}: {' '.join(str(error).split())}", transient=transient) from None


def _stored(name: str) -> str:
    """A plain name as Snowflake keeps it if it is not quoted."""
    return name.upper() if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", name) else name


def _rendered(expression: str, type_: str) -> str:
    """Snowflake reads binary values as hexadecimal text."""
    return f"hex({expression})" if type_ == "BLOB" else expression
