"""How sources stand: the JSON of `feed-assets sources status`, and of the page of sources.

Here: what arrives, what was pushed, and which days wait, together, as the notices tell it. Not here: the rules
(`arrivals`, `receiving.status`), and who may ask (`source_operations`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Final

import msgspec

from feed_assets.arrivals.answers import Answer, answer
from feed_assets.arrivals.columns import shown
from feed_assets.arrivals.silence import landed_in
from feed_assets.file_feed.wording import counted
from feed_assets.notices.outside_lookback import topic_of
from feed_assets.notices.tables import SEEN_AGAIN, facts_there
from feed_assets.receiving.status import SourceStatus, recorded_status
from feed_assets.sources.spec import Source
from feed_assets.state.store import Store

DAYS: Final = 14
"""Days of arrival that an answer has."""
SHOWN_DAYS: Final = 5
_STILL: Final = 2 * SEEN_AGAIN
"""So old is the note at most that a day waits."""


class DaySays(msgspec.Struct, frozen=True):
    """What arrived on a day, in UTC."""

    landings: int
    records: int


class SourceSays(msgspec.Struct, frozen=True):
    """A source: what is wrong in `warnings`, and all else there is to say in `sentences`.

    `state` is that of `expect_every`, null without it. `last_landing` is the hour of the last landing that a sensor
    noted. `days` are the last 14 days of arrival, oldest first. `new_columns` and `missing_columns` have the first day
    of each. `waiting_days` have data that no sensor processes. `pushed` has the records of 24 hours, for each partner.
    """

    source: str
    state: str | None
    last_landing: datetime | None
    warnings: list[str]
    sentences: list[str]
    days: dict[str, DaySays]
    new_columns: dict[str, date]
    missing_columns: dict[str, date]
    waiting_days: list[str]
    pushed: list[SourceStatus]


def sources_say(
    store: Store,
    base: str,
    sources: Sequence[Source],
    *,
    now: datetime,
    known_until: Callable[[Source], datetime | None] = lambda _: None,
) -> list[SourceSays]:
    """How each source stands, those with warnings first. Raises StoreError.

    `known_until` says after which time nothing of a source could land: that of its last successful poll, or None.
    """
    pushed = recorded_status(store, [source.key for source in sources], now=now)
    found = [
        _says(
            answer(store, base, source, now=now, known_until=known_until(source)),
            [each for each in pushed if each.source == source.key and each.requests + each.waiting],
            facts_there(store, base, topic_of(source.key), since=now - _STILL),
        )
        for source in sources
    ]
    return sorted(found, key=lambda each: (not each.warnings, each.source))


def _says(found: Answer, pushed: list[SourceStatus], waiting: Mapping[str, str]) -> SourceSays:
    source, standing = found.source, found.standing
    days = [name.removeprefix(topic_of(source.key)) for name in sorted(waiting)]
    warnings, sentences = source.problems.splitlines(), list[str]()
    if standing is not None:
        (warnings if found.sends_too_little else sentences).append(standing.sentence)
    elif found.hours:
        sentences.append(landed_in(max(found.hours)))
    else:
        sentences.append("No landing is known yet: the sensor arrivals notes them.")
    warnings += found.changes.sentences(found.now.date())
    if days:
        more = f" and {counted(len(days) - SHOWN_DAYS, 'day')} more" if len(days) > SHOWN_DAYS else ""
        warnings.append(
            f"No sensor processes the data of {counted(len(days), 'day')}: {', '.join(days[:SHOWN_DAYS])}{more}. "
            "`feed-assets explain` names the commands."
        )
    for each in pushed:
        (warnings if each.has_many_unusable else sentences).append(each.sentence())
    return SourceSays(
        source.key,
        None if standing is None else standing.state,
        max(found.hours, default=None),
        warnings,
        sentences,
        {str(day): DaySays(each.landings, each.records) for day, each in found.by_day(DAYS).items()},
        {shown(name): day for name, day in found.changes.new.items()},
        {shown(name): day for name, day in found.changes.gone.items()},
        days,
        pushed,
    )
