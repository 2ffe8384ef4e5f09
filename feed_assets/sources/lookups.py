"""Static look-ups: columns that a table adds to each record of a source, such as the campaign of an ad.

Here: the table as it is read from a CSV beside the source's description, and the join. Not here: when records are
joined (see `canonical`): when a day is processed, so a corrected table needs no new landing.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from feed_assets.engine.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LARGEST = 64 * 2**20
"""The most bytes of a table: each executor holds all of it."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a CSV: `key` is the column that they are found by, `columns` are the others; all are text.

    Each row has the key first. `sha256` is the digest of the file.
    """

    key: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = field(repr=False)
    sha256: str


def read_table(path: Path, key: str, taken: Container[str]) -> Table:
    """The table in a CSV with a header. `taken` are names, in lower case, that its columns cannot have.

    Raises ValueError with the line and what to do.
    """
    try:
        content = path.read_bytes()
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        header, *rows = [(lines.line_num, line) for line in lines if line] or [(1, [])]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as CSV in UTF-8: {error}") from None
    names = [name.strip() for name in header[1]]
    lower = [name.lower() for name in names]
    others = tuple(name for name in names if name.lower() != key.lower())
    if len(content) > LARGEST:
        raise ValueError(f"{path} has more than {LARGEST // 2**20} MiB; join it in an asset instead")
    if lower.count(key.lower()) != 1 or not others:
        raise ValueError(f"{path}:1: the header takes {key!r} once, and the columns to look up; it has {names}")
    for name in others:
        if not name or lower.count(name.lower()) > 1 or name.lower() in taken:
            raise ValueError(f"{path}:1: the name {name!r} is empty or used already; give the column another one")
    position = lower.index(key.lower())
    found: dict[str, tuple[str, ...]] = {}
    for number, line in rows:
        if len(line) != len(names):
            raise ValueError(f"{path}:{number}: {len(line)} fields under a header of {len(names)}; correct the line")
        row = (line[position], *line[:position], *line[position + 1 :])
        if found.setdefault(line[position], row) is not row:
            raise ValueError(f"{path}:{number}: a second row for {line[position]!r}; keep one")
    return Table(key, others, tuple(found.values()), hashlib.sha256(content).hexdigest())


def with_table(records: DataFrame, table: Table) -> DataFrame:
    """The same records with the table's columns; NULL where the table has no row for the record's key."""
    from pyspark.sql import functions  # noqa: PLC0415 - descriptions are read without Spark

    schema = ", ".join(f"{quoted(name)} STRING" for name in ("_key", *table.columns))
    rows = functions.broadcast(records.sparkSession.createDataFrame(list(table.rows), schema))
    return records.join(rows, records[quoted(table.key)].cast("string") == rows["_key"], "left").drop("_key")
