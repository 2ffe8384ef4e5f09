"""A file as a partner sent it, looked at before anything is made of it.

Here: whether it can be read to its end, what is in its header, and what identifies its content. Not here:
its records (see `records`).
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from feed_assets.sources.errors import LandingError
from feed_assets.sources.layout import DIGEST_LENGTH
from feed_assets.sources.spec import (
    RESERVED_COLUMNS,
    DelimitedFormat,
    JsonLinesFormat,
    ParquetFormat,
    Source,
)

EXTENSIONS = {
    "csv": (".csv", ".txt", ".log"),
    "tsv": (".tsv", ".txt", ".log"),
    "jsonl": (".jsonl", ".ndjson", ".json", ".txt", ".log"),
    "parquet": (".parquet",),
}
"""How the names of a format's files may end; those of text also with `.gz` behind."""

_CHUNK = 1024 * 1024
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_LONGEST_HEADER = 1024 * 1024
_READ_AS_UTF_8 = {"ascii", "utf-8", "utf-8-sig"}


@dataclass(frozen=True, slots=True)
class PartnerFile:
    """A file that can be landed.

    `name` is its base name, `content` a file with the same records in UTF-8 (itself, or a copy where it
    came in another encoding), `compressed` whether that one is packed. `columns` are the names in its
    header, None where it has none, `skip` the lines up to and with the header. `sha256` is of the
    unpacked content, so that packing does not make another file of it. `path` is where the partner's file is,
    `stamp` what tells whether it was written to since.
    """

    name: str
    content: Path
    compressed: bool
    sha256: str
    columns: tuple[str, ...] | None
    skip: int
    path: Path
    stamp: tuple[int, int, int]

    def digest(self, source_key: str) -> str:
        """What identifies the landing of this content for one source."""
        return hashlib.sha256(f"{source_key}\n{self.sha256}".encode()).hexdigest()[:DIGEST_LENGTH]

    def require_unchanged(self) -> None:
        """Raises LandingError where the file was written to since it was inspected."""
        if _stamp(self.path) != self.stamp:
            raise LandingError(f"{self.path} changed while it was read; land it again once it is complete")


def inspect(path: Path, source: Source, scratch: Path) -> PartnerFile:
    """Read a file to its end. `scratch` is a directory for a copy in UTF-8, should one be needed.

    Raises LandingError where there is no such file, its name does not end as the source's format asks,
    it is cut off or packed in another way than its name says, or its header is not one.
    """
    if not path.is_file():
        what = "is a directory; land the files in it" if path.is_dir() else "is not a file; check its name"
        raise LandingError(f"{path} {what}")
    _check_name(path, source)
    try:
        stamp = _stamp(path)
        with path.open("rb") as file:
            start = file.read(len(_PARQUET))
            file.seek(0)
            if isinstance(source.format, ParquetFormat):
                if start != _PARQUET:
                    raise LandingError(f"{path} is not Parquet; have it sent again, or change the source's format")
                return PartnerFile(
                    name=path.name,
                    content=path,
                    compressed=False,
                    sha256=_sha256(file),
                    columns=None,
                    skip=0,
                    path=path,
                    stamp=stamp,
                )
            sent = _inspect_text(path, source.format, scratch, compressed=start.startswith(_GZIP))
        return replace(sent, stamp=stamp)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LandingError(f"{path} cannot be unpacked to its end: {error}; have it sent again") from error
    except UnicodeDecodeError as error:
        what = f"byte {error.object[error.start]:#04x} is not {error.encoding}"
        raise LandingError(f"{path}: {what}; correct `encoding` in the format of {source.key}") from error
    except OSError as error:
        raise LandingError(f"{path} cannot be read: {error.strerror or error}") from error


def _check_name(path: Path, source: Source) -> None:
    extensions = EXTENSIONS[source.format.type]
    packed = path.suffix == ".gz" and not isinstance(source.format, ParquetFormat)
    extension = (path.with_suffix("") if packed else path).suffix.lower()
    if extension not in extensions:
        also = "" if isinstance(source.format, ParquetFormat) else ", each also with .gz"
        message = (
            f"{path} ends in {extension or 'nothing'!r}, and {source.key} takes {source.format.type} files, "
            f"which end in {', '.join(extensions)}{also}; unpack or rename it, or land it for another source"
        )
        raise LandingError(message)


def _inspect_text(
    path: Path, text: DelimitedFormat | JsonLinesFormat, scratch: Path, *, compressed: bool
) -> PartnerFile:
    if path.suffix == ".gz" and not compressed:
        raise LandingError(f"{path} is not gzip, although its name says so; rename it or have it sent again")
    content = path
    with _opened(path, compressed=compressed) as file:
        if text.encoding in _READ_AS_UTF_8:
            sha256 = _sha256(file)
        else:
            content = scratch / "recoded"
            sha256 = _recode(file, text.encoding, content)
            compressed = False
    columns, skip = None, 0
    if isinstance(text, DelimitedFormat) and text.header:
        with _opened(content, compressed=compressed) as file:
            columns, skip = _header(path, file, text)
    return PartnerFile(path.name, content, compressed, sha256, columns, skip, path, _stamp(path))


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _opened(path: Path, *, compressed: bool) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path)) if compressed else path.open("rb")


def _sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _recode(file: BinaryIO, encoding: str, target: Path) -> str:
    digest = hashlib.sha256()
    decoder = codecs.getincrementaldecoder(encoding)()
    with target.open("w", encoding="utf-8", newline="") as recoded:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            recoded.write(decoder.decode(chunk))
        recoded.write(decoder.decode(b"", final=True))
    return digest.hexdigest()


def _header(path: Path, file: BinaryIO, text: DelimitedFormat) -> tuple[tuple[str, ...], int]:
    """The names in the first line that is not blank, and the number of that line."""
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST_HEADER), b""), start=1):
        names = line.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace").rstrip("\r\n")
        if names.strip():
            columns = tuple(name.strip() for name in _split(names, text))
            _check_header(f"{path}:{number}", columns)
            return columns, number
    raise LandingError(f"{path} is empty, and its source says that it has a header; have it sent again")


def _split(line: str, text: DelimitedFormat) -> list[str]:
    if not text.quote_character or len(text.field_separator) > 1:
        return line.split(text.field_separator)
    return next(csv.reader([line], delimiter=text.field_separator, quotechar=text.quote_character))


def _check_header(where: str, columns: tuple[str, ...]) -> None:
    lower = [name.lower() for name in columns]
    for position, name in enumerate(lower, start=1):
        if not name:
            raise LandingError(f"{where}: column {position} of the header has no name; have the header corrected")
        if name in lower[: position - 1]:
            raise LandingError(f"{where}: the header names {columns[position - 1]!r} twice; have it corrected")
        if name in RESERVED_COLUMNS:
            raise LandingError(f"{where}: raw files use the name {columns[position - 1]!r} themselves; rename it")
