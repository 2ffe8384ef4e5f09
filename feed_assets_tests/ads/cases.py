"""Cases of attribution that have nothing to do with each other, put into one, so that Spark is asked once for many."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from feed_assets_tests.ads.events import Ad, Click

_Event = TypeVar("_Event", Ad, Click)


@dataclass(frozen=True, slots=True)
class Case:
    """Some impressions, clicks and rows of the catalog."""

    ads: tuple[Ad, ...] = ()
    clicks: tuple[Click, ...] = ()
    catalog: tuple[tuple[str | None, ...], ...] = ()


def together(cases: Mapping[Hashable, Case]) -> Case:
    """All cases as one. Each name in them is preceded by that of the case and a slash, which keeps them apart."""
    return Case(
        tuple(_apart(ad, case) for case, events in cases.items() for ad in events.ads),
        tuple(_apart(click, case) for case, events in cases.items() for click in events.clicks),
        tuple((f"{case}/{ad}", *more) for case, events in cases.items() for ad, *more in events.catalog),
    )


def _apart(event: _Event, case: Hashable) -> _Event:
    names = ("impression_id", "click_id", "ad_id", "user_id")
    given = {name: getattr(event, name, None) for name in names}
    return replace(event, **{name: f"{case}/{value}" for name, value in given.items() if value is not None})
