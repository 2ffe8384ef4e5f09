"""The keys of raw files, the ledger of landings, sent files, staging, sweeps and quarantine on a blackboard.

Not here: writing under them, and its order (see `landing`), and reading (see `raw`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from feed_assets.file_feed.digest import short_digest

RAW = "raw/"
LEDGER = "raw/.landed/"
SENT = "raw/.sent/"
STAGING = "raw/.staging/"
SWEPT = "raw/.swept/"
CONTENTS = "raw/.contents/"
QUARANTINE = "quarantine/landing/"

_DIGEST = "[0-9a-f]{16}"
_LANDING = rf"({_DIGEST})(?:-([1-9]\d*))?"
_LANDED_NAME = re.compile(rf"landed-{_LANDING}\.(0|[1-9]\d*)\.parquet", re.ASCII)
_ARRIVED_NAME = re.compile(rf"(\d{{4}}-\d\d-\d\d)/([01]\d|2[0-3])/{_LANDING}\.(0|[1-9]\d*)", re.ASCII)
_RAW_PATH = re.compile(r"(\d{4}-\d\d-\d\d)/((?:[01]\d|2[0-3])/([^/_.][^/]*\.parquet))", re.ASCII)
_LEDGER_PATH = re.compile(rf"({_DIGEST})/([1-9]\d*)\.json", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class LandingId:
    """One landing of a content for a source: the digest of both, and how often it has landed, from 1.

    For a polled source, the digest covers the source and a file's name. A higher generation supersedes the lower
    ones. Its texts are `0123456789abcdef`, then `0123456789abcdef-2`.
    """

    digest: str
    generation: int = 1

    def __str__(self) -> str:
        """Its part of keys and names."""
        return self.digest if self.generation == 1 else f"{self.digest}-{self.generation}"


def content_digest(source_key: str, sha256: str) -> str:
    """The digest of a source and the SHA-256 of a content."""
    return short_digest(f"{source_key}\n{sha256}")


def name_digest(source_key: str, name: str) -> str:
    """The digest of a polled source and the name of one of its files."""
    return short_digest(f"{source_key}\nname\n{name}")


def raw_prefix(source_key: str) -> str:
    """The prefix of a source's raw files."""
    return f"{RAW}{source_key}/"


def raw_file_key(source_key: str, day: str, path: str) -> str:
    """The key of a raw file; `path` is relative to the day: `05/landed-0123456789abcdef.7.parquet`."""
    return f"{RAW}{source_key}/{day}/{path}"


def contents_key(source_key: str, day: str) -> str:
    """The key of what is known of the contents of a day's raw files on a disk."""
    return f"{CONTENTS}{source_key}/{day}.json"


def landed_path(hour: str, landing: LandingId, records: int) -> str:
    """The path, relative to its day, of the file with this number of records that a landing adds to an hour."""
    return f"{hour}/landed-{landing}.{records}.parquet"


def ledger_prefix(source_key: str, digest: str | None = None) -> str:
    """The prefix of a source's ledger entries, or of those of one content."""
    return f"{LEDGER}{source_key}/entries/" + (f"{digest}/" if digest else "")


def ledger_key(source_key: str, landing: LandingId) -> str:
    """The key of the entry that makes a landing count."""
    return f"{ledger_prefix(source_key, landing.digest)}{landing.generation}.json"


def touched_prefix(source_key: str) -> str:
    """The prefix of the keys of `touched_key`."""
    return f"{LEDGER}{source_key}/days/"


def touched_key(source_key: str, day: str, landing: LandingId) -> str:
    """The key of an empty object: this landing counts, and touched the day."""
    return f"{touched_prefix(source_key)}{day}/{landing}"


def arrived_prefix(source_key: str) -> str:
    """The prefix of the keys of `arrived_key`."""
    return f"{LEDGER}{source_key}/arrived/"


def arrived_key(source_key: str, landed_at: datetime, landing: LandingId, records: int) -> str:
    """The key of an empty object: in the hour (UTC) of this time, this landing put so many records there."""
    hour = f"{landed_at.astimezone(UTC):%Y-%m-%d/%H}"
    return f"{arrived_prefix(source_key)}{hour}/{landing}.{records}"


def arrived(path: str) -> tuple[datetime, LandingId, int] | None:
    """Hour, landing and records of an `arrived_key` without its prefix; None if it has another form."""
    match = _ARRIVED_NAME.fullmatch(path)
    if match is None:
        return None
    hour = datetime.strptime(f"{match[1]} {match[2]}+0000", "%Y-%m-%d %H%z")
    return hour, LandingId(match[3], int(match[4] or 1)), int(match[5])


def staging_prefix(source_key: str, landing: LandingId) -> str:
    """The prefix of the plan of one landing."""
    return f"{STAGING}{source_key}/{landing}/"


def attempt_prefix(source_key: str, attempt: str) -> str:
    """The prefix under which an attempt stages the files of one or more landings."""
    return f"{STAGING}{source_key}/{attempt}/"


def attempted_prefix(attempt: str, landing: LandingId) -> str:
    """The prefix below that of an attempt for the files of one landing, as Spark names a partition by `_landing`."""
    return f"{attempt}_landing={landing}/"


def sent_key(source_key: str, digest: str) -> str:
    """The key of a partner's file as it was sent, packed or not, kept to land it again; by its `content_digest`."""
    return f"{SENT}{source_key}/{digest}"


def quarantine_key(source_key: str, landing: LandingId) -> str:
    """The key of the records that one landing put into quarantine."""
    return f"{QUARANTINE}{source_key}/{landing}.json"


def landed_by(path: str) -> LandingId | None:
    """The landing that wrote a raw file, by its path relative to the day; None if another receiver named the file."""
    return _landing(_LANDED_NAME.fullmatch(path.rpartition("/")[2]))


def records_in(path: str) -> int | None:
    """How many records a raw file has, by its path; None if another receiver named the file."""
    match = _LANDED_NAME.fullmatch(path.rpartition("/")[2])
    return int(match[3]) if match else None


def entered(path: str) -> LandingId | None:
    """The landing of a ledger key without its prefix, None if it is not a ledger key."""
    return _landing(_LEDGER_PATH.fullmatch(path))


def touching(name: str) -> LandingId | None:
    """The landing of the last part of a `touched_key`, None if it has another form."""
    return _landing(re.fullmatch(_LANDING, name))


def _landing(match: re.Match[str] | None) -> LandingId | None:
    return LandingId(match[1], int(match[2] or 1)) if match else None


def split_raw(path: str) -> tuple[str, str] | None:
    """Day and path below it of a raw key without its prefix, None if it is not a raw file.

    Raw files are Parquet, directly in an hour, and not hidden: Spark skips names that start with `_` or `.`.
    """
    match = _RAW_PATH.fullmatch(path)
    return (match[1], match[2]) if match else None
