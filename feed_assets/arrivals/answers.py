"""How a source stands: its silence and its columns, as the check, the sensor and commands say it.

Here: one answer from the rows. Not here: the rules (`silence`, `columns`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from feed_assets.arrivals.columns import Changes, changes
from feed_assets.arrivals.silence import Arrivals, Arrived, Standing, State
from feed_assets.arrivals.tables import arrivals_of, columns_of, last_look
from feed_assets.sources.spec import Source
from feed_assets.state.store import Store


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of a source at `now`. `standing` is None if the source has no `expect_every`."""

    source: Source
    now: datetime
    hours: Mapping[datetime, Arrived]
    days: Mapping[date, Mapping[str, Any]]
    standing: Standing | None
    changes: Changes

    @property
    def is_silent(self) -> bool:
        """Whether the source has sent nothing although something was expected."""
        return self.standing is not None and self.standing.state is State.SILENT

    @property
    def sends_too_little(self) -> bool:
        """Whether the source is silent, or sends far less than usual."""
        return self.standing is not None and self.standing.state in {State.SILENT, State.LESS}

    def by_day(self, number: int) -> dict[date, Arrived]:
        """What arrived on each of the last days, in UTC, oldest first."""
        days = [self.now.date() - timedelta(days=ago) for ago in range(number - 1, -1, -1)]
        landings, records = Counter[date](), Counter[date]()
        for hour, each in self.hours.items():
            landings[hour.date()] += each.landings
            records[hour.date()] += each.records
        return {day: Arrived(landings[day], records[day]) for day in days}


def answer(store: Store, base: str, source: Source, *, now: datetime, known_until: datetime | None = None) -> Answer:
    """How a source stands. `known_until`: nothing could land after that. Raises StoreError."""
    hours, days, look = (
        arrivals_of(store, base, source.key),
        columns_of(store, base, source.key),
        last_look(store, base),
    )
    standing = None
    if source.expect_every is not None:
        until = now if known_until is None else min(now, known_until)
        watched = look[0] if look else until
        standing = Arrivals(hours, until, watched, ZoneInfo(source.time_zone)).standing(source.expect_every)
    return Answer(source, now, hours, days, standing, changes(days, source.format.declared))
