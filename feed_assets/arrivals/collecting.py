"""Keeping what arrived of a source, by the ledger of landings.

Here: which landings are read, and when it goes on after a pause. Not here: the rows (`tables`), and the rules
(`silence`, `columns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any, Final

from feed_assets.arrivals.columns import day_of
from feed_assets.arrivals.silence import WEEKS, Arrived
from feed_assets.arrivals.tables import keep_arrivals, keep_look, last_look
from feed_assets.blackboard.port import Blackboard, NotFoundError
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.sources.layout import LandingId, ledger_key
from feed_assets.sources.ledger import Arrival, arrivals, read_landing
from feed_assets.sources.plan import in_parallel
from feed_assets.sources.spec import Source
from feed_assets.state.store import Store

AGAIN: Final = timedelta(days=2)
"""A landing notes its hour, that of its beginning, when it is complete: so long before the last look is read again."""
PAUSE: Final = timedelta(hours=1)
"""A longer time without a look was not watched: perhaps nothing could land either."""
AT_ONCE: Final = 1_000
"""Ledger entries of a source that a look reads; the next looks read the others."""


def collect(store: Store, board: Blackboard, sources: Sequence[Source], *, now: datetime) -> datetime:
    """Keep what arrived of these sources until `now`. Returns since when they are watched without a pause.

    For each source a LIST of the landings since the day before the last look, and a GET for each, once in a process.
    """
    base, known = board.uri(""), last_look(store, board.uri(""))
    first = now - (WEEKS + 1) * timedelta(weeks=1)
    since = first if known is None else max(first, min(known[1], now) - AGAIN)
    midnight = since.replace(hour=0, minute=0, second=0, microsecond=0)
    for source in sources:
        found = list(arrivals(board, source.key, midnight))
        seen = _seen(board, source.key, found)
        keep_arrivals(store, base, source.key, midnight, _by_hour(_sent(source, found)), _by_day(found, seen))
    watched = known[0] if known and known[1] <= now <= known[1] + PAUSE else now
    keep_look(store, base, watched, now)
    return watched


def _sent(source: Source, found: Sequence[Arrival]) -> list[Arrival]:
    """The landings that a partner caused: of its own accord, only a polled file lands again, when it has changed."""
    return [each for each in found if source.poll is not None or each.landing.generation == 1]


def _by_hour(found: Sequence[Arrival]) -> dict[datetime, Arrived]:
    hours: dict[datetime, Arrived] = {}
    for each in found:
        before = hours.get(each.hour, Arrived(0, 0))
        hours[each.hour] = Arrived(before.landings + 1, before.records + each.records)
    return hours


def _by_day(found: Sequence[Arrival], seen: Mapping[LandingId, Mapping[str, Any] | None]) -> dict[date, dict[str, Any]]:
    days: dict[date, list[Mapping[str, Any]]] = {}
    for each in found:
        if (columns := seen.get(each.landing)) is not None:
            days.setdefault(each.hour.date(), []).append(columns)
    return {day: day_of(of_day) for day, of_day in days.items()}


def _seen(board: Blackboard, source: str, found: Sequence[Arrival]) -> dict[LandingId, Mapping[str, Any] | None]:
    """What these landings saw of the columns: the newest first, as far as they are known or may be read now."""
    keys = {each.landing: ledger_key(source, each.landing) for each in reversed(found)}
    uris = {landing: board.uri(key) for landing, key in keys.items()}
    unknown = [landing for landing in keys if uris[landing] not in _SEEN][:AT_ONCE]
    for landing, columns in zip(unknown, in_parallel(lambda each: _columns(board, keys[each]), unknown), strict=True):
        _SEEN[uris[landing]] = columns
    seen: dict[LandingId, Mapping[str, Any] | None] = {}
    for landing, uri in uris.items():
        with suppress(KeyError):  # another tick may have cleared the cache
            seen[landing] = _SEEN[uri]
    return seen


def _columns(board: Blackboard, key: str) -> Mapping[str, Any] | None:
    try:
        return read_landing(board, key).columns
    except NotFoundError:  # somebody has deleted it
        return None


_SEEN: BoundedCache[str, Mapping[str, Any] | None] = BoundedCache(50_000)
"""What each landing saw of the columns, by the URI of its entry."""
