"""Raw data that no sensor processes: it is told once for each state, and processed if the source says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.operations.explanation import unprocessed
from feed_assets.project.assembly import PROJECT
from feed_assets.resources.notifier import MailResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sources.loading import load_sources
from feed_assets.web.source_answers import sources_say
from feed_assets_tests.harness import DAY, SHOP_ADS, SHOP_CLICKS, write_sources

LONG_AFTER = datetime(2020, 1, 1, tzinfo=UTC)
DAYS = [f"2019-11-{number}" for number in range(24, 29)]
SENSOR = "outside_lookback"


@pytest.fixture
def mailed(desk, office):
    """Five old days with ads that nobody processed; mail goes to everybody."""
    for day in DAYS:
        desk.raw_bytes(day, {"x": 1000})
    mail = MailResource(url=f"smtp://127.0.0.1:{office.port}", sender="l@example.com", recipients=["all@example.com"])
    return desk.using(mail=mail).at(LONG_AFTER)


def processing(desk, tmp_path, number):
    """The same with `process_any_day`."""
    directory = write_sources(tmp_path / "any day", f"{SHOP_ADS}process_any_day: {number}\n", SHOP_CLICKS)
    return replace(desk, settings=replace(desk.settings, sources_directory=directory), _definitions=None)


def text(office, number=-1):
    part = office.mails[number][1].get_body(("plain",))
    return " ".join(part.get_content().split())


def test_old_data_is_told_once_with_its_days_and_the_command(mailed, office):
    for _ in range(3):
        assert mailed.tick(SENSOR).asked == {}

    assert office.subjects == ["Data outside the lookback: ads/shop_ads, 5,000 bytes of 5 days"]
    assert "outside its lookback of 7 days." in text(office)
    assert "2019-11-26 1,000 bytes" in text(office)
    assert "To process them: feed-assets backfill --from 2019-11-24 --to 2019-11-28" in text(office)


def test_more_data_of_a_day_is_told_again_alone_after_an_hour(mailed, office):
    mailed.tick(SENSOR)
    mailed.raw_bytes(DAYS[1], {"more": 500})
    mailed.at(LONG_AFTER + timedelta(minutes=50)).tick(SENSOR)
    mailed.at(LONG_AFTER + timedelta(minutes=61)).tick(SENSOR)
    mailed.at(LONG_AFTER + timedelta(minutes=121)).tick(SENSOR)

    assert office.subjects[1:] == ["Data outside the lookback: ads/shop_ads, 1,500 bytes of 1 day"]
    assert f"feed-assets backfill --from {DAYS[1]} --to {DAYS[1]}" in text(office)


def test_a_day_that_was_processed_waits_no_more_once_the_sensor_has_looked_until_more_comes(mailed, office):
    def waiting(minutes):
        now = LONG_AFTER + timedelta(minutes=minutes)
        mailed.at(now).tick(SENSOR)
        sources = mailed.definitions.resources[PROJECT].sources
        return [each.waiting_days for each in sources_say(mailed.store, mailed.board.uri(""), sources, now=now)]

    assert waiting(0) == [DAYS, []]
    for day in DAYS[1:]:
        mailed.process(day)
    assert waiting(10) == [DAYS[:1], []]
    mailed.raw_bytes(DAYS[1], {"more": 500})
    assert waiting(70) == [DAYS[:2], []]
    assert [each.split()[-3:] for each in office.subjects] == [["of", "5", "days"], ["of", "1", "day"]]


def test_each_source_has_a_notice_of_its_own_also_in_the_log_without_mail(mailed, office):
    mailed.raw_bytes(DAY, {"x": 10}, "clicks/shop_clicks")
    assert "Data outside the lookback: ads/shop_ads" in mailed.tick(SENSOR).skipped
    assert [each.split(",")[0] for each in office.subjects] == [
        "Data outside the lookback: ads/shop_ads",
        "Data outside the lookback: clicks/shop_clicks",
    ]


def test_days_in_the_lookback_and_processed_days_are_not_told(mailed, office):
    for day in DAYS:
        mailed.process(day)
    mailed.raw_bytes("2019-12-30", {"x": 10})
    mailed.tick(SENSOR)
    assert office.subjects == []


def test_days_before_the_first_partition_are_told_with_the_setting_that_keeps_them_out(mailed, office):
    mailed.raw_bytes("2019-10-03", {"x": 10})
    mailed.tick(SENSOR)

    assert "or before the first partition" in text(office)
    assert (
        "2019-10-03: before the first partition. To process them, set FEED_ASSETS_FIRST_DAY=2019-10-03 wherever the "
        "project runs, restart it, and run `feed-assets backfill --from 2019-10-03 --to 2019-10-03`." in text(office)
    )
    feeds = AssetFeedGraph.of(mailed.definitions.get_repository_def())
    sources = load_sources(mailed.settings.sources_directory, KINDS)
    found = unprocessed(mailed.board, feeds, sources, now=mailed.now, store=mailed.store)
    assert [each.day for each in found if each.before_first] == ["2019-10-03"]


def test_a_source_may_have_old_days_processed_the_newest_first_so_many_at_a_time(mailed, office, tmp_path):
    desk = processing(mailed, tmp_path, 2)

    tick = desk.tick(SENSOR)
    assert sorted(tick.asked) == DAYS[3:]
    assert "`process_any_day` as it is outside" in tick.requests[0].tags["feed_assets/why"].replace(",", "")
    assert "`process_any_day: 2`: these days are processed by themselves, the newest first" in text(office)
    assert "To process them" not in text(office)
    assert desk.tick(SENSOR).asked == {}  # two are under way

    for day in DAYS[3:]:
        desk.process(day)
    desk.fail(tick, status=dg.DagsterRunStatus.SUCCESS)
    assert sorted(desk.tick(SENSOR).asked) == DAYS[1:3]


def test_days_of_which_some_are_looked_at_in_a_tick_go_on_in_the_next(mailed, office, monkeypatch):
    monkeypatch.setattr("feed_assets.sensors.outside_lookback.TICK_SECONDS", -1.0)
    for number in range(5):
        mailed.at(LONG_AFTER + timedelta(hours=2 * number)).tick(SENSOR)
    assert [each.split()[-3:] for each in office.subjects] == [["of", "1", "day"]] * 5
