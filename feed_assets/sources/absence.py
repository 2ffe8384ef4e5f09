"""Days of which a source has no raw file: the partner sent nothing, sent that there is nothing, or the files are gone.

Here: the reasons for which such a day is complete as it is, and raw files that a landing put there and somebody
deleted. Not here: what follows from it (see `checks`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

from feed_assets.blackboard.port import Blackboard
from feed_assets.sources.errors import RawFilesGoneError
from feed_assets.sources.layout import LandingId, landed_path, ledger_key, raw_key
from feed_assets.sources.ledger import Landing, counting, read_landing, touched_days
from feed_assets.sources.raw import raw_keys
from feed_assets.sources.spec import Source

REMEMBERED = 10_000

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Absences:
    """What is known of days without raw files: why a day is no fault, or which landing's raw files are gone.

    A day of which neither is known may still have to be sent.
    """

    source_key: str
    reasons: Mapping[date, str]
    gone: Mapping[date, str]

    def reason(self, day: date) -> str | None:
        """Why the day is no fault; None where nobody knows. Raises RawFilesGoneError where raw files are gone."""
        if day in self.gone:
            raise RawFilesGoneError(f"{self.source_key} {day}: {self.gone[day]}.")
        return self.reasons.get(day)


def absences(blackboard: Blackboard, source: Source, days: Collection[date]) -> Absences:
    """What is known of these days, of which the source has no raw files.

    One listing of what touched the days from the first to the last, and a read of each landing that touched one of
    these days, once a process. Where landings put records into them, one listing of the raw files.
    """
    if not days:
        return Absences(source.key, {}, {})
    names = {str(day) for day in days}
    touched = touched_days(blackboard, source.key, min(names), max(names))
    keys = [ledger_key(source.key, each) for each in counting({landing for day, landing in touched if day in names})]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        landed = list(pool.map(lambda key: _landing(blackboard, key), keys))
    gone: dict[date, str] = {}
    lost = files_gone(blackboard, source.key, landed, names)
    reasons = dict.fromkeys(days, "the source is declared `may_be_empty`") if source.may_be_empty else {}
    for landing in landed:
        for day in days:
            if landing.covers(day):
                reasons.setdefault(day, _why(landing, day))
            if files := [key for key in lost.get(landing.id, ()) if f"/{day}/" in key]:
                gone.setdefault(day, _gone(blackboard, source, landing, files))
    return Absences(source.key, {day: why for day, why in reasons.items() if day not in gone}, gone)


def files_gone(
    blackboard: Blackboard, source_key: str, landed: Iterable[Landing], days: Collection[str] | None = None
) -> dict[LandingId, tuple[str, ...]]:
    """The raw files with records that these landings put there, in all days or these, and that are gone: their keys.

    Landings without such a file are left out. One listing from the first to the last day in question.
    """
    put = {
        each.id: [(hour[:10], hour[11:]) for hour in each.partitions if days is None or hour[:10] in days]
        for each in landed
    }
    touched = sorted(day for hours in put.values() for day, _ in hours)
    if not touched:
        return {}
    there = raw_keys(blackboard, source_key, date.fromisoformat(touched[0]), date.fromisoformat(touched[-1]))
    found = {
        landing: tuple(
            key for day, hour in hours if (key := raw_key(source_key, day, landed_path(hour, landing))) not in there
        )
        for landing, hours in put.items()
    }
    return {landing: keys for landing, keys in found.items() if keys}


def _why(landing: Landing, day: date) -> str:
    if any(hour.startswith(str(day)) for hour in landing.partitions):
        return f"{landing.file} landed with records of other hours of that day"
    return f"{landing.file} landed with records of that day, and the source's filter leaves them out"


def _gone(blackboard: Blackboard, source: Source, landing: Landing, files: list[str]) -> str:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return (
        f"{landing.file} landed with records of that day, and their raw files are gone "
        f"({blackboard.uri(files[0])}{more}). Land it again: `feed-assets land --again {source.name} FILE`, "
        "or without FILE from the copy that was kept"
    )


def _landing(blackboard: Blackboard, key: str) -> Landing:
    where = blackboard.uri(key)
    if where not in _READ:
        if len(_READ) >= REMEMBERED:
            _READ.clear()
        _READ[where] = landing = read_landing(blackboard, key)
        return landing
    return _READ[where]


_READ: dict[str, Landing] = {}
