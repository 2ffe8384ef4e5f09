"""A program that decides what is late, empty and stale below a directory, and needs neither Dagster nor Spark.

It prints what it asked for and why as JSON. Arguments: the directory, that of the sources, and the time.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from datetime import date, datetime, timedelta
from importlib import import_module
from pathlib import Path

from feed_assets import late_data
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.datasets.days import days_between, is_day
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.file_feed import Column
from feed_assets.late_data.catching_up import plan_stale
from feed_assets.late_data.late_days import LateDays
from feed_assets.notices.requested_reports import record_requested
from feed_assets.operations.explanation import explain
from feed_assets.sources.kinds import Kind
from feed_assets.sources.loading import load_sources
from feed_assets.starts.graph import FeedNode, Parent
from feed_assets.starts.requests import Requests
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store

ADS, CLICKS, EFFECTIVENESS = "clean-ads/v1.0", "clean-clicks/v1.0", "ad-effectiveness/v1.0"
FIRST_DAY = date(2019, 11, 20)
COMMON = {"event_time": "timestamp", "source": "string", "ad_id": "string", "user_id": "string"}
OF_ADS = {"impression_id": "string", "campaign_id": "string", "placement_id": "string", "cost": "decimal(18,6)"}
OF_CLICKS = {"click_id": "string", "impression_id": "string"}


def kind(name: str, columns: dict[str, str], identifier: str) -> Kind:
    """A kind of records, declared without Spark's types."""
    required = {identifier, "event_time", "source", "ad_id"}
    schema = tuple(
        Column(each, type_, each not in required, "What was sent.") for each, type_ in (columns | COMMON).items()
    )
    return Kind(name, schema, identifier)


KINDS = [kind("ads", OF_ADS, "impression_id"), kind("clicks", OF_CLICKS, "click_id")]


def node(location: str, *upstream: str, raw: str = "") -> FeedNode:
    """A feed of days that is made here."""
    declaration = FeedDeclaration(location, ())
    return FeedNode(location, declaration, True, True, upstream, frozenset([raw] if raw else []))


class Days:
    """Three feeds of days, up to yesterday: two of raw data, and one that reads both and their neighbouring days."""

    def __init__(self, now: datetime) -> None:
        self.days = days_between(FIRST_DAY, now.date() - timedelta(days=1))
        nodes = (
            node(ADS, raw="ads/shop_ads"),
            node(CLICKS, raw="clicks/shop_clicks"),
            node(EFFECTIVENESS, ADS, CLICKS),
        )
        self.feeds = {each.location: each for each in nodes}

    def has(self, feed: str, partition: str) -> bool:
        return feed in self.feeds and partition in self.days

    def has_time(self, feed: str, partition: str) -> bool:
        return feed in self.feeds and is_day(partition)

    def between(self, feed: str, start: datetime, end: datetime) -> set[str]:
        return {day for day in self.days if self.has(feed, day) and str(start.date()) <= day < str(end.date())}

    def of_day(self, feed: str, day: date) -> list[str]:
        return [str(day)] if feed in self.feeds else []

    def neighbours(self, feed: str, partition: str) -> dict[str, str]:
        day = date.fromisoformat(partition)
        sides = {"before": str(day - timedelta(days=1)), "after": str(day + timedelta(days=1))}
        return {side: each for side, each in sides.items() if self.has(feed, each)}

    def parents(self, feed: str, partition: str) -> list[Parent]:
        if feed != EFFECTIVENESS:
            return []
        around = self.neighbours(feed, partition)
        found = [Parent(each, partition, required=True, context=False) for each in (ADS, CLICKS)]
        found += [Parent(ADS, day, required=False, context=True) for day in around.values()]
        found += [Parent(CLICKS, day, required=False, context=False) for side, day in around.items() if side == "after"]
        return found

    def children(self, feed: str, partition: str | None) -> set[tuple[str, str]]:
        return {
            (EFFECTIVENESS, day)
            for day in self.days
            if (feed, partition) in {parent.place for parent in self.parents(EFFECTIVENESS, day)}
        }

    def alike(self, one: str, other: str) -> bool:
        return one in self.feeds and other in self.feeds


def main(base: str, sources_directory: str, moment: str) -> None:
    for module in pkgutil.iter_modules(late_data.__path__):
        import_module(f"{late_data.__name__}.{module.name}")
    board, now, sources = (
        LocalBlackboard(Path(base)),
        datetime.fromisoformat(moment),
        load_sources(Path(sources_directory), KINDS),
    )
    graph, warnings = Days(now), list[str]()
    store = Store(sqlite_url(Path(base) / ".state/state.db"))
    requests = Requests(store, board, graph, now, busy={}, record_report=record_requested)
    late = LateDays(sources, {"ads": ADS, "clicks": CLICKS}, requests)
    late.plan(list(late.decisions()))
    plan_stale(requests, set(), lookback_days=7, out_of_time=lambda: False, warn=warnings.append)
    needs = [each.need for each in requests.put_on_record()]
    stories = [
        explain(board, graph, sources, date.fromisoformat(need.partition), now=now, store=store) for need in needs
    ]
    print(
        json.dumps(
            {
                "asked": [[need.partition, sorted(need.feeds), need.reason] for need in needs],
                "notes": requests.notes + warnings,
                "standing": [story.standing for each in stories for story in each],
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
