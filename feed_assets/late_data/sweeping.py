"""How far days that have left the lookback are swept: the last settled day of each source.

Here: the day, kept in `raw/.swept/` for the feed made from the sources, so that sensors that paused, or that lost
their cursor or the state database, go on where they stopped. Not here: whether a day needs a run (`raw_growth`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime

from feed_assets.blackboard.port import AlreadyExistsError, ConflictError, Content, NotFoundError
from feed_assets.datasets.days import ONE_DAY
from feed_assets.file_feed.control import recorded
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.names import begun
from feed_assets.late_data.day_phases import Phase, phase
from feed_assets.sources.layout import SWEPT
from feed_assets.sources.spec import Source

Records = Sequence[tuple[str, Mapping[str, str]]]
"""What `recorded` yields of all partitions of a feed."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The last settled day by source. `stored` is what is kept; None if nothing, then `records` are all of the feed."""

    settled: Mapping[str, date]
    stored: Content | None = None
    records: Records | None = None


NOTHING_KNOWN = Sweep({})
"""Time alone settles days."""


def settled_days(feed: Feed) -> Sweep:
    """The last settled day of each source, as kept for the feed made from them. One GET."""
    stored = _stored(feed)
    return Sweep(_parsed(stored) if stored else {}, stored)


def sweep_of(feed: Feed, sources: Sequence[Source], now: datetime) -> Sweep:
    """Where sweeping goes on, for all sources of the feed. One GET.

    A feed of which nothing is kept was last looked at when its newest update was begun: lists all its records. A source
    that is not known yet begins with the days that leave the lookback now.
    """
    found = settled_days(feed)
    records = None if found.settled else list(recorded(feed))
    since = min([now, *_newest(records or ())])
    settled = {each.key: found.settled.get(each.key) or last_settled(each, sources, since) for each in sources}
    return Sweep(settled, found.stored, records)


def last_settled(source: Source, sources: Sequence[Source], now: datetime) -> date:
    """The last day that time alone has settled; `sources` are all of its kind."""
    day = now.date()
    while day > date.min + ONE_DAY and phase(str(day), source, sources, now) is not Phase.SETTLED:
        day -= ONE_DAY
    return day


def keep(feed: Feed, sweep: Sweep, settled: Mapping[str, date]) -> None:
    """Keep the last settled days, if they changed. A tick that was faster wins; the next tick looks again."""
    known = _parsed(sweep.stored) if sweep.stored else {}
    if known == settled:
        return
    content = json.dumps({"settled": {key: str(day) for key, day in sorted(settled.items())}}, indent=1).encode()
    with suppress(AlreadyExistsError, ConflictError):
        if sweep.stored is None:
            feed.blackboard.create(_key(feed), content)
        else:
            feed.blackboard.replace(_key(feed), content, tag=sweep.stored.entry.tag)


def _newest(records: Records) -> list[datetime]:
    """When the newest of these updates was begun, if there is one."""
    names = [max(digests) for _, digests in records]
    return [begun(max(names))] if names else []


def _stored(feed: Feed) -> Content | None:
    try:
        return feed.blackboard.read(_key(feed))
    except NotFoundError:
        return None


def _parsed(stored: Content) -> dict[str, date]:
    """The days; empty if the object is damaged, which the next tick replaces."""
    try:
        return {str(key): date.fromisoformat(day) for key, day in json.loads(stored.data)["settled"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _key(feed: Feed) -> str:
    return f"{SWEPT}{feed.location}.json"
