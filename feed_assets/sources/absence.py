"""Days without a raw file of a source: why such a day is complete, or which raw files somebody deleted.

Not here: what follows from it (see `checks`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.sources.layout import LandingId, ledger_key
from feed_assets.sources.ledger import Landing, counting, read_landing, touched_days
from feed_assets.sources.plan import in_parallel
from feed_assets.sources.raw import raw_keys
from feed_assets.sources.source_errors import RawFilesGoneError
from feed_assets.sources.spec import Source

EMPTY_SOURCES = "empty_sources"
"""The detail of an update's record with the reasons why sources without a raw file are complete; by source."""

REMEMBERED = 10_000


def empty_sources(details: Mapping[str, object]) -> frozenset[str]:
    """The sources that a record's details name as complete without a raw file; none for another value."""
    reasons = details.get(EMPTY_SOURCES)
    return frozenset(reasons) if isinstance(reasons, Mapping) else frozenset()


@dataclass(frozen=True, slots=True)
class Absences:
    """Days without raw files: `reasons` why a day is complete, and days whose landed raw files are `gone`.

    The partner may still have to send a day that is in neither.
    """

    source_key: str
    reasons: Mapping[date, str]
    gone: Mapping[date, str]

    def reason(self, day: date) -> str | None:
        """Why the day is complete; None if unknown. Raises RawFilesGoneError if its raw files are gone."""
        if day in self.gone:
            raise RawFilesGoneError(f"{self.source_key} {day}: {self.gone[day]}.")
        return self.reasons.get(day)


def absences(blackboard: Blackboard, source: Source, days: Collection[date]) -> Absences:
    """The absences of these days, in which the source has no raw file.

    Costs one listing of the touched days from the first to the last, and one GET for each landing that touched one of
    `days`, once a process. If landings put records into `days`, also one listing of the raw files.
    """
    if not days:
        return Absences(source.key, {}, {})
    names = {str(day) for day in days}
    touched = touched_days(blackboard, source.key, min(names), max(names))
    keys = [ledger_key(source.key, each) for each in counting({landing for day, landing in touched if day in names})]
    landed = in_parallel(lambda key: _landing(blackboard, key), keys)
    gone: dict[date, str] = {}
    lost = files_gone(blackboard, source.key, landed, names)
    reasons = dict.fromkeys(days, "the source is declared `may_be_empty`") if source.may_be_empty else {}
    for landing in landed:
        for day in days:
            if landing.covers(day):
                reasons.setdefault(day, _reason(landing, day))
            if files := [key for key in lost.get(landing.id, ()) if f"/{day}/" in key]:
                which = gone_files(blackboard, source.key, files)
                gone.setdefault(day, f"{landing.file} landed with records of that day, and their raw files {which}")
    return Absences(source.key, {day: reason for day, reason in reasons.items() if day not in gone}, gone)


def files_gone(
    blackboard: Blackboard, source_key: str, landed: Iterable[Landing], days: Collection[str] | None = None
) -> dict[LandingId, tuple[str, ...]]:
    """Landing -> keys of its raw files that are gone, in `days` or in all days; complete landings are left out.

    One listing of the raw files, from the first to the last of the days.
    """
    expected = {
        each.id: {hour: key for hour, key in each.raw_keys.items() if days is None or hour[:10] in days}
        for each in landed
    }
    touched = sorted(hour[:10] for keys in expected.values() for hour in keys)
    if not touched:
        return {}
    present = raw_keys(blackboard, source_key, date.fromisoformat(touched[0]), date.fromisoformat(touched[-1]))
    gone: dict[LandingId, tuple[str, ...]] = {}
    for landing, keys in expected.items():
        if missing := tuple(key for key in keys.values() if key not in present):
            gone[landing] = missing
    return gone


def _reason(landing: Landing, day: date) -> str:
    if any(hour.startswith(str(day)) for hour in landing.partitions):
        return f"{landing.file} landed with records of other hours of that day"
    return f"{landing.file} landed with records of that day, and the source's filter leaves them out"


def gone_files(blackboard: Blackboard, source_key: str, files: Sequence[str]) -> str:
    """These raw files, which are gone, and how they land again, as the end of a sentence."""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return (
        f"are gone ({blackboard.uri(files[0])}{more}). Land it again: "
        f"`feed-assets land --again {source_key} FILE`, or without FILE from the copy that was kept"
    )


def _landing(blackboard: Blackboard, key: str) -> Landing:
    uri = blackboard.uri(key)
    if (landing := _READ.get(uri)) is None:
        _READ[uri] = landing = read_landing(blackboard, key)
    return landing


_READ: BoundedCache[str, Landing] = BoundedCache(REMEMBERED)
