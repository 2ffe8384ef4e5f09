"""What the transforms should give, computed event by event in plain Python: slow, obvious, independent of Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from statistics import median
from typing import Any

from feed_assets_tests.ads.events import MICROSECOND, ONE_DAY, Ad, Click

MILLIONTH = Decimal("0.000001")


@dataclass
class Tally:
    """What is counted of one ad on one day."""

    ads: list[Ad] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def row(self) -> dict[str, Any]:
        """The columns of `AD_EFFECTIVENESS` that need neither catalog nor statistics."""
        campaigns = Counter(ad.campaign_id for ad in self.ads if ad.campaign_id is not None)
        costs = [ad.cost for ad in self.ads if ad.cost is not None]
        cost = sum(costs, Decimal(0)) if costs else None
        clicks = self.counts["clicks"]
        return {
            "campaign_id": min(campaigns, key=lambda name: (-campaigns[name], name), default=None),
            "impressions": len(self.ads),
            "users": len({ad.user_id for ad in self.ads} - {None}),
            "clicks": clicks,
            "clicks_next_day": self.counts["clicks_next_day"],
            "cost": cost,
            "cost_per_click": (cost / clicks).quantize(MILLIONTH, ROUND_HALF_UP)
            if clicks and cost is not None
            else None,
            "median_seconds_to_click": median(self.delays) / 1_000_000 if self.delays else None,
            "repeat_clicks": self.counts["repeat_clicks"],
            "previous_day_clicks": self.counts["previous_day_clicks"],
            "orphan_clicks": self.counts["orphan_clicks"],
        }


def effectiveness(
    ads: Sequence[Ad], clicks: Sequence[Click], *, day: date, window: timedelta
) -> dict[str, dict[str, Any]]:
    """The rows of a day by ad."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for ad in ads:
        if _time(ad).date() == day:
            tallies[str(ad.ad_id)].ads.append(ad)
    clicked: set[tuple[str, str | None, datetime]] = set()
    for click in sorted(clicks, key=_time):
        happened = _time(click).date()
        if happened not in (day, day + ONE_DAY):
            continue
        impression = explanation(ads, click, window)
        shown = _time(impression).date() if impression else None
        if impression and shown == day:
            tally = tallies[str(impression.ad_id)]
            name = (impression.source, impression.impression_id, _time(impression))
            if name not in clicked:
                clicked.add(name)
                tally.counts["clicks"] += 1
                tally.counts["clicks_next_day"] += happened > day
                tally.delays.append(max(0, (_time(click) - _time(impression)) // MICROSECOND))
            elif happened == day:
                tally.counts["repeat_clicks"] += 1
        elif happened == day:
            place = "previous_day_clicks" if impression else "orphan_clicks"
            tallies[str((impression or click).ad_id)].counts[place] += 1
    return {ad: tally.row() for ad, tally in tallies.items()}


def explanation(ads: Sequence[Ad], click: Click, window: timedelta) -> Ad | None:
    """The impression this click belongs to."""
    if click.impression_id is not None:
        today = _time(click).date()
        named = [
            ad for ad in ads if ad.impression_id == click.impression_id and _time(ad).date() in (today, today - ONE_DAY)
        ]
        return min(
            named,
            key=lambda ad: (ad.ad_id != click.ad_id, ad.user_id != click.user_id, _time(ad), ad.source),
            default=None,
        )
    seen = [
        ad
        for ad in ads
        if click.user_id is not None
        and (ad.user_id, ad.ad_id) == (click.user_id, click.ad_id)
        and timedelta() <= _time(click) - _time(ad) <= window
    ]
    return max(seen, key=lambda ad: (_time(ad), str(ad.impression_id), ad.source), default=None)


def judge(events: Sequence[Ad] | Sequence[Click], *, day: date, repeated_within: timedelta) -> dict[int | None, str]:
    """Verdict and reason of each event, by its line."""
    judged: dict[int | None, str] = {}
    delivered: set[tuple[str, str | None]] = set()
    previous: dict[tuple[str, str, str | None], datetime] = {}
    usable = []
    for event in events:
        if reason := _refusal(event, day):
            judged[event.line] = f"quarantined: {reason}"
        else:
            usable.append(event)
    kept = []
    for event in sorted(usable, key=lambda event: (_time(event), str(event.file), event.line or 0)):
        name = (event.source, _identity(event))
        if name in delivered:
            judged[event.line] = "duplicate: redelivered"
        else:
            delivered.add(name)
            kept.append(event)
    for event in sorted(kept, key=lambda event: (_time(event), event.source, str(_identity(event)))):
        judged[event.line] = "published: None"
        if isinstance(event, Click) and (event.user_id or "").strip():
            whose = (event.source, event.user_id, event.ad_id)
            if whose in previous and _time(event) - previous[whose] <= repeated_within:
                judged[event.line] = "duplicate: repeated click"
            previous[whose] = _time(event)
    return judged


def _refusal(event: Ad | Click, day: date) -> str | None:
    own, cost = ("impression_id", event.cost) if isinstance(event, Ad) else ("click_id", None)
    happened = event.event_time.date() if event.event_time else None
    reasons = {
        "malformed line": event.malformed is not None,
        "unparsable event_time": "event_time" in (event.unparsable or ()),
        "missing event_time": happened is None,
        "event_time outside the day": happened != day,
        "missing ad_id": not (event.ad_id or "").strip(),
        f"missing {own}": not (_identity(event) or "").strip(),
        "unparsable cost": isinstance(event, Ad) and "cost" in (event.unparsable or ()),
        "negative cost": cost is not None and cost < 0,
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _identity(event: Ad | Click) -> str | None:
    return event.impression_id if isinstance(event, Ad) else event.click_id


def _time(event: Ad | Click) -> datetime:
    assert event.event_time is not None
    return event.event_time
