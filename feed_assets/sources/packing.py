"""Packed texts of partners: by which program, as their first bytes say, and their content, in bounded memory.

Here: gzip, bzip2, Zstandard, and ZIP archives of one file. Not here: names (see `file_names`), and what the content
means (see `partner_file`).
"""

from __future__ import annotations

import bz2
import gzip
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from feed_assets.sources.source_errors import LandingError

GZIP: Final = "gzip"
_BY_FIRST_BYTES: Final[Mapping[re.Pattern[bytes], str]] = {
    re.compile(rb"\x1f\x8b"): GZIP,
    # A text may begin with these letters: the numbers behind them are those of a block, or of an empty file.
    re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"): "bzip2",
    re.compile(rb"\x28\xb5\x2f\xfd"): "Zstandard",
    re.compile(rb"PK\x03\x04"): "ZIP",
}
FIRST_BYTES: Final = 10
NAMES: Final[Mapping[str, str]] = {".gz": GZIP, ".bz2": "bzip2", ".zst": "Zstandard", ".zip": "ZIP"}
"""Ending of a name -> the program."""
PRINTS: Final[Mapping[str, str]] = {GZIP: "zcat", "bzip2": "bzcat", "Zstandard": "zstdcat", "ZIP": "unzip -p"}
"""Program -> the shell's command that prints the content."""
_MOST_TIMES: Final = 1_100
"""A content is refused if it is so many times as large as the packed file: gzip itself cannot pack more tightly."""
_ALWAYS: Final = 256 * 2**20
"""A content of so many bytes is never refused for its size."""
_CHUNK: Final = 2**20


def packing_of(start: bytes) -> str | None:
    """The program that packed a file with these first bytes; None if none did that is known here."""
    return next((program for mark, program in _BY_FIRST_BYTES.items() if mark.match(start)), None)


@contextmanager
def opened(path: Path, packing: str | None) -> Iterator[BinaryIO]:
    """The content of a file. Raises LandingError if it cannot be unpacked, also while it is read; and OSError."""
    with _explained(path, packing):
        if packing is None:
            with path.open("rb") as file:
                yield file
        else:
            with _UNPACKED[packing](path) as file:
                yield file


def unpack(path: Path, packing: str, target: Path, longest_line: int) -> None:
    """Write the content of a packed file into another. Raises LandingError if it is too large, and as `opened`.

    A few KB can hold a content that fills any disk, and one line of it any memory. So it ends where the content is out
    of proportion, or a line longer than `longest_line`.
    """
    most = max(_ALWAYS, _MOST_TIMES * path.stat().st_size)
    size = line = 0
    with opened(path, packing) as packed, target.open("wb") as content:
        while chunk := packed.read(_CHUNK):
            size += len(chunk)
            if size > most:
                raise LandingError(
                    f"{path} has {path.stat().st_size:,} bytes, and unpacks to more than {most:,}: it holds hardly any "
                    "information. Have it looked at, and sent again; if it is right, have it sent in parts"
                )
            line_feed = chunk.rfind(b"\n")
            line = line + len(chunk) if line_feed < 0 else len(chunk) - line_feed - 1
            if line > longest_line + _CHUNK:
                break  # the line that is there is too long already: who reads the content says so
            content.write(chunk)


def _gzip(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path))


def _bzip2(path: Path) -> BinaryIO:
    return cast("BinaryIO", bz2.open(path))


def _zstandard(path: Path) -> BinaryIO:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, loaded only for such files
    except ImportError:
        raise LandingError(
            f"{path} is packed with Zstandard, and unpacking that needs a package: pip install 'feed_assets[zstd]'. "
            "Or have it sent packed with gzip"
        ) from None
    return cast("BinaryIO", pa.CompressedInputStream(str(path), "zstd"))


@contextmanager
def _zip(path: Path) -> Iterator[BinaryIO]:
    with zipfile.ZipFile(path) as archive:
        # macOS adds folders with the properties of files.
        names = [each for each in archive.namelist() if not each.endswith("/") and not each.startswith("__MACOSX/")]
        if len(names) != 1 or names[0].startswith("[Content_Types]"):
            what = f"a ZIP archive of {len(names)} files" if len(names) > 1 else "a ZIP archive or an Excel workbook"
            raise LandingError(
                f"{path} is {what}, not a text; have text sent, as it is, packed with gzip, or alone in its archive"
            )
        with archive.open(names[0]) as member:
            yield cast("BinaryIO", member)


_UNPACKED: Final[Mapping[str, Callable[[Path], AbstractContextManager[BinaryIO]]]] = {
    GZIP: _gzip,
    "bzip2": _bzip2,
    "Zstandard": _zstandard,
    "ZIP": _zip,
}


@contextmanager
def _explained(path: Path, packing: str | None) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise LandingError(f"{path} cannot be unpacked to its end: {error}; have it sent again") from error
    except (RuntimeError, NotImplementedError) as error:  # an archive with a password, or of an unusual method
        if packing != "ZIP":
            raise
        raise LandingError(f"{path} cannot be unpacked: {error}; have it sent packed with gzip") from error
    except OSError as error:
        # bz2 and pyarrow raise it without a number where the content is wrong; a disk gives it one.
        if packing is None or error.errno is not None:
            raise
        raise LandingError(f"{path} cannot be unpacked to its end: {error}; have it sent again") from error
