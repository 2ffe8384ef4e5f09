"""The ledger: an entry for each landing of each content of a source, which makes its raw files count.

Here: the entry, and finding it by its content, by the days that it touched, or by the hour in which it landed. Only the
newest landing of a content counts. Not here: when an entry is written (see `plan`), and which raw files count (see
`raw`).

An entry lies under the digest of its content. After it comes an empty object for each day that the landing touched, so
that a look at one day need not read all landings, and one for the hour in which it landed. A landing that was killed in
between counts: the digest in the name of a raw file leads to its entry, and the process that completes the landing
writes the missing objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from datetime import UTC, date, datetime
from typing import Any

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import Blackboard, NotFoundError
from feed_assets.sources.layout import (
    LandingId,
    arrived,
    arrived_prefix,
    entered,
    landed_path,
    ledger_key,
    ledger_prefix,
    raw_file_key,
    touched_prefix,
    touching,
)

FORMAT = 1

_TIMES = ("landed_at", "future_until")
_LISTS = ("partitions", "withdrawn", "days", "records", "hints")


@dataclass(frozen=True, slots=True)
class Landing:
    """The result of landing one file of a partner.

    - Records: `read` = `landed` + `filtered` + the sum of `quarantined`. `malformed` counts the landed records that do
      not parse as declared, but have a time. `quarantined` counts by reason; `quarantine_key` has them as JSON lines.
    - `partitions` are the hours that got records, as `YYYY-MM-DD/HH`, and `records` is the number of these for each
      hour. `withdrawn` are the hours that got an empty file, because only superseded landings have records in that day.
    - `description` is the source's `landing_digest` when the file landed.
    - `days` are the days of all records that have a usable time, with the filtered ones.
    - `future_until` is when the first record quarantined as of the future has a usable time; None without such records.
    - `hints` are sentences for people on how the file was read.
    - `columns` is what was seen of the file's columns (`seen_columns.SeenColumns.plain`); None if nothing was.
    - `already_landed`: this content landed before, and the numbers are those of that landing.
    """

    source: str
    file: str
    sha256: str
    digest: str
    read: int
    landed: int
    filtered: int
    malformed: int
    quarantined: Mapping[str, int]
    quarantine_key: str | None
    partitions: tuple[str, ...]
    withdrawn: tuple[str, ...] = ()
    generation: int = 1
    description: str = ""
    landed_at: datetime | None = None
    already_landed: bool = False
    days: tuple[str, ...] = ()
    future_until: datetime | None = None
    records: tuple[int, ...] = ()
    hints: tuple[str, ...] = ()
    columns: Mapping[str, Any] | None = None

    @property
    def id(self) -> LandingId:
        """The content's digest, and the generation of this landing."""
        return LandingId(self.digest, self.generation)

    @property
    def touched(self) -> frozenset[str]:
        """The days that have a record, or that got a file."""
        return frozenset((*self.days, *(hour[:10] for hour in (*self.partitions, *self.withdrawn))))

    def records_of(self, day: str) -> int:
        """How many records landed in this day."""
        counts = zip(self.partitions, self.records, strict=True)
        return sum(count for hour, count in counts if hour[:10] == day)

    @property
    def raw_keys(self) -> dict[str, str]:
        """Hour -> key of the raw file with the records of that hour."""
        return {
            hour: raw_file_key(self.source, hour[:10], landed_path(hour[11:], self.id, count))
            for hour, count in zip(self.partitions, self.records, strict=True)
        }

    def covers(self, day: date) -> bool:
        """Whether the file had records of this day, with those that the source's filter leaves out."""
        return str(day) in self.days


def landing_json(landing: Landing) -> dict[str, Any]:
    """A landing as a JSON object."""
    times: dict[str, datetime | None] = {name: getattr(landing, name) for name in _TIMES}
    return asdict(landing) | {name: time.isoformat() if time else None for name, time in times.items()}


def landing_from_json(fields: Mapping[str, Any]) -> Landing:
    """The landing of a JSON object; fields that a later version added are left out."""
    names = {field.name for field in dataclass_fields(Landing)}
    known: dict[str, Any] = {name: value for name, value in fields.items() if name in names}
    lists: dict[str, Any] = {name: tuple(known[name]) for name in _LISTS if name in known}
    times: dict[str, Any] = {name: datetime.fromisoformat(known[name]) for name in _TIMES if known.get(name)}
    return Landing(**{**known, **lists, **times})


def entry_json(landing: Landing) -> bytes:
    """The entry as it is stored."""
    return json.dumps({"format": FORMAT, **landing_json(landing)}, indent=1, sort_keys=True).encode()


def newest_landing(blackboard: Blackboard, source_key: str, digest: str) -> Landing | None:
    """The landing of one content that counts, None if there is none. One LIST for each 1,000 landings, and one GET."""
    newest = max(entries(blackboard, source_key, digest), default=None)
    return None if newest is None else read_landing(blackboard, ledger_key(source_key, newest))


def entries(blackboard: Blackboard, source_key: str, digest: str | None = None) -> Iterator[LandingId]:
    """All landings of a source that have an entry, or those of one content. One listing."""
    prefix = ledger_prefix(source_key)
    for entry in list_all(blackboard, ledger_prefix(source_key, digest)):
        if (landing := entered(entry.key.removeprefix(prefix))) is not None:
            yield landing


def find(blackboard: Blackboard, source_key: str, landing: LandingId) -> Landing | None:
    """The entry of this landing, None if it did not complete. One GET."""
    try:
        return read_landing(blackboard, ledger_key(source_key, landing))
    except NotFoundError:
        return None


def counting(landings: Iterable[LandingId]) -> list[LandingId]:
    """The landing that counts of each content."""
    return list({each.digest: each for each in sorted(landings)}.values())


def touched_days(blackboard: Blackboard, source_key: str, first: str, last: str) -> Iterator[tuple[str, LandingId]]:
    """Each day from first to last with each landing that touched it, in order. One listing, as far as it is read."""
    prefix = touched_prefix(source_key)
    for entry in list_all(blackboard, prefix, after=f"{prefix}{first}"):
        day, _, name = entry.key.removeprefix(prefix).partition("/")
        if day > last:
            return
        if (landing := touching(name)) is not None:
            yield day, landing


@dataclass(frozen=True, slots=True)
class Arrival:
    """A landing that completed: the hour (UTC) in which it began, and how many records it put into raw partitions."""

    hour: datetime
    landing: LandingId
    records: int


def arrivals(blackboard: Blackboard, source_key: str, since: datetime) -> Iterator[Arrival]:
    """The landings of a source from the hour of `since` on, by hour. One listing of these.

    Landings of versions that noted no hours are left out, and so are files that other receivers put there.
    """
    prefix = arrived_prefix(source_key)
    for entry in list_all(blackboard, prefix, after=f"{prefix}{since.astimezone(UTC):%Y-%m-%d/%H}"):
        if (found := arrived(entry.key.removeprefix(prefix))) is not None:
            yield Arrival(*found)


def read_landing(blackboard: Blackboard, key: str) -> Landing:
    """The landing of a ledger entry; an entry never changes."""
    return landing_from_json(json.loads(blackboard.read(key).data))


def current_landings(blackboard: Blackboard, source_key: str) -> Iterator[Landing]:
    """The landings of a source that count, each read when the iterator reaches it."""
    for each in counting(entries(blackboard, source_key)):
        yield read_landing(blackboard, ledger_key(source_key, each))
