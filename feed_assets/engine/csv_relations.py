"""CSV files in the dialect of feeds as relations of DuckDB. Not here: the dialect (`csv_dialect`), and other formats.

Each file is looked at first, in Python, as all that is certain about DuckDB's reading is how it reads the plainest
files, with options that leave nothing to guess. Other files in the dialect are written again, plainly.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase, BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import Final

from feed_assets.engine.csv_dialect import (
    BACKSLASH,
    BLANK_LINE,
    BYTE_ORDER_MARK,
    DOUBLED,
    HAS_NUL,
    HEADER_LINES,
    LINE_END_TEXTS,
    LINE_ENDS,
    MARK,
    NOT_UTF8,
    SEPARATORS,
    WHOLE_BYTES,
    Dialect,
    MalformedCsvError,
    malformed,
    not_records,
    only_end,
    read_header,
    record_line,
    records,
    require_whole,
    values,
)
from feed_assets.engine.duckdb_database import in_memory
from feed_assets.engine.duckdb_sql import literal, quoted_name

_BLOCK: Final = 16 * 2**20
"""Bytes that are looked at together."""
_LONGEST: Final = 2**28
"""Bytes of the longest line; DuckDB's default is 2 MB."""
_NO_SEPARATOR: Final = "\x1e\x1f\x1e\x1f"
"""DuckDB reads lines as they are only with a separator that none of them has."""
_OPTIONS: Final = (
    # In parallel, DuckDB would guess where the first record of a part begins.
    f"auto_detect = false, parallel = false, max_line_size = {_LONGEST}, buffer_size = {_LONGEST}, "
    "hive_partitioning = false, strict_mode = true"
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What DuckDB has to know of a file with a header in one line."""

    names: tuple[str, ...]
    separator: str


def csv_relation(files: Sequence[Path], suffix: str) -> str | None:
    """A relation of the rows of these files, for FROM; all values are text. None if no file has a header.

    The files are links or copies in a folder of the caller, packed or not. Files that have to be written again are
    added there. Each file is read once here. Raises MalformedCsvError, OSError and duckdb.Error.
    """
    alike: dict[_Layout, list[Path]] = {}
    for file in files:
        if (found := _readable(file, SEPARATORS[suffix])) is not None:
            alike.setdefault(found[0], []).append(found[1])
    relations = [_rows(layout, paths) for layout, paths in alike.items()]
    return f"({' UNION ALL BY NAME '.join(relations)})" if relations else None


def _rows(layout: _Layout, paths: Sequence[Path]) -> str:
    listed = ", ".join(literal(str(path)) for path in paths)
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in layout.names)
    # In a file of one column, an empty line is no record, and "" is one.
    one = len(layout.names) == 1
    rows = (
        f"read_csv([{listed}], {_OPTIONS}, header = true, delim = {literal(layout.separator)}, quote = '\"', "
        f"escape = '\"', nullstr = '', allow_quoted_nulls = {not one}, columns = {{{columns}}})"
    )
    if not one:
        return f"(FROM {rows})"
    name = quoted_name(layout.names[0])
    return f"(SELECT nullif({name}, '') AS {name} FROM {rows} WHERE {name} IS NOT NULL)"  # noqa: S608 - quoted names


def _readable(file: Path, separator: str) -> tuple[_Layout, Path] | None:
    """The layout of a file, and the file that DuckDB reads for it; None without a header."""
    try:
        with _opened(file) as stream:
            blocks = _blocks(stream, separator, file)
            first = next(blocks)
            if (header := read_header(re.split(LINE_ENDS, first, maxsplit=HEADER_LINES), separator, str(file))) is None:
                return None
            layout = _Layout(header.names, separator)
            ends = _line_ends(chain([first], blocks), layout)
        plain = not header.empty_lines and not any("\n" in name for name in header.names)
        if ends is not None and len(ends) <= 1 and plain:
            return layout, file
        text = _whole(file, separator)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise MalformedCsvError(f"{file} is damaged: {error}. Publish it again.") from None
    dialect = _dialect(text, layout, file)
    if dialect.escape == DOUBLED and dialect.line_end and plain:
        return layout, file
    if dialect.line_end and file.suffix == ".zst":
        raise MalformedCsvError(f"{file} has values with line breaks: pack it with gzip instead of zstd.")
    written = file.with_name(f"{file.name}.plain.csv")
    with written.open("w", encoding="utf-8", newline="") as target:
        target.writelines(_plain_lines(text, layout, dialect))
    return layout, written


def _opened(file: Path) -> BufferedIOBase:
    if file.suffix != ".zst":
        return gzip.open(file) if file.suffix == ".gz" else file.open("rb")
    # Python before 3.14 cannot unpack it, and DuckDB gives lines without their ends. So a line break in a value may be
    # another one here.
    lines = f"read_csv({literal(str(file))}, {_OPTIONS}, header = false, delim = {literal(_NO_SEPARATOR)}, "
    with in_memory(threads=1) as database:
        options = "quote = '', escape = '', columns = {line: 'VARCHAR'}"
        found = database.execute(f"SELECT coalesce(line, '') FROM {lines}{options})").fetchall()  # noqa: S608 - a quoted path
    return BytesIO("\n".join(line for (line,) in found).encode())


def _blocks(stream: BufferedIOBase, separator: str, file: Path, size: int = _BLOCK) -> Iterator[str]:
    """The text of a file, in pieces of at least so many bytes that end with a line, without its byte order mark."""
    rest, mark = b"", BYTE_ORDER_MARK
    while len(block := stream.read(size)) == size:
        rest += block
        end = rest.rfind(b"\n") + 1 or rest.rfind(b"\r", 0, -1) + 1
        if end:
            yield _decoded(rest[:end], separator, file).removeprefix(mark)
            rest, mark = rest[end:], ""
    yield _decoded(rest + block, separator, file).removeprefix(mark)


def _decoded(text: bytes, separator: str, file: Path) -> str:
    if b"\0" in text:
        raise malformed(str(file), HAS_NUL, separator)
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise malformed(str(file), NOT_UTF8, separator) from None


def _line_ends(blocks: Iterable[str], layout: _Layout) -> set[str] | None:
    """The line ends of a file in which each line is a record with doubled quotes; None if some are not."""
    ends: set[str] = set()
    for text in blocks:
        found = _left(text, layout, DOUBLED)
        if found is None or found[1]:
            return None
        ends |= found[0]
    return ends


def _left(text: str, layout: _Layout, escape: str) -> tuple[set[str], bool] | None:
    """The line ends that are left of a text without its records, and whether values may hold others.

    None if anything else is left.
    """
    columns = len(layout.names)
    ends = Counter(re.sub(records(layout.separator, escape, columns), rf"\1{MARK}", text).split(MARK))
    del ends[""]
    if not ends.keys() <= LINE_END_TEXTS:
        return None
    blank = columns == 1 and re.search(BLANK_LINE, text) is not None
    characters = sum(len(end) * count for end, count in ends.items())
    return set(ends), blank or characters < text.count("\n") + text.count("\r")


def _whole(file: Path, separator: str) -> str:
    with _opened(file) as stream:
        text = stream.read(WHOLE_BYTES + 1)
    require_whole(len(text), separator, str(file))
    return _decoded(text, separator, file).removeprefix(BYTE_ORDER_MARK)


def _dialect(text: str, layout: _Layout, file: Path) -> Dialect:
    """The dialect of a text. Raises MalformedCsvError."""
    for escape in (DOUBLED, BACKSLASH):
        if (found := _left(text, layout, escape)) is not None:
            ends, line_breaks = found
            end = only_end(ends, layout.separator, str(file)) if line_breaks else ""
            return Dialect(layout.separator, escape, end)
    record = re.compile(record_line(layout.separator, DOUBLED, len(layout.names)))
    broken = [line for line in re.split(LINE_ENDS, text) if not record.match(line)]
    raise not_records(len(broken), broken[0], layout.separator, len(layout.names), str(file))


def _plain_lines(text: str, layout: _Layout, dialect: Dialect) -> Iterator[str]:
    """The lines of a file with the same records: doubled quotes around all values, and a header without line breaks."""
    yield layout.separator.join(f"c{number}" for number in range(len(layout.names))) + "\n"
    record = re.compile(records(dialect.separator, dialect.escape, len(layout.names)))
    found = (match[0].removesuffix(match[1]) for match in record.finditer(text))
    for each in islice(filter(None, found), 1, None):
        doubled = (value.replace('"', '""') for value in values(each, dialect))
        yield layout.separator.join(f'"{value}"' for value in doubled) + "\n"
