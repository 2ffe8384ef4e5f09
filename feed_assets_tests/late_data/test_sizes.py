"""How the requests of decisions grow: with the partitions that are looked at, whatever else there is."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.datasets.days import days_between
from feed_assets.late_data.raw_growth import growth_decisions
from feed_assets.late_data.staleness import staleness
from feed_assets.operations.explanation import explain
from feed_assets.sources.layout import raw_file_key
from feed_assets.sources.loading import load_source
from feed_assets.state.store import Store
from feed_assets_tests.harness import SHOP_ADS, write_sources
from feed_assets_tests.late_data.plain_process import ADS, CLICKS, EFFECTIVENESS, Days, node

NOW = datetime(2019, 12, 1, tzinfo=UTC)
LAST = NOW.date() - timedelta(days=1)
SOURCE = "ads/shop_ads"


class LongAgo(Days):
    """The same feeds over so many days."""

    def __init__(self, count: int) -> None:
        super().__init__(NOW)
        self.days = days_between(LAST - timedelta(days=count - 1), LAST)


def history(store, count):
    """Every feed with an update of each day, by other programs."""
    graph, name = LongAgo(count), "20191130.120000"
    objects = {
        f"{feed}/{day}/{name}/{path}": content
        for feed in (ADS, CLICKS, EFFECTIVENESS)
        for day in graph.days
        for path, content in (("part-0", b""), ("_SUCCESS", b"1"))
    }
    return graph, store.holding(objects)


def many(store):
    return 10 * store.page if store.page == 1000 else 5 * store.page


def test_one_old_partition_beside_recent_ones_costs_a_few_listings(store):
    graph, board = history(store, many(store))
    wanted = [graph.days[0], *graph.days[-3:]]

    answers = list(staleness(board, graph, graph.feeds[EFFECTIVENESS], wanted, now=NOW))

    assert [answer.partition for answer in answers] == wanted
    # Of the feed and its records, and of both inputs: a page for the old days, and one for the recent ones.
    assert board.counts()["page"] <= 4 * 2


def test_explaining_a_day_costs_the_same_however_many_days_there_are(store, tmp_path):
    source = load_source(write_sources(tmp_path, SHOP_ADS) / "0.yaml", KINDS)
    none_asked = Store(f"sqlite:///{tmp_path}/state.db")
    costs = []
    for count in (store.page // 10, many(store)):
        graph, board = history(store, count)
        explain(board, graph, [source], date.fromisoformat(graph.days[1]), now=NOW, store=none_asked)
        costs.append(board.counts())

    assert costs[1]["page"] <= costs[0]["page"] + 4  # a page that goes on is not the last
    assert costs[1]["read"] == costs[0]["read"]


@pytest.fixture
def raw(store, tmp_path):
    """Ten days of raw files, ten pages a day, and their source."""
    source = load_source(write_sources(tmp_path, SHOP_ADS) / "0.yaml", KINDS)
    days = days_between(LAST - timedelta(days=10), LAST)
    files = 10 * store.page if store.page < 1000 else 3 * store.page
    objects = {raw_file_key(SOURCE, day, f"05/other-{n:06}.parquet"): b"x" for day in days for n in range(files)}
    return source, store.holding(objects), store.pages(files)


def test_a_pass_over_the_lookback_lists_each_raw_file_once(raw):
    source, board, a_day = raw

    decisions = list(growth_decisions(board, [source], node(ADS, raw=SOURCE), now=NOW))

    assert len(decisions) == 7 + 3  # watched, and leaving the lookback
    # A day more for its evening. Three listings end at once: landings, updates, records.
    assert board.counts() == {"page": 11 * a_day + 3}


def test_decisions_list_as_far_as_they_are_taken_and_go_on_where_they_stopped(raw):
    source, board, a_day = raw

    taken = next(growth_decisions(board, [source], node(ADS, raw=SOURCE), now=NOW, start_at="2019-11-26"))

    assert taken.day == "2019-11-26"
    # Its own files and those of the evening before; where a day ends, the next one has begun.
    assert Counter(request.key for request in board.requests)[f"raw/{SOURCE}/"] == 2 * a_day + 1
