"""Where raw partitions, the ledger of landings, staging and quarantine are on a blackboard.

Here: keys and names. Not here: what is written under them and in which order (see `landing`), and
reading them (see `raw`).
"""

from __future__ import annotations

import re
from datetime import date

RAW = "raw/"
LEDGER = "raw/.landed/"
STAGING = "raw/.staging/"
QUARANTINE = "quarantine/landing/"

NO_DAY = "0000-00-00"
"""Stands for the newest day in the ledger key of a landing that touched none; sorts before every day."""

DIGEST_LENGTH = 16

_LANDED_NAME = re.compile(rf"landed-([0-9a-f]{{{DIGEST_LENGTH}}})\b.*")
_RAW_PATH = re.compile(r"(\d{4}-\d\d-\d\d)/((?:[01]\d|2[0-3])/([^/_.][^/]*\.parquet))")
_LEDGER_PATH = re.compile(rf"\d{{4}}-\d\d-\d\d/([0-9a-f]{{{DIGEST_LENGTH}}})\.json")


def raw_prefix(source_key: str) -> str:
    """What the keys of a source's raw files start with."""
    return f"{RAW}{source_key}/"


def raw_key(source_key: str, day: str, path: str) -> str:
    """The key of a raw file; `path` is relative to the day: `05/landed-0123456789abcdef.parquet`."""
    return f"{RAW}{source_key}/{day}/{path}"


def landed_path(hour: str, digest: str) -> str:
    """The path, relative to its day, of the file that a landing adds to an hour."""
    return f"{hour}/landed-{digest}.parquet"


def ledger_prefix(source_key: str) -> str:
    """What the keys of a source's ledger entries start with; then comes the newest day of the landing."""
    return f"{LEDGER}{source_key}/"


def ledger_key(source_key: str, newest_day: str | None, digest: str) -> str:
    """The key of the entry that makes a landing count; `newest_day` is None for one that touched no day."""
    return f"{LEDGER}{source_key}/{newest_day or NO_DAY}/{digest}.json"


def staging_prefix(source_key: str, digest: str) -> str:
    """What the keys start with under which one partner's file is prepared."""
    return f"{STAGING}{source_key}/{digest}/"


def quarantine_key(source_key: str, digest: str) -> str:
    """The key of the records of one landing that have no usable time."""
    return f"{QUARANTINE}{source_key}/{digest}.json"


def landed_digest(path: str) -> str | None:
    """The digest in a raw file's path relative to its day, None where another receiver named it."""
    match = _LANDED_NAME.fullmatch(path.rpartition("/")[2])
    return match[1] if match else None


def ledger_digest(path: str) -> str | None:
    """The digest in a ledger key without its prefix, None where it is no ledger key."""
    match = _LEDGER_PATH.fullmatch(path)
    return match[1] if match else None


def split_raw(path: str) -> tuple[str, str] | None:
    """Day and path below it of a raw key without its prefix, None where it is no raw file.

    Raw files are Parquet, directly in an hour, and not hidden: a name that starts with `_` or `.` is
    one that Spark would skip.
    """
    match = _RAW_PATH.fullmatch(path)
    return (match[1], match[2]) if match else None


def is_day(text: str) -> bool:
    """Whether a text of the form `YYYY-MM-DD` is a day of the calendar."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
