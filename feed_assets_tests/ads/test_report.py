"""The figures of a report, its pictures and its page."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import sqrt
from pathlib import Path
from urllib.parse import unquote, urlsplit

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from feed_assets.ads.effectiveness import wilson_interval
from feed_assets.ads.report import plots
from feed_assets.ads.report.effectiveness_report import day_figures, days_picture, interval, percent, totals
from feed_assets.ads.report.report_page import page
from feed_assets.blackboard.location import open_blackboard
from feed_assets.file_feed import (
    Facts,
    Feed,
    FeedInput,
    Rows,
    claim,
    publish_files,
    reject,
    require_latest,
    stage,
)

NOW = datetime(2019, 12, 1, tzinfo=UTC)
DAYS = ("2019-11-24", "2019-11-26")


def rated(clicks: int, impressions: int) -> dict[str, object]:
    """A row as the plots take it."""
    low, high = wilson_interval(clicks, impressions, sqrt)
    row = {"ad_id": "a", "day": "2019-11-24", "impressions": impressions, "clicks": clicks}
    return {**row, "ctr": clicks / impressions, "ctr_low": low, "ctr_high": high}


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    impressions = draw(st.one_of(st.integers(1, 2000), st.integers(1, 10**12)))
    clicks = draw(st.one_of(st.just(0), st.just(impressions), st.integers(0, impressions)))
    return clicks, impressions


@given(counts())
def test_an_interval_holds_its_rate_and_stays_within_0_and_1(count: tuple[int, int]):
    clicks, impressions = count
    low, high = wilson_interval(clicks, impressions, sqrt)

    assert 0 <= low <= high <= 1
    assert low <= clicks / impressions + 1e-12
    assert high >= clicks / impressions - 1e-12
    assert (low == 0) == (clicks == 0)
    assert (high == 1) == (clicks == impressions)


def test_no_click_and_nothing_but_clicks_can_be_drawn_for_every_number_of_impressions():
    rows = [rated(clicks, n) for n in range(1, 1500) for clicks in {0, n}]

    below, above = plots._reach(rows)

    assert min(below + above) >= 0
    # What another program computed may be a hair inside the rate, as rounding left it in updates of before.
    inside = {**rated(0, 29), "ctr_low": 3e-18}
    assert plots.click_through_rates([inside, rated(29, 29)], title="").startswith(b"\x89PNG")
    assert plots.days([inside, {**rated(1, 2), "day": "2019-11-25"}], title="").startswith(b"\x89PNG")


@pytest.mark.parametrize(("count", "every"), [(1, 1), (16, 1), (30, 2), (365, 23)])
def test_the_plot_of_many_days_has_only_as_many_dates_as_can_be_read(monkeypatch, count, every):
    drawn = []
    monkeypatch.setattr(plots, "_png", lambda figure, *_: drawn.append(figure) or b"")
    days = [str(date(2019, 1, 1) + timedelta(days=number)) for number in range(count)]

    plots.days([{**rated(1, 2), "day": day} for day in days], title="")

    shown = [label.get_text() for label in drawn[0].axes[1].get_xticklabels()]
    assert shown == days[::every]


def test_the_plot_has_a_gap_for_a_day_without_figures(monkeypatch, feed):
    drawn = []
    monkeypatch.setattr(plots, "days", lambda rows, **_: drawn.extend(rows) or b"")

    days_picture(day_figures(feed, now=NOW))

    assert [(row["day"], row["ctr"] is None) for row in drawn] == [
        ("2019-11-24", False),
        ("2019-11-25", True),
        ("2019-11-26", False),
    ]


@given(counts())
@example((0, 1))
def test_a_percentage_is_written_in_one_way_and_says_something_of_every_share(count: tuple[int, int]):
    share = count[0] / count[1]
    text = percent(share)

    number, unit = text.split(" ")
    assert unit == "%"
    assert abs(float(number) / 100 - share) <= 0.00005
    assert (float(number) > 0) == (share > 0) or share < 1e-8
    assert interval(share, share) == f"{number} - {text}"


@pytest.fixture
def feed(tmp_path):
    """Two days of effectiveness with a day missing between; of one an input has had a rejected update, too."""
    board = open_blackboard(str(tmp_path / "base"))
    ads, feed = Feed(board, "clean-ads/v1.0"), Feed(board, "ad-effectiveness/v1.0")
    for number, day in enumerate(DAYS, start=1):
        path = tmp_path / f"{day}.parquet"
        low, high = wilson_interval(number, 100, sqrt)
        duckdb.sql(
            f"""COPY (SELECT 'a<b>' AS ad_id, 'c' AS campaign_id, NULL AS advertiser, 100::BIGINT AS impressions,
            50::BIGINT AS users, {number}::BIGINT AS clicks, {number / 100}::DOUBLE AS ctr, {low}::DOUBLE AS ctr_low,
            {high}::DOUBLE AS ctr_high, 1.5::DECIMAL(28,6) AS cost, 0.5::DECIMAL(28,6) AS cost_per_click,
            3.5::DOUBLE AS median_seconds_to_click, 2::BIGINT AS orphan_clicks) TO '{path}'"""
        )
        rows = Rows(read=110, published=100, quarantined=8, duplicates=2, reasons={"quarantined_missing_ad_id": 8})
        read = publish_files(ads, day, [path], now=NOW, owner="t", facts=Facts(rows=rows))
        inputs = (FeedInput("clean-ads/v1.0", day, read.name),)
        publish_files(feed, day, [path], now=NOW, owner="t", facts=Facts(inputs=inputs))
    staged = stage(claim(ads, DAYS[1], now=NOW, owner="t"), (), Facts(), now=NOW)
    reject(staged, reason="enough: rows 0", now=NOW)
    return feed


def test_the_totals_are_those_of_all_days_together(feed):
    days = day_figures(feed, now=NOW)
    total = totals(days)

    assert (total.impressions, total.clicks, total.orphan_clicks) == (200, 3, 4)
    assert (total.ctr_low, total.ctr_high) == wilson_interval(3, 200, sqrt)
    assert Decimal(total.cost) == Decimal("3.0")
    assert total.day == "2019-11-24 to 2019-11-26"
    assert totals([]).ctr is None


def test_the_page_says_period_totals_gaps_what_was_left_out_and_how_it_was_made(feed):
    written = page(feed, list(DAYS), now=NOW)
    text = " ".join(written.split())

    for part in (
        "2019-11-24 to 2019-11-26 (UTC), 2 days",
        "<dd>200</dd>",
        "1.50 %<small>0.51 - 4.32 %",
        "<strong>Without figures:</strong> 2019-11-25.",
        "Of 220 records read for these days, 16 (7.27 %) could not be used and 4 (1.82 %) had been sent before.",
        "<td>rejected</td><td>enough: rows 0</td>",
        "2019-12-01 00:00 UTC, by feed_assets",
        '<a href="#ads-2019-11-24">',
        "a&lt;b&gt;",
    ):
        assert part in text, part
    assert not re.search(r"(src|href)=.(?!#)|url\(|@import", written)
    assert written.count("<details>") == 2


@pytest.mark.parametrize("names", [["week-47"], ["week-47", *DAYS], [""]])
def test_the_page_shows_partitions_that_are_no_days_too(feed, names):
    update = require_latest(feed, DAYS[0], now=NOW)
    other = feed
    if names == [""]:
        other = Feed(feed.blackboard, "effectiveness-without-days")
    copied = [Path(unquote(urlsplit(uri).path)) for uri in update.uris()]
    publish_files(other, names[0] or None, copied, now=NOW, owner="t", facts=Facts())

    figures = day_figures(other, now=NOW)
    shown = [each.day for each in figures]
    written = page(other, names, now=NOW)

    assert set(names) <= set(shown)
    assert written.count("<details") == len(names) if len(names) > 1 else "a&lt;b&gt;" in written
    assert ("2019-11-25." in written) == (len(names) > 1)


def test_the_page_of_one_day_shows_its_ads_at_once(feed):
    written = page(feed, [DAYS[0]], now=NOW)

    assert "<details>" not in written
    assert "The most shown of 1 ads" in written
    assert written.count('class="interval"') == 1


@pytest.mark.parametrize("names", [DAYS[:1], DAYS])
def test_each_table_of_ads_says_what_orange_means_so_that_a_printed_day_does(feed, names):
    written = page(feed, list(names), now=NOW)

    tables = written.split("<th>Ad</th>")[1:]
    assert len(tables) >= 1
    for table in tables:
        assert '</table></div>\n<p class="note">Orange:' in table
