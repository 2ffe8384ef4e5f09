"""The columns of a partner's file as they come: names that the description does not know, and columns without a value.

Here: looking at a file while it is read to its end, within bounds. A JSON file is looked at line by line, from 16 MB on
one MB in 16. Of delimited text, the header says the names, and the first 20,000 records whether columns have values; of
Parquet, the footer says both. Not here: whether a change is news (`arrivals.columns`).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import duckdb
import msgspec

from feed_assets.engine.duckdb_database import in_memory
from feed_assets.engine.sql import columns_in
from feed_assets.sources.formats import DelimitedFormat, JsonLinesFormat
from feed_assets.sources.line_breaks import split_fields
from feed_assets.sources.spec import Source

MOST_NAMES: Final = 50
"""The most unknown names of a file that are counted."""
LONGEST_NAME: Final = 200
"""Characters of a name that are kept."""
LOOKED_RECORDS: Final = 20_000
WHOLE_BYTES: Final = 16 * 2**20
ONE_CHUNK_IN: Final = 16
_MOST_SHAPES: Final = 1_000
_LONGEST_LINE: Final = 2**20
MARKS: Final = ("_segment ", "_resubmitted ")
"""The beginnings of the keys with which `receiving` marks the first record of a segment, and corrected records."""


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """What was seen of the `looked` records: unknown names, each with its records, and known columns without a value.

    With more than MOST_NAMES unknown names, the others are left out.
    """

    looked: int
    unknown: Mapping[str, int] = field(default_factory=dict)
    empty: tuple[str, ...] = ()

    @property
    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"looked": self.looked, "unknown": dict(self.unknown), "empty": list(self.empty)}


class JsonLook:
    """Looks at the lines of JSON in chunks of bytes, one after the other."""

    def __init__(self, source: Source) -> None:
        self._known = frozenset(source.format.declared)
        self._missing = set(self._known)
        self._nulls = frozenset({b"null", *map(msgspec.json.encode, source.null_tokens)})
        self._decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        self._unknown: Counter[str] = Counter()
        self._shapes: Counter[tuple[str, ...]] = Counter()
        """Records by their keys: most records of a file have the same, which are looked at once."""
        self._looked = self._bytes = self._chunks = 0
        self._rest: bytes | None = b""

    def chunk(self, text: bytes) -> None:
        """Look at the next chunk; an empty one is the last."""
        self._bytes, self._chunks = self._bytes + len(text), self._chunks + 1
        if self._bytes > WHOLE_BYTES and self._chunks % ONE_CHUNK_IN and text:
            self._rest = None
            return
        lines = ((self._rest or b"") + text).split(b"\n")
        if self._rest is None:
            del lines[0]  # its beginning was passed over
        rest = lines.pop() if lines and text else b""
        self._rest = rest if len(rest) <= _LONGEST_LINE else None
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        try:
            values = self._decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return  # quarantined, or blank
        self._looked += 1
        if self._missing:
            self._missing -= {name for name in self._missing if bytes(values.get(name, b"null")) not in self._nulls}
        self._shapes[tuple(values)] += 1
        if len(self._shapes) > _MOST_SHAPES:
            self._count_names()

    def _count_names(self) -> None:
        for names, records in self._shapes.items():
            for name in sorted(set(names) - self._known):
                short = name[:LONGEST_NAME]
                if not name.startswith(MARKS) and (short in self._unknown or len(self._unknown) < MOST_NAMES):
                    self._unknown[short] += records
        self._shapes.clear()

    @property
    def seen(self) -> SeenColumns:
        """What was seen."""
        self._count_names()
        return SeenColumns(self._looked, dict(self._unknown), tuple(sorted(self._missing)) if self._looked else ())


def json_look(source: Source) -> JsonLook | None:
    """What looks at a file of this source while it is read; None if its format is not JSON."""
    return JsonLook(source) if isinstance(source.format, JsonLinesFormat) else None


def seen_in_text(
    file: BinaryIO, source: Source, text: DelimitedFormat, columns: Sequence[str] | None, records: int
) -> SeenColumns:
    """What is seen of delimited text with these columns in its header; `file` is after the header."""
    names = list(text.columns) if columns is None else list(columns)
    known = _known(source, names)
    missing = {number for number, name in enumerate(names) if name in known}
    looked = 0
    for line in islice(iter(lambda: file.readline(_LONGEST_LINE), b""), LOOKED_RECORDS):
        fields = _fields(line.decode(errors="replace").rstrip("\r\n"), text)
        if not any(fields):
            continue
        looked += 1
        missing -= {each for each in missing if each < len(fields) and fields[each] not in ("", *source.null_tokens)}
        if not missing:
            break
    lacking = [] if columns is None else [name for name in text.columns if name.lower() not in map(str.lower, columns)]
    empty = tuple(sorted([*(names[each] for each in missing), *lacking])) if looked else ()
    return SeenColumns(records, _all_of(set(names) - known, records), empty)


def seen_in_parquet(path: Path, source: Source) -> SeenColumns | None:
    """What is seen in the footer of a file of Parquet; None if it cannot be read: Spark says what is wrong with it."""
    try:
        return _in_footer(path, source)
    except duckdb.Error:
        return None


def _in_footer(path: Path, source: Source) -> SeenColumns:
    with in_memory(threads=1) as database:
        rows = database.execute(
            "SELECT split_part(path_in_schema, ', ', 1), bool_and(coalesce(stats_null_count = num_values, false) "
            "OR num_values = 0) FROM parquet_metadata(?) GROUP BY 1",
            [str(path)],
        ).fetchall()
        records = database.execute("SELECT sum(num_rows) FROM parquet_file_metadata(?)", [str(path)]).fetchone()
    looked = int(records[0] or 0) if records else 0
    without = {str(name).lower(): bool(empty) for name, empty in rows}
    known = {name.lower(): name for name in source.format.declared}
    unknown = {str(name) for name, _ in rows if str(name).lower() not in known}
    empty = tuple(sorted(name for lower, name in known.items() if without.get(lower, True))) if looked else ()
    return SeenColumns(looked, _all_of(unknown, looked), empty)


def _all_of(names: Iterable[str], records: int) -> dict[str, int]:
    """These columns are in all records."""
    return {name[:LONGEST_NAME]: records for name in sorted(names)[:MOST_NAMES]} if records else {}


def _known(source: Source, names: Sequence[str]) -> set[str]:
    """The names that the description knows: its columns; if it names none, those that its expressions use."""
    if declared := {name.lower() for name in source.format.declared}:
        return {name for name in names if name.lower() in declared}
    texts = [*source.columns.values(), source.filter or "", *map(_quoted, (*source.identity, *source.lookups.values()))]
    return {name for text in texts for name in columns_in(text, names)}


def _quoted(name: str) -> str:
    return f"`{name}`"


def _fields(line: str, text: DelimitedFormat) -> list[str]:
    if not text.quote_character or len(text.field_separator) > 1:
        return line.split(text.field_separator)
    try:
        return split_fields([line], text)
    except csv.Error:
        return []
