"""What the name of a partner's file says: its format and its packing, by its endings.

Here: the endings, and which names are refused before anything is read or downloaded. Not here: content (see
`partner_file` and `packing`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

from feed_assets.sources.formats import ParquetFormat
from feed_assets.sources.source_errors import LandingError
from feed_assets.sources.spec import Source

ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "csv": (".csv", ".txt", ".log"),
    "tsv": (".tsv", ".txt", ".log"),
    "jsonl": (".jsonl", ".ndjson", ".json", ".txt", ".log"),
    "parquet": (".parquet",),
}
"""The endings of the names of a format's files. A name may also have none."""

PACKED: Final = (".gz", ".bz2", ".zst", ".zip")
"""Endings of packed texts, after those of the format."""

_ROTATED: Final = re.compile(r"(?<=.)[.-]\d+$")
"""The number or date that a program such as logrotate puts behind a name."""
_NEVER_READ: Final = frozenset(
    {".part", ".filepart", ".partial", ".crdownload", ".tmp", ".swp", ".md5", ".sha1", ".sha256", ".asc", ".sig"}
    | {".xz", ".lz4", ".lzma", ".br", ".7z", ".rar", ".z", ".tar", ".tgz", ".xlsx", ".xlsm", ".xls", ".ods", ".pdf"}
)
"""Endings of files that a program still writes, of checksums and signatures, and of formats that nothing here reads."""
_LOCK: Final = "~$"
"""Office programs put a file whose name begins so beside a document that is open."""


def is_passed_over(name: str) -> bool:
    """Whether this is the lock of an office program, and no data."""
    return PurePath(name).name.startswith(_LOCK)


def packing_named(name: str) -> str | None:
    """The ending of a packed file that a name has; None if it has none."""
    ending = PurePath(_unrotated(name)).suffix.lower()
    return ending if ending in PACKED else None


def check_name(name: str, source: Source) -> None:
    """Raise LandingError if no file of this name is of the source's format.

    A polled partner may choose endings that nothing else has, as CloudFront and Redshift do: there, `pattern` says
    which files are meant.
    """
    format_, packs = source.format.type, not isinstance(source.format, ParquetFormat)
    ending = _ending(name, packs=packs)
    if ending in {"", *ENDINGS[format_]}:
        return
    of_another = ending in _NEVER_READ or any(ending in each for each in (*ENDINGS.values(), PACKED))
    if source.poll is not None and not of_another:
        return
    packed = f", each also with {', '.join(PACKED[:-1])} or {PACKED[-1]} behind it" if packs else ""
    raise LandingError(
        f"{name} ends in {ending!r}, and {source.key} takes {format_} files, which end in "
        f"{', '.join(ENDINGS[format_])} or have no ending{packed}; unpack or rename it, or land it for another source"
    )


def _ending(name: str, *, packs: bool) -> str:
    """The ending that says the format, in small letters; "" if there is none."""
    path = PurePath(_unrotated(name))
    if packs and path.suffix.lower() in PACKED:
        path = PurePath(_unrotated(path.stem))
    return path.suffix.lower()


def _unrotated(name: str) -> str:
    return _ROTATED.sub("", PurePath(name).name)
