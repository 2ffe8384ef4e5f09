"""One day of a partner's logs, made up: as large, as skewed and as dirty as asked, with the truth about it.

Here: which events there are, what is wrong with them, and what a correct pipeline makes of them. Not here: how a
partner writes events down (see `layouts`). Everything follows from the seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

SECOND = 1000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
"""Times are in milliseconds since the start of the day, UTC."""

PAIRS = 2**32
"""More than there are users."""

NOBODY = -1
"""The user of an event that does not say who it was."""

LONGEST_REDELIVERY = 300 * SECOND
LONGEST_DELAY = 120 * SECOND

SOUND, REDELIVERED, REPEATED, ORPHAN, MALFORMED, NO_TIME, NO_AD = range(7)
"""What is the matter with a record."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How much of what there is. Users and ads are drawn by Zipf's law with exponent `skew`: a few are hot."""

    impressions: int
    day: date = date(2019, 11, 24)
    users: int = 1000
    ads: int = 100
    campaigns: int = 7
    click_rate: float = 0.02
    skew: float = 1.1
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Dirt:
    """What is wrong, as shares: of all records, or of all clicks where only clicks can be so.

    `late` records come in a file of their own. `orphan`, `repeated` and `after_midnight` are shares of clicks,
    `nobody` of impressions, `crlf` and `out_of_order` of lines. Malformed records and those without a time or an
    ad come on top of the sound ones.
    """

    redelivered: float = 0.01
    late: float = 0.02
    malformed: float = 0.002
    no_time: float = 0.001
    no_ad: float = 0.002
    nobody: float = 0.01
    orphan: float = 0.05
    repeated: float = 0.05
    after_midnight: float = 0.03
    out_of_order: float = 0.05
    crlf: float = 0.2


CLEAN = Dirt(**dict.fromkeys(Dirt.__slots__, 0.0))
"""Nothing wrong at all."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one kind, column by column.

    `impression` and `click` number the event; the numbers of malformed, incomplete and orphan ones belong to no
    other. `at` is the time, `fault` what is the matter, `late` whether it comes in the late file, and `place`
    sorts the lines of a file. `millionths` is the cost.
    """

    impression: Integers
    click: Integers
    at: Integers
    ad: Integers
    user: Integers
    placement: Integers
    millionths: Integers
    fault: Integers
    late: Flags
    place: Integers

    def __len__(self) -> int:
        return len(self.at)

    def take(self, which: Flags | Integers) -> Records:
        """Some of the records, by mask or by position."""
        return Records(*(getattr(self, name)[which] for name in Records.__slots__))

    def count(self, fault: int) -> int:
        """How many have this fault."""
        return int((self.fault == fault).sum())


@dataclass(frozen=True, slots=True)
class Clean:
    """What cleaning makes of the records of one kind that landed: counts for the day itself.

    `published_next_day` are those of the day after, where nothing is wrong.
    """

    published: int
    redelivered: int
    repeated: int
    malformed: int
    no_ad: int
    published_next_day: int = 0


@dataclass(frozen=True, slots=True)
class Effectiveness:
    """What the effectiveness of the day must come to: totals, and by number of the ad."""

    impressions: int
    clicks: int
    clicks_next_day: int
    repeat_clicks: int
    orphan_clicks: int
    impressions_of: Mapping[int, int] = field(repr=False)
    users_of: Mapping[int, int] = field(repr=False)
    clicks_of: Mapping[int, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Log:
    """The records of a day, and of the first hour after it, in no order."""

    shape: Shape
    dirt: Dirt
    ads: Records
    clicks: Records

    def clean_ads(self) -> Clean:
        """The truth about clean ads; malformed records that have no time never get there."""
        ads = self.ads
        return Clean(
            published=ads.count(SOUND),
            redelivered=ads.count(REDELIVERED),
            repeated=0,
            malformed=ads.count(MALFORMED),
            no_ad=ads.count(NO_AD),
        )

    def clean_clicks(self) -> Clean:
        """The truth about clean clicks; malformed records that have no time never get there."""
        clicks = self.clicks
        next_day = int((clicks.at >= DAY).sum())
        return Clean(
            published=clicks.count(SOUND) + clicks.count(ORPHAN) - next_day,
            redelivered=clicks.count(REDELIVERED),
            repeated=clicks.count(REPEATED),
            malformed=clicks.count(MALFORMED),
            no_ad=clicks.count(NO_AD),
            published_next_day=next_day,
        )

    def effectiveness(self, *, named: bool) -> Effectiveness:
        """The truth about the effectiveness of the day's ads, from both days' clicks.

        `named` says whether clicks name their impression. Those that do not belong to the last impression of
        their user and ad, which need not be the one they were made on.
        """
        shown = self.ads.take(self.ads.fault == SOUND)
        clicked = self.clicks.take(np.isin(self.clicks.fault, (SOUND, ORPHAN)))
        impression = clicked.impression if named else _last_impression(shown, clicked)
        explained = clicked.fault == SOUND
        order = np.lexsort((clicked.at[explained], impression[explained]))
        at, ad = clicked.at[explained][order], clicked.ad[explained][order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = np.diff(impression[explained][order]) != 0
        seen = shown.take(shown.user != NOBODY)
        people = np.unique(_pair(seen)) // PAIRS
        return Effectiveness(
            impressions=len(shown),
            clicks=int(first.sum()),
            clicks_next_day=int((first & (at >= DAY)).sum()),
            repeat_clicks=int((~first & (at < DAY)).sum()),
            orphan_clicks=int((clicked.fault == ORPHAN).sum()),
            impressions_of=_tally(shown.ad),
            users_of=_tally(people),
            clicks_of=_tally(ad[first]),
        )


def generate(shape: Shape, dirt: Dirt | None = None) -> Log:
    """The log that shape, dirt and seed determine. About a second for a million impressions."""
    dirt = dirt or Dirt()
    random = np.random.default_rng(shape.seed)
    shown = _impressions(shape, dirt, random)
    clicked = _clicks(shape, dirt, shown, random)
    return Log(shape, dirt, _soiled(shown, shape, dirt, random), _soiled(clicked, shape, dirt, random))


def _impressions(shape: Shape, dirt: Dirt, random: np.random.Generator) -> Records:
    count = shape.impressions
    # More in the evening than at night.
    hours = random.choice(24, count, p=_daily_curve())
    at = hours * HOUR + random.integers(0, HOUR, count)
    user = _zipf(shape.users, shape.skew, count, random)
    user[random.random(count) < dirt.nobody] = NOBODY
    return Records(
        impression=np.arange(count),
        click=np.full(count, -1),
        at=at,
        ad=_zipf(shape.ads, shape.skew, count, random),
        user=user,
        placement=random.integers(1, 9, count),
        millionths=random.lognormal(7, 1, count).astype(np.int64),
        fault=np.zeros(count, dtype=np.int64),
        late=np.zeros(count, dtype=bool),
        place=at,
    )


def _clicks(shape: Shape, dirt: Dirt, shown: Records, random: np.random.Generator) -> Records:
    """Clicks on impressions of known users, each impression at most once, and clicks on nothing."""
    known = np.flatnonzero(shown.user != NOBODY)
    wanted = min(round(shape.impressions * shape.click_rate), len(known))
    clicked = shown.take(random.choice(known, wanted, replace=False))
    delay = np.minimum(random.integers(SECOND, LONGEST_DELAY, wanted), DAY - 1 - clicked.at)
    at = clicked.at + delay
    evening = np.flatnonzero(clicked.at >= DAY - 3 * HOUR)
    after = random.permutation(evening)[: round(wanted * dirt.after_midnight)]
    at[after] = DAY + random.integers(0, HOUR, len(after))
    clicks = _changed(clicked, at=at, place=at)
    clicks = clicks.take(_apart(clicks))
    orphans = clicks.take(random.permutation(np.flatnonzero(clicks.at < DAY))[: round(wanted * dirt.orphan)])
    numbers = np.arange(len(orphans))
    orphans = _changed(
        orphans,
        impression=shape.impressions * 2 + numbers,
        user=shape.users + numbers,
        fault=np.full(len(orphans), ORPHAN),
    )
    both = _together(clicks, orphans)
    return _changed(both, click=np.arange(len(both)))


def _soiled(sound: Records, shape: Shape, dirt: Dirt, random: np.random.Generator) -> Records:
    """The records, and with them everything that should not be there."""
    total = len(sound)
    today = np.flatnonzero((sound.fault == SOUND) & (sound.at < DAY - LONGEST_REDELIVERY))
    clicks = total > 0 and bool((sound.click >= 0).all())
    if clicks:
        # Of a pair of user and ad that clicked once only, no other click can be near.
        _, pair, times = np.unique(_pair(sound), return_inverse=True, return_counts=True)
        today = today[times[pair][today] == 1]
    chosen = random.permutation(today)
    again = sound.take(chosen[: round(total * dirt.redelivered)])
    later = again.at + random.integers(10 * SECOND, LONGEST_REDELIVERY, len(again))
    parts = [sound, _changed(again, at=later, place=later, fault=np.full(len(again), REDELIVERED))]
    number = shape.impressions * 3
    if clicks:
        repeated = sound.take(chosen[len(again) :][: round(total * dirt.repeated)])
        at = repeated.at + random.integers(1, SECOND + 1, len(repeated))
        parts.append(_changed(repeated, at=at, place=at, fault=np.full(len(repeated), REPEATED)))
        parts[-1] = _changed(parts[-1], click=number + np.arange(len(repeated)))
        number += len(repeated)
    for fault, share in ((MALFORMED, dirt.malformed), (NO_TIME, dirt.no_time), (NO_AD, dirt.no_ad)):
        spoilt = sound.take(random.permutation(np.flatnonzero(sound.at < DAY))[: round(total * share)])
        numbers = number + np.arange(len(spoilt))
        number += len(spoilt)
        spoilt = _changed(spoilt, impression=numbers, fault=np.full(len(spoilt), fault))
        parts.append(_changed(spoilt, click=numbers) if clicks else spoilt)
    whole = _together(*parts)
    moved = random.random(len(whole)) < dirt.out_of_order
    place = whole.place + moved * random.integers(-2 * HOUR, 2 * HOUR, len(whole))
    return _changed(whole, late=random.random(len(whole)) < dirt.late, place=place)


def _last_impression(shown: Records, clicked: Records) -> Integers:
    """The position of the last impression of each click's user and ad; -1 where there is none."""
    pairs, pair = np.unique(_pair(clicked), return_inverse=True)
    of_shown = _pair(shown)
    touched = np.flatnonzero(np.isin(of_shown, pairs))
    # Impressions of one pair at one time count as one: all clicks after them go to the same of them.
    moments = np.unique(np.searchsorted(pairs, of_shown[touched]) * (4 * DAY) + shown.at[touched])
    last = np.searchsorted(moments, pair * (4 * DAY) + clicked.at, side="right") - 1
    return np.where((last >= 0) & (np.append(moments, -1)[last] // (4 * DAY) == pair), last, -1)


def _pair(records: Records) -> Integers:
    """A number for each pair of ad and user."""
    return records.ad * PAIRS + records.user


def _apart(clicks: Records) -> Integers:
    """Positions of the clicks that are more than two seconds after the one before of their user and ad."""
    order = np.lexsort((clicks.at, clicks.ad, clicks.user))
    user, ad, at = clicks.user[order], clicks.ad[order], clicks.at[order]
    near = np.zeros(len(order), dtype=bool)
    near[1:] = (np.diff(user) == 0) & (np.diff(ad) == 0) & (np.diff(at) <= 2 * SECOND)
    return np.sort(order[~near])


def _zipf(size: int, skew: float, count: int, random: np.random.Generator) -> Integers:
    """Numbers below `size`, the smaller the more frequent."""
    share = np.cumsum(np.arange(1, size + 1, dtype=np.float64) ** -skew)
    return np.searchsorted(share / share[-1], random.random(count)).astype(np.int64)


def _daily_curve() -> NDArray[np.float64]:
    curve = 1.2 - np.cos((np.arange(24) - 4) / 24 * 2 * np.pi)
    return np.asarray(curve / curve.sum())


def _changed(records: Records, **columns: NDArray[np.generic]) -> Records:
    return Records(*(columns.get(name, getattr(records, name)) for name in Records.__slots__))


def _together(*parts: Records) -> Records:
    return Records(*(np.concatenate([getattr(part, name) for part in parts]) for name in Records.__slots__))


def _tally(numbers: Integers) -> Mapping[int, int]:
    values, counts = np.unique(numbers, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))
