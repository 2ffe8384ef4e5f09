"""How requests grow with raw files and landings: with those of the days in question, and no others."""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.sources.absence import absences
from feed_assets.sources.layout import landed_path, ledger_key, raw_file_key, touched_key
from feed_assets.sources.ledger import Landing, entry_json, find, newest_landing
from feed_assets.sources.loading import load_source
from feed_assets.sources.raw import each_day, raw_days, read_set
from feed_assets_tests.harness import SHOP_ADS, write_sources

ADS = "ads/shop_ads"
FIRST = date(2019, 1, 1)
DAYS = 12
ALL_DAYS = [FIRST + timedelta(days=number) for number in range(DAYS)]


@cache
def landings(a_day: int) -> tuple[list[Landing], dict[str, bytes]]:
    """So many landings on each of some days, and the objects of all: each lies in its ledger, and in raw."""
    landed = [
        Landing(
            ADS, f"{number}.csv", "", f"{number:016x}", read=1, landed=1, filtered=0, malformed=0, quarantined={},
            quarantine_key=None, partitions=(f"{day}/{number % 24:02}",), records=(1,), days=(str(day),),
        )
        for number, day in enumerate(day for day in ALL_DAYS for _ in range(a_day))
    ]  # fmt: skip
    objects = {}
    for each in landed:
        day, hour = each.partitions[0].split("/")
        objects[raw_file_key(ADS, day, landed_path(hour, each.id, 1))] = b"x"
        objects[ledger_key(ADS, each.id)] = entry_json(each)
        objects[touched_key(ADS, day, each.id)] = b""
    return landed, objects


class Landings:
    """A landing a minute, 1,440 a day, over some days; fewer a day in a bucket."""

    def __init__(self, store):
        self.a_day = 1440 if store.page == 1000 else 30
        self.days = ALL_DAYS
        self.landed, objects = landings(self.a_day)
        self.board = store.holding(objects)
        self.pages_of_a_day = store.pages(self.a_day)
        self.pages = store.pages(self.a_day * DAYS)


@pytest.fixture
def minutes(store):
    return Landings(store)


def test_a_landing_is_found_by_its_content_with_one_listing_or_one_read(minutes):
    first = minutes.landed[0]

    assert newest_landing(minutes.board, ADS, first.digest) == first
    assert minutes.board.counts() == {"page": 1, "read": 1}
    minutes.board.forget()
    assert find(minutes.board, ADS, first.id) == first
    assert minutes.board.counts() == {"read": 1}


def test_one_old_day_costs_its_own_files_and_landings(minutes):
    read = read_set(minutes.board, ADS, minutes.days[0])

    assert len(read.files) == minutes.a_day
    assert minutes.board.counts()["page"] <= 2 * (minutes.pages_of_a_day + 1)


def test_all_days_cost_the_pages_of_their_files_and_landings(minutes):
    assert len(raw_days(minutes.board, [ADS], minutes.days[0], minutes.days[-1])) == DAYS
    assert minutes.board.counts() == {"page": 2 * minutes.pages}


def test_who_stops_at_a_day_has_listed_nothing_after_the_next_one(minutes):
    days = each_day(minutes.board, ADS, minutes.days[0], minutes.days[-1])

    assert next(days).partition == str(FIRST)
    # Landings of a page at least are listed together.
    assert minutes.board.counts()["page"] <= 2 * (1000 // minutes.a_day + 2) * minutes.pages_of_a_day
    assert minutes.board.counts()["page"] < 2 * minutes.pages + DAYS


def test_why_a_day_is_empty_costs_its_own_landings(minutes, tmp_path):
    source = load_source(write_sources(tmp_path, SHOP_ADS) / "0.yaml", KINDS)

    assert absences(minutes.board, source, [minutes.days[0]]).reasons
    counts = minutes.board.counts()
    assert counts["page"] <= 2 * (minutes.pages_of_a_day + 1)
    assert counts["read"] == minutes.a_day


def test_a_day_of_many_raw_files_costs_their_pages_and_one_for_the_landings(store):
    files = 50 * store.page
    board = store.holding(
        {raw_file_key(ADS, str(FIRST), f"{n % 24:02}/other-{n:06}.parquet"): b"x" for n in range(files)}
    )

    assert len(read_set(board, ADS, FIRST).files) == files
    assert board.counts() == {"page": 50 + 1}
