"""What landed: an entry for each landing of each content of a source, which makes its raw files count.

Here: the entry, and finding it again, by its content or by the days that it touched. Of several landings of one content
the newest counts, and none of the others. Not here: when an entry is written (see `plan`), and what raw files make of
it (see `raw`).

An entry lies under the digest of its content. For each day that it touched an empty object follows, so that one day is
looked at without the landings of all others. A landing that was killed in between counts; who meets a raw file of it
finds its entry by the digest, and whoever completes it writes what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from datetime import date, datetime
from typing import Any

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import Blackboard, NotFoundError
from feed_assets.sources.layout import LandingId, entered, ledger_key, ledger_prefix, touched_prefix, touching

FORMAT = 1

_TIMES = ("landed_at", "future_until")


@dataclass(frozen=True, slots=True)
class Landing:
    """What became of one file of a partner.

    Records: `read` = `landed` + `filtered` + the sum of `quarantined`. `malformed` of the landed ones did
    not parse as declared, but have a time. `quarantined` counts by reason; these records are JSON lines
    under `quarantine_key`. `partitions` are the hours that got records, as `YYYY-MM-DD/HH`; `withdrawn` those
    that got an empty file, as only superseded landings have records in that day. `description` is the
    digest of what the source stated when the file landed (see `Source.landing_digest`), None where that is
    not known. `days` are the days of all its records that have a usable time, the filtered ones included. At
    `future_until`, the first of those that are in quarantine as of the future has a usable time; None where there is
    none. With `already_landed`, this content was there before, and the numbers are those of then.
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
    description: str | None = None
    landed_at: datetime | None = None
    already_landed: bool = False
    days: tuple[str, ...] = ()
    future_until: datetime | None = None

    @property
    def id(self) -> LandingId:
        """Which landing of which content this is."""
        return LandingId(self.digest, self.generation)

    @property
    def touched(self) -> frozenset[str]:
        """The days that it has a record of, or that got a file."""
        return frozenset((*self.days, *(hour[:10] for hour in (*self.partitions, *self.withdrawn))))

    def covers(self, day: date) -> bool:
        """Whether the file had records of this day, be it only such as the source's filter leaves out."""
        return str(day) in self.days


def landing_json(landing: Landing) -> dict[str, Any]:
    """A landing as an object of JSON."""
    times: dict[str, datetime | None] = {name: getattr(landing, name) for name in _TIMES}
    return asdict(landing) | {name: time.isoformat() if time else None for name, time in times.items()}


def landing_from_json(fields: Mapping[str, Any]) -> Landing:
    """The landing of such an object; fields that a later version added are left out."""
    known: dict[str, Any] = {
        field.name: fields[field.name] for field in dataclass_fields(Landing) if field.name in fields
    }
    lists: dict[str, Any] = {name: tuple(known[name]) for name in ("partitions", "withdrawn", "days") if name in known}
    times: dict[str, Any] = {name: datetime.fromisoformat(known[name]) for name in _TIMES if known.get(name)}
    return Landing(**{**known, **lists, **times})


def entry_json(landing: Landing) -> bytes:
    """The entry as it is stored."""
    return json.dumps({"format": FORMAT, **landing_json(landing)}, indent=1, sort_keys=True).encode()


def landings_of(blackboard: Blackboard, source_key: str, digest: str) -> tuple[Landing, ...]:
    """The landings of one content, oldest first; the last one counts. One LIST, and a GET for each."""
    there = sorted(entries(blackboard, source_key, digest))
    return tuple(read_landing(blackboard, ledger_key(source_key, each)) for each in there)


def entries(blackboard: Blackboard, source_key: str, digest: str | None = None) -> Iterator[LandingId]:
    """All landings of a source that have an entry, or those of one content. One listing."""
    prefix = ledger_prefix(source_key)
    for entry in list_all(blackboard, ledger_prefix(source_key, digest)):
        if (landing := entered(entry.key.removeprefix(prefix))) is not None:
            yield landing


def find(blackboard: Blackboard, source_key: str, landing: LandingId) -> Landing | None:
    """The entry of this very landing, None where it did not come to its end. One GET."""
    try:
        return read_landing(blackboard, ledger_key(source_key, landing))
    except NotFoundError:
        return None


def counting(landings: Iterable[LandingId]) -> list[LandingId]:
    """Of each content the landing that counts."""
    return list({each.digest: each for each in sorted(landings)}.values())


def touched_days(blackboard: Blackboard, source_key: str, first: str, last: str) -> Iterator[tuple[str, LandingId]]:
    """Each day from first to last with each landing that touched it, day by day: a listing, as far as it is taken."""
    prefix = touched_prefix(source_key)
    for entry in list_all(blackboard, prefix, after=f"{prefix}{first}"):
        day, _, name = entry.key.removeprefix(prefix).partition("/")
        if day > last:
            return
        if (landing := touching(name)) is not None:
            yield day, landing


def read_landing(blackboard: Blackboard, key: str) -> Landing:
    """The landing of a ledger entry; what an entry says never changes."""
    return landing_from_json(json.loads(blackboard.read(key).data))


def landings(blackboard: Blackboard, source_key: str) -> Iterator[Landing]:
    """All landings of a source that count, each read as it is taken from the iterator."""
    for each in counting(entries(blackboard, source_key)):
        yield read_landing(blackboard, ledger_key(source_key, each))
