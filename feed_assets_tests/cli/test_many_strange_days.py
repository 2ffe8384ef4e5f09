"""`explain` where thousands of days wait, as after a wrong unit of time: a line for all of them."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from feed_assets_tests.harness import SHOP_ADS, write_sources


@pytest.fixture
def base(tmp_path, monkeypatch):
    for name, value in {
        "BASE": tmp_path / "base",
        "SOURCES": write_sources(tmp_path / "sources", SHOP_ADS),
        "FIRST_DAY": "2010-01-01",
    }.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", str(value))
    return tmp_path / "base"


def fill(base, first, count, step=1):
    for number in range(count):
        day = date.fromisoformat(first) + timedelta(days=number * step)
        path = base / f"raw/ads/shop_ads/{day}/05/other.parquet"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")


def test_many_days_that_no_sensor_asks_for_share_a_line_and_a_command(run, base):
    fill(base, "2010-01-01", 300, step=3)
    fill(base, "1999-01-01", 60)
    fill(base, "2019-11-29", 1)

    lines = " ".join(run("explain").stdout.split())

    assert "ads/shop_ads 2010-01-01 to 2012-06-16: 300 days with 300 files; outside the lookback" in lines
    assert "ads/shop_ads 1999-01-01 to 1999-03-01: 60 days with 60 files; before the first partition" in lines
    assert lines.count("Are the times of ads/shop_ads right? So many days are often a wrong unit of time") == 1
    assert "`feed-assets backfill --from 2010-01-01 --to 2012-06-16` makes 300 days outside the lookback" in lines
    assert "ads/shop_ads 2019-11-29: " in lines
    assert "2010-01-04" not in lines


def test_a_few_days_are_named_one_by_one(run, base):
    fill(base, "2010-01-01", 3, step=3)

    lines = " ".join(run("explain").stdout.split())

    assert all(f"ads/shop_ads 2010-01-{day}: " in lines for day in ("01", "04", "07"))
    assert lines.count("feed-assets backfill --from") == 3
