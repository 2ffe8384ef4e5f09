"""A file as a partner sent it: whether it can be read to its end, its header, and the digest of its content.

Not here: its records (see `records`).
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from feed_assets.sources.file_names import check_name, packing_named
from feed_assets.sources.formats import RESERVED_COLUMNS, DelimitedFormat, JsonLinesFormat, ParquetFormat
from feed_assets.sources.layout import content_digest, name_digest
from feed_assets.sources.line_breaks import BREAK, join_records, split_fields
from feed_assets.sources.packing import FIRST_BYTES, GZIP, NAMES, PRINTS, opened, packing_of, unpack
from feed_assets.sources.seen_columns import JsonLook, SeenColumns, json_look, seen_in_parquet, seen_in_text
from feed_assets.sources.source_errors import LandingError, PassingError
from feed_assets.sources.spec import Source

SPLIT_BYTES = 64 * 1024 * 1024
"""The bytes of an unpacked text that one task of Spark reads."""

_CHUNK = 1024 * 1024
_PARQUET = b"PAR1"
_ENCRYPTED_PARQUET = b"PARE"
_LONGEST_HEADER = 1024 * 1024
_LONGEST_LINE = SPLIT_BYTES
"""A file of a few MB of gzip can be one line of many GB, which would take all memory of Spark."""
_FORM = bytes.maketrans(b"123456789 \t\r\n,[-", b"000000000:::::::")
_LONG_NUMBER = b":" + b"0" * 39
"""In `_FORM`, what each whole number of JSON with more than 38 digits begins with, and hardly any text has."""
_SAMPLE = 4096
_EXCEL_SEPARATOR = re.compile('"?sep=.?"?', re.IGNORECASE)
"""A line that Excel writes above the header, or needs there, to split fields. It names no columns."""
_NO_JSON_LINES = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:(\[)\s*[{\]]|\{\s*\n)")
"""The beginning of an array of objects (with a group), or of an object of several lines."""
_NUL = b"\0"
_FEW_NULS = 0.02
"""UTF-16 and UTF-32 have a larger share of NUL bytes, in any language."""
# The longer marks first: the mark of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NO_TEXT = {
    b"\xfd7zXZ": "packed with xz",
    b"\x04\x22\x4d\x18": "packed with LZ4",
    _PARQUET: "Parquet",
}
"""Formats that partners send by mistake under the name of a text, by their first bytes."""
_READ_AS_UTF_8 = {"ascii", "utf-8", "utf-8-sig"}


@dataclass(frozen=True, slots=True)
class PartnerFile:
    """A file that can be landed.

    `name` is its base name, or its path at the place where the source is polled. `content` is a file with the same
    records in UTF-8, each on a line: itself, or a copy; `compressed` says whether it is packed with gzip.
    `columns` are the names in the header, None without a header; `unnamed` is the number of columns behind them that
    have no name; and `skip` the number of lines up to and with the header. `lines` is about the number of all lines, 0
    if it is not known. `lines_before` has for each split of `SPLIT_BYTES` the number of lines in the splits before it;
    for a content that Spark cannot split, only a zero. `long_numbers` says that JSON may have whole numbers of more
    than 38 digits, and `nuls` that the text has NUL bytes. `hints` are sentences for people. `sha256` is of the
    unpacked content, so that packing does not change it. `path` is the partner's file, `stamp` its inode, size and time
    of the last write. `seen` is what is known of its columns; None if nothing is.
    """

    name: str
    path: Path
    stamp: tuple[int, int, int]
    content: Path
    sha256: str
    compressed: bool = False
    columns: tuple[str, ...] | None = None
    unnamed: int = 0
    skip: int = 0
    lines: int = 0
    lines_before: tuple[int, ...] = (0,)
    long_numbers: bool = False
    nuls: bool = False
    hints: tuple[str, ...] = ()
    seen: SeenColumns | None = None

    def digest(self, source_key: str) -> str:
        """The digest of this content and one source, which identifies its landings."""
        return content_digest(source_key, self.sha256)

    def name_digest(self, source_key: str) -> str:
        """The digest of this name and one source, which identifies its landings if the source is polled."""
        return name_digest(source_key, self.name)

    def require_unchanged(self) -> None:
        """Raise LandingError if the file was written to since it was inspected."""
        if _stamp(self.path) != self.stamp:
            raise PassingError(f"{self.path} changed while it was read; land it again once it is complete")


def inspect(path: Path, source: Source, scratch: Path, *, name: str | None = None) -> PartnerFile:
    """Read a file to its end. `scratch` is a directory for copies, unpacked and in UTF-8, if needed.

    `name` is the partner's name of the file, if `path` has another name; the name in `path` is then not checked. Raises
    LandingError if the file is missing or cut off; if its content contradicts its name or the source; if its name has
    the wrong ending for the source's format; or if its path does not match the pattern of `poll`. It is a PassingError
    if the disk does not read the file.
    """
    check_path(path, source if name is None else None)
    named = name or _name(path, source)
    try:
        named.encode()
    except UnicodeEncodeError as error:
        raise LandingError(f"{str(path)!a}: its name is not in UTF-8; rename it") from error
    try:
        stamp = _stamp(path)
        if isinstance(source.format, ParquetFormat):
            with path.open("rb") as file:
                _check_parquet(path, file)
                seen = seen_in_parquet(path, source)
                sent = PartnerFile(path.name, path, stamp, path, _read(file).sha256, seen=seen)
        else:
            packing = _packing(path, is_named=name is None)
            sent = _inspect_text(path, source, source.format, scratch, packing)
        return replace(sent, name=named, stamp=stamp)
    except UnicodeError as error:
        raise LandingError(f"{path}: {_not_encoded(error)}; correct `encoding` {_field(source)}") from error
    except OSError as error:
        raise PassingError(f"{path} cannot be read: {error.strerror or error}") from error


def check_path(path: Path, source: Source | None) -> None:
    """Raise LandingError if no file is there, or if its name does not fit the source. Nothing is read."""
    if not path.is_file():
        raise LandingError(f"{path} {_instead_of_a_file(path)}")
    if source is not None:
        check_name(str(path), source)


def _instead_of_a_file(path: Path) -> str:
    if path.is_dir():
        return "is a directory; land the files in it"
    if path.exists():
        return "is a pipe or a device, and a file is read twice; write its content into a file, and land that"
    return "is not a file; check its name"


def _packing(path: Path, *, is_named: bool) -> str | None:
    """The program that packed a text. Raises LandingError if its name names another one."""
    with path.open("rb") as file:
        packing = packing_of(file.read(FIRST_BYTES))
    ending = packing_named(path.name) if is_named else None
    if ending is not None and packing != NAMES[ending]:
        raise LandingError(f"{path} is not {NAMES[ending]}, although its name says so; rename it or have it sent again")
    return packing


def _name(path: Path, source: Source) -> str:
    if source.poll is None:
        return path.name
    if (name := source.poll.name_of(path)) is None:
        raise LandingError(
            f"{path} does not end as {source.poll.pattern} ({source.place(('poll', 'pattern'))}), by which files of "
            f"{source.key} are known; give it the path that it has at the partner's place"
        )
    return name


def _check_parquet(path: Path, file: BinaryIO) -> None:
    """Raise LandingError unless the file begins and ends with Parquet's four bytes."""
    start = file.read(len(_PARQUET))
    file.seek(-min(len(_PARQUET), path.stat().st_size), os.SEEK_END)
    end = file.read()
    file.seek(0)
    if start == _ENCRYPTED_PARQUET:
        raise LandingError(f"{path} is encrypted Parquet, which cannot be read here; have it sent without encryption")
    if start != _PARQUET:
        raise LandingError(f"{path} is not Parquet; have it sent again, or change the source's format")
    if end != _PARQUET:
        raise LandingError(f"{path} is Parquet that was cut off; have it sent again")


def _unpacked(path: Path, scratch: Path, packing: str | None) -> Path:
    """The file, or an unpacked copy. Spark reads gzip itself."""
    if packing is None or packing == GZIP:
        return path
    unpack(path, packing, scratch / "unpacked", _LONGEST_LINE)
    return scratch / "unpacked"


def _check_packed_once(path: Path, packing: str, start: bytes) -> None:
    if (inner := packing_of(start)) is not None:
        raise LandingError(
            f"{path} is packed twice: with {packing}, and in it with {inner}. Unpack it once, by "
            f"`{PRINTS[packing]} FILE > NEW`, and land that; or have it sent packed once"
        )


def _inspect_text(
    path: Path, source: Source, text: DelimitedFormat | JsonLinesFormat, scratch: Path, packing: str | None
) -> PartnerFile:
    plain, compressed = _unpacked(path, scratch, packing), packing == GZIP
    with _opened(plain, compressed=compressed) as file:
        start = file.read(_SAMPLE)
    if packing is not None:
        _check_packed_once(path, packing, start)
    _check_encoding(path, start, source, text.encoding)
    content, look = plain, json_look(source)
    with _opened(plain, compressed=compressed) as file:
        if text.encoding in _READ_AS_UTF_8:
            read = _read(file, look=look, is_text=True)
        else:
            content = scratch / "recoded"
            read = _recode(file, text.encoding, content, look=look)
            compressed = False
    prints = PRINTS[packing] if packing else "cat"
    if read.carriage_returns and not sum(read.line_feeds):
        raise LandingError(
            f"{path}: its lines end in CR alone; end them in LF, for instance with "
            f"`{prints} FILE | tr '\\r' '\\n' > NEW`, and land that"
        )
    if isinstance(text, JsonLinesFormat):
        with _opened(content, compressed=compressed) as file:
            _check_json_lines(path, file.read(_SAMPLE), prints)
    if read.longest > _LONGEST_LINE:
        raise LandingError(
            f"{path}: a line has more than {_LONGEST_LINE:,} bytes; have the file sent again, with one record a line"
        )
    read_from = content
    if isinstance(text, DelimitedFormat) and text.line_breaks:
        joined = scratch / "joined"
        with _opened(content, compressed=compressed) as file:
            _join(file, text, joined)
        content, compressed = joined, False
    columns, unnamed, skip = None, 0, 0
    seen = look.seen if look else None
    if isinstance(text, DelimitedFormat):
        with _opened(content, compressed=compressed) as file:
            if text.header:
                columns, unnamed, skip = _header(path, file, text)
            seen = seen_in_text(file, source, text, columns, max(0, sum(read.line_feeds) - skip))
    splits: Sequence[int] = ()
    if not compressed:
        with content.open("rb") as file:  # a copy has other lines, or lines at other positions
            splits = (read if content == read_from == plain else _read(file)).line_feeds[:-1]
    # A line belongs to the split in which it begins, or to the one before if it begins with the split.
    lines_before = (0, *(1 + ended for ended in accumulate(splits)))
    return PartnerFile(
        path.name,
        path,
        _stamp(path),
        content,
        read.sha256,
        compressed=compressed,
        columns=columns,
        unnamed=unnamed,
        skip=skip,
        lines=sum(read.line_feeds) + 1,
        lines_before=lines_before,
        long_numbers=read.long_numbers,
        nuls=read.nuls,
        hints=(_hint(read.not_utf_8, source),) if read.not_utf_8 else (),
        seen=seen,
    )


def _hint(bad: bytes, source: Source) -> str:
    """What to write for a text that is declared as UTF-8 and is not, by bytes of it that are not UTF-8."""
    try:
        bad.decode("cp1252")
    except UnicodeDecodeError:
        likely = "another encoding: ask the partner which"
    else:
        likely = "cp1252, as Windows writes in Western Europe: then write `encoding: cp1252`"
    return f"records that are not {source.format.encoding} are malformed. They may be {likely} {_field(source)}"  # type: ignore[union-attr]


def _check_json_lines(path: Path, start: bytes, prints: str) -> None:
    """Raise LandingError if a text of JSON is an array, or if its objects have several lines, or all of them one."""
    if found := _NO_JSON_LINES.match(start):
        has, values = ("is a JSON array", ".[]") if found[1] else ("has JSON objects of several lines", ".")
    elif _is_one_line_of_objects(start):
        has, values = "has all JSON objects in one line", "."
    else:
        return
    raise LandingError(
        f"{path} {has}, and the source takes one object a line; have it sent so, or land what "
        f"`{prints} FILE | jq -c '{values}' > NEW` writes (from jq 1.7 on: earlier ones round long numbers)"
    )


def _is_one_line_of_objects(start: bytes) -> bool:
    """Whether JSON objects follow each other without a line break, as Firehose writes them."""
    line = start.strip()
    if b"\n" in line:
        return False
    text = line.decode(errors="replace")
    with suppress(ValueError, RecursionError):
        _, end = json.JSONDecoder().raw_decode(text)
        return text[end:].lstrip().startswith("{")
    return False


def _check_encoding(path: Path, start: bytes, source: Source, declared: str) -> None:
    """Raise LandingError for a text in UTF-16 or UTF-32 that the source declares otherwise, and for what is no text."""
    if declared.startswith(("utf-16", "utf-32")):
        return
    marked = next((encoding for mark, encoding in _MARKS.items() if start.startswith(mark)), None)
    if marked is not None:
        raise LandingError(f"{path} is {marked.upper()}, not {declared}; write `encoding: {marked}` {_field(source)}")
    if _NUL not in start:
        return
    if sent := next((what for mark, what in _NO_TEXT.items() if start.startswith(mark)), None):
        raise LandingError(f"{path} is {sent}, not text in {declared}; have text sent, as it is or packed with gzip")
    if _is_of_wide_characters(start):
        likely = _likely_encoding(start)
        raise LandingError(
            f"{path} has NUL bytes in all lines, as no text in {declared} has; it may be {likely.upper()}: "
            f"then write `encoding: {likely}` {_field(source)}, else have it sent again without NUL bytes"
        )


def _is_of_wide_characters(start: bytes) -> bool:
    """Whether NUL bytes are no damage of single records: in UTF-16 and UTF-32, each separator and line end has some."""
    lines = start.split(b"\n")
    return all(_NUL in line for line in lines[:-1] or lines) and start.count(_NUL) > len(start) * _FEW_NULS


def _likely_encoding(start: bytes) -> str:
    """The likely encoding of a text without a mark, UTF-16 or UTF-32, by the positions of its NUL bytes."""
    first, second, third, fourth = (start[position::4].count(_NUL) for position in range(4))
    # Nearly every character of UTF-32 has two NUL bytes, side by side; few characters of UTF-16 have.
    half = len(start) / 8
    if min(third, fourth) > half or min(first, second) > half:
        return "utf-32-le" if third + fourth > first + second else "utf-32-be"
    return "utf-16-le" if second + fourth > first + third else "utf-16-be"


def _not_encoded(error: UnicodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.object[error.start]:#04x} is not {error.encoding}"
    return str(error)


def _field(source: Source) -> str:
    return f"in the source ({source.place(('format', 'encoding'))})"


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _opened(path: Path, *, compressed: bool) -> AbstractContextManager[BinaryIO]:
    return opened(path, GZIP if compressed else None)


@dataclass(frozen=True, slots=True)
class _Read:
    """The digest of a file read to its end, its line feeds in each `SPLIT_BYTES`, and whether it has any CR, or NUL.

    `longest` has the bytes of the longest line, if that is longer than `_CHUNK`. `long_numbers` is as in `PartnerFile`,
    and False if they were not looked for. `not_utf_8` has the first bytes that are not UTF-8.
    """

    sha256: str
    line_feeds: Sequence[int]
    carriage_returns: bool
    nuls: bool
    longest: int
    long_numbers: bool
    not_utf_8: bytes


def _read(
    file: BinaryIO,
    recode: Callable[[bytes], bytes] = bytes,
    *,
    look: JsonLook | None = None,
    is_text: bool = False,
) -> _Read:
    """Read a file to its end; with a `look`, it is JSON: look for long numbers, and at its keys.

    In a text, look for bytes that are not UTF-8.
    """
    digest = hashlib.sha256()
    decoder = codecs.getincrementaldecoder("utf-8")()
    line_feeds: list[int] = []
    carriage_returns = nuls = False
    line = longest = 0
    long_numbers, form, not_utf_8 = False, b"", b""
    chunk = b"begin"
    while chunk:
        if file.tell() % SPLIT_BYTES == 0:
            line_feeds.append(0)
        chunk = file.read(_CHUNK)
        digest.update(chunk)
        text = recode(chunk)
        line_feeds[-1] += text.count(b"\n")
        carriage_returns = carriage_returns or b"\r" in text
        nuls = nuls or _NUL in text
        if is_text and not not_utf_8 and not (text.isascii() and not decoder.getstate()[0] and text):
            not_utf_8 = _undecodable(decoder, text)
        if look is not None:
            look.chunk(text)
        if look is not None and not long_numbers:
            form = form[1 - len(_LONG_NUMBER) :] + text.translate(_FORM)
            long_numbers = _LONG_NUMBER in form
        before, line_feed, _ = text.partition(b"\n")
        longest = max(longest, line + len(before))
        line = len(text) - text.rfind(b"\n") - 1 if line_feed else line + len(text)
    return _Read(digest.hexdigest(), line_feeds, carriage_returns, nuls, longest, long_numbers, not_utf_8)


def _undecodable(decoder: codecs.IncrementalDecoder, text: bytes) -> bytes:
    """The first bytes that are not UTF-8, up to the next that are; empty if there are none."""
    try:
        decoder.decode(text, final=not text)
    except UnicodeDecodeError as error:
        return error.object[error.start : max(error.end, error.start + 1)]
    return b""


def _recode(file: BinaryIO, encoding: str, target: Path, *, look: JsonLook | None) -> _Read:
    decoder = codecs.getincrementaldecoder(encoding)()
    with target.open("wb") as recoded:

        def recode(chunk: bytes) -> bytes:
            text = decoder.decode(chunk, final=not chunk).encode()
            recoded.write(text)
            return text

        return _read(file, recode, look=look)


def _join(file: BinaryIO, text: DelimitedFormat, target: Path) -> None:
    """Write a text in UTF-8 with each record on one line."""
    # `surrogateescape` keeps bytes that are not UTF-8; line ends stay as they are.
    lines = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="\n")
    with target.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as joined:
        joined.writelines(join_records(lines, text))


def _header(path: Path, file: BinaryIO, text: DelimitedFormat) -> tuple[tuple[str, ...], int, int]:
    """The names in the first line that is not blank, the number of empty names at its end, and of that line."""
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST_HEADER), b""), start=1):
        where = f"{path}:{number}"
        if len(line) == _LONGEST_HEADER:
            long = f"a line of more than {_LONGEST_HEADER:,} bytes is no header"
            raise LandingError(f"{where}: {long}; have the file sent again, with one record a line")
        encoding = "utf-8-sig" if number == 1 else "utf-8"
        names = line.decode(encoding, errors="replace").rstrip("\r\n").replace(BREAK, " ")
        if names.strip() and not (number == 1 and _EXCEL_SEPARATOR.fullmatch(names)):
            try:
                columns = tuple(name.strip() for name in _split(names, text))
            except csv.Error as error:
                advice = "" if text.line_breaks else ", or write `line_breaks: true` in the source if quotes hold them"
                raise LandingError(f"{where}: this is no header: {error}; have the file sent again{advice}") from error
            named = len(columns)
            while named > 1 and not columns[named - 1]:
                named -= 1
            check_column_names(where, columns[:named])
            return columns[:named], len(columns) - named, number
    raise LandingError(f"{path} is empty, and its source says that it has a header; have it sent again")


def _split(line: str, text: DelimitedFormat) -> list[str]:
    if not text.quote_character or len(text.field_separator) > 1:
        return line.split(text.field_separator)
    return split_fields([line], text)


def check_column_names(where: str, columns: Sequence[str]) -> None:
    """Raise LandingError if a partner's column has no name, the name of another, or a name that raw files use."""
    lower = [name.lower() for name in columns]
    for position, name in enumerate(lower, start=1):
        if not name:
            raise LandingError(f"{where}: column {position} of the header has no name; have the header corrected")
        if name in lower[: position - 1]:
            raise LandingError(f"{where}: the header names {columns[position - 1]!r} twice; have it corrected")
        if name in RESERVED_COLUMNS:
            raise LandingError(f"{where}: raw files use the name {columns[position - 1]!r} themselves; rename it")
