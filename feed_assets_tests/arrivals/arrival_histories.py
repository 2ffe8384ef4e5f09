"""Histories of partners that are made up: when each lands files, and with how many records. It knows no rule.

`python -m feed_assets_tests.arrivals.arrival_histories NUMBER [FIRST]` lives quiet histories and counts false alarms.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from feed_assets.arrivals.silence import Arrivals, Arrived, Standing, State
from feed_assets.sources.expect_spec import Expected

FIRST = datetime(2026, 1, 29, 7, 20, tzinfo=UTC)
"""Within seven weeks of both changes of clocks in spring, of the United States and of Europe."""
HOUR = timedelta(hours=1)
LEARNT = Expected(every="learnt")


@dataclass(frozen=True)
class Partner:
    """A way to send. `times` yields when, from a day's midnight in the partner's zone, on days on which it sends."""

    name: str
    times: Callable[[random.Random], Iterator[float]]
    days: frozenset[int] = frozenset(range(7))
    zone: str = "Europe/Berlin"


def steady(each: float) -> Callable[[random.Random], Iterator[float]]:
    """Around the clock, each so many hours, to a minute or two."""

    def times(dice: random.Random) -> Iterator[float]:
        at = 0.01
        while at < 24:
            yield min(23.99, at + dice.uniform(0, 0.04))
            at += each

    return times


def by_chance(rate: float) -> Callable[[random.Random], Iterator[float]]:
    """Around the clock, so many an hour, whenever people do something."""

    def times(dice: random.Random) -> Iterator[float]:
        at = dice.expovariate(rate)
        while at < 24:
            yield at
            at += dice.expovariate(rate)

    return times


def office(first: float, last: float, rate: float) -> Callable[[random.Random], Iterator[float]]:
    """So many an hour between two hours."""

    def times(dice: random.Random) -> Iterator[float]:
        at = first + dice.expovariate(rate)
        while at < last:
            yield at
            at += dice.expovariate(rate)

    return times


def daily(at: float, late: float = 0.03) -> Callable[[random.Random], Iterator[float]]:
    """A file a day, an hour early or late, and up to six hours late now and then."""

    def times(dice: random.Random) -> Iterator[float]:
        hour = at + dice.uniform(-1, 1)
        if dice.random() < late:
            hour += dice.uniform(1, 6)
        yield min(hour, 23.9)

    return times


WORKDAYS = frozenset(range(5))
PARTNERS = (
    Partner("each five minutes", steady(1 / 12)),
    Partner("hourly", steady(1)),
    Partner("each six hours", steady(6)),
    Partner("by chance, often", by_chance(3)),
    Partner("by chance", by_chance(1)),
    Partner("by chance, seldom", by_chance(0.25)),
    Partner("in office hours", office(8, 19, 4), WORKDAYS),
    Partner("in office hours, seldom", office(8, 19, 0.7), WORKDAYS),
    Partner("in office hours overseas", office(8, 19, 4), WORKDAYS, "America/New_York"),
    Partner("from Sunday on", office(7, 16, 2), frozenset({6, 0, 1, 2, 3}), "Asia/Riyadh"),
    Partner("daily", daily(4)),
    Partner("daily on workdays", daily(6), WORKDAYS),
    Partner("daily, late in the evening", daily(22.5)),
    Partner("weekly", daily(9), frozenset({1})),
)


def history(
    partner: Partner, dice: random.Random, weeks: int, *, stops: datetime | None = None
) -> list[tuple[datetime, int]]:
    """Each landing with its records, until it `stops`."""
    zone, level, growth = ZoneInfo(partner.zone), dice.lognormvariate(7, 1), dice.uniform(0.99, 1.05)
    found = []
    for number in range(7 * weeks + 1):
        midnight = (FIRST + timedelta(days=number)).astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
        if midnight.weekday() not in partner.days:
            continue
        for hour in partner.times(dice):
            at = (midnight + timedelta(hours=hour)).astimezone(UTC)  # wall time, as its scheduler has it
            if at >= FIRST and (stops is None or at < stops):
                found.append((at, round(level * growth ** (number / 7) * dice.lognormvariate(0, 0.4))))
    return sorted(found)


def by_hour(landings: list[tuple[datetime, int]]) -> dict[datetime, Arrived]:
    """What landed in each hour."""
    counts: Counter[datetime] = Counter()
    records: Counter[datetime] = Counter()
    for at, number in landings:
        hour = at.replace(minute=0, second=0, microsecond=0)
        counts[hour] += 1
        records[hour] += number
    return {hour: Arrived(counts[hour], records[hour]) for hour in counts}


def standing_at(
    hours: Mapping[datetime, Arrived],
    now: datetime,
    *,
    expected: Expected = LEARNT,
    watched_since: datetime = FIRST,
    zone: str = "UTC",
) -> Standing:
    """How the source stands, of which nothing has landed in the hour of `now` yet."""
    known = {hour: each for hour, each in hours.items() if hour + HOUR <= now}
    return Arrivals(known, now, watched_since, ZoneInfo(zone)).standing(expected)


def alarms(hours: Mapping[datetime, Arrived], *, zone: str = "UTC") -> Iterator[tuple[datetime, Standing]]:
    """The times at which a source is silent, or sends far less.

    It is looked at before each landing that ends a wait, as a silent source stays so until then; and once a day, for
    the volume.
    """
    before = min(hours)
    for hour in sorted(hours):
        if hour - before > 2 * HOUR or hour.hour == 5:
            now = hour + timedelta(minutes=5)
            found = standing_at(hours, now, zone=zone)
            if found.state in {State.SILENT, State.LESS}:
                yield now, found
        before = hour


def quiet(seed: int, *, weeks: int = 9) -> tuple[Partner, list[tuple[datetime, Standing]]]:
    """A history in which nothing is wrong, and its false alarms."""
    dice = random.Random(seed)
    partner = PARTNERS[seed % len(PARTNERS)]
    hours = by_hour(history(partner, dice, weeks))
    return partner, list(alarms(hours, zone=dice.choice(["UTC", partner.zone])))


def told_at(partner: Partner, seed: int, stops: datetime, *, zone: str = "UTC") -> datetime | None:
    """When the silence of a partner that `stops` is told, if it is within ten days."""
    hours = by_hour(history(partner, random.Random(seed), 12, stops=stops))
    start = stops.replace(minute=5)
    looked = (start + number * HOUR for number in range(1, 240))
    return next((now for now in looked if standing_at(hours, now, zone=zone).state is State.SILENT), None)


if __name__ == "__main__":
    number, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    wrong = Counter[str]()
    for seed in range(first, first + number):
        partner, found = quiet(seed)
        wrong[partner.name] += bool(found)
        if seed % 50 == 49:
            print(f"{seed + 1 - first} histories, {sum(wrong.values())} with a false alarm", flush=True)
        for now, standing in found[:1]:
            print(f"{seed}: {partner.name}, {now:%a %Y-%m-%d %H:%M}: {standing.sentence}", flush=True)
    print(f"{sum(wrong.values())} of {number} quiet histories have a false alarm: {dict(wrong)}")
    for partner in PARTNERS:
        stop = datetime(2026, 4, 8, 10, 30, tzinfo=UTC)
        told = told_at(partner, 1, stop)
        when = f"told at {told:%a %d. %H:%M}" if told else "never told"
        print(f"{partner.name}: stops at {stop:%a %H:%M}, {when}")
