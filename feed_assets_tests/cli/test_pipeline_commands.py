"""`land` and `backfill`: from a partner's files to published days, as one types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import dagster as dg
import pytest

from feed_assets.demo.logs import LOG, cut
from feed_assets.file_feed import latest, open_feed
from feed_assets_tests.harness import AS_OF

ROOT = Path(__file__).parents[2]


@pytest.fixture
def base(tmp_path, monkeypatch, spark):
    """An empty installation in a directory of its own, with a warm Spark."""
    del spark
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("FEED_ASSETS_BASE", str(tmp_path / "data"))
    monkeypatch.setenv("FEED_ASSETS_LOG_LEVEL", "CRITICAL")
    return tmp_path / "data"


@pytest.fixture
def two_days_and_a_gap(tmp_path):
    """The real log of 24 and 26 November, without the day between."""
    (tmp_path / "cut").mkdir()
    whole = cut(tmp_path / "cut").on_time.read_text().splitlines(keepends=True)
    kept = [line for line in whole[1:] if ",2019-11-24 " in line or ",2019-11-26 " in line]
    path = tmp_path / "two-days.csv"
    path.write_text("".join([whole[0], *kept]))
    return path


def test_a_file_lands_once_and_adds_nothing_the_second_time(run, base, two_days_and_a_gap):
    (first,) = json.loads(run("land", "open_bandit_ads", two_days_and_a_gap, "--json").stdout)
    (second,) = json.loads(run("land", "ads/open_bandit_ads", two_days_and_a_gap, "--json").stdout)

    assert first["landed"] == first["read"] == 4953 + 3967
    assert second["already_landed"]
    assert len(list(base.glob("raw/ads/open_bandit_ads/*/*/*.parquet"))) == len(first["partitions"])


def test_a_file_that_cannot_land_is_named_and_the_others_land(run, base, two_days_and_a_gap, tmp_path):
    result = run("land", "open_bandit_clicks", tmp_path / "absent.csv", two_days_and_a_gap, code=1)

    assert "absent.csv" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(base.glob("raw/clicks/open_bandit_clicks/*/*/*.parquet"))


def test_a_source_that_is_not_known_is_a_bad_argument_that_names_those_that_are(run, base):
    assert "open_bandit_ads" in run("land", "open_bandits", LOG, code=2).stderr


def test_a_backfill_goes_on_after_a_failed_day_and_ends_with_the_list(run, base, two_days_and_a_gap):
    # A file for each day: one file from the first day to the last would say that there was nothing in between.
    header, *lines = two_days_and_a_gap.read_text().splitlines(keepends=True)
    files = []
    for day in ("2019-11-24", "2019-11-26"):
        files.append(two_days_and_a_gap.with_name(f"{day}.csv"))
        files[-1].write_text("".join([header, *(line for line in lines if f",{day} " in line)]))
    run("land", "open_bandit_ads", *files)
    run("land", "open_bandit_clicks", *files)

    result = run("backfill", "--from", "2019-11-24", "--to", "2019-11-26", code=1)

    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["2019-11-24", "ok"],
        ["2019-11-25", "failed"],
        ["2019-11-26", "ok"],
        ["2019-11-24", "ok"],
        ["2019-11-25", "skipped"],
        ["2019-11-26", "ok"],
    ]
    assert lines[0].split(None, 2)[2].startswith("clean_ads 20191201.")
    assert lines[1].startswith("2019-11-25  failed   clean_ads, clean_clicks: ")
    assert "not_empty" in lines[1]
    assert "1 of 3 days failed: 2019-11-25" in result.stderr
    effectiveness = open_feed(str(base / "ad-effectiveness/v1.0"))
    assert [latest(effectiveness, f"2019-11-{day}", now=AS_OF) is not None for day in (24, 25, 26)] == [
        True,
        False,
        True,
    ]
    with dg.DagsterInstance.get() as instance:
        assert len(instance.get_runs()) == 5

    told = run("explain", "2019-11-25").stdout
    assert "of clean_ads, clean_clicks failed at" in told
    assert "clean_ads not_empty" in told
    (of_ads, *_) = json.loads(run("explain", "2019-11-25", "--json").stdout)
    assert len(of_ads["failed_runs"]) == 1
    assert "failed" not in run("explain", "2019-11-26").stdout


def test_a_backfill_of_selected_assets_makes_no_others(run, base):
    told = run("backfill", "--from", "2019-11-24", "--to", "2019-11-24", "--select", "clean_ad", code=2).stderr
    assert "'clean_ad' is no selection of assets" in told
    assert "clean_ads, clean_clicks, ad_effectiveness" in told
    assert (
        "no selection of assets"
        in run("backfill", "--from", "2019-11-24", "--to", "2019-11-24", "--select", "((", code=2).stderr
    )


def test_a_backfill_of_days_that_do_not_exist_starts_nothing(run, base):
    assert (
        "partitions go from 2019-11-24" in run("backfill", "--from", "2019-11-30", "--to", "2019-12-24", code=2).stderr
    )
    assert "is before" in run("backfill", "--from", "2019-11-30", "--to", "2019-11-24", code=2).stderr


def test_a_report_on_nothing_says_what_to_do(run, base):
    assert "feed-assets backfill" in run("report").stderr
    assert run("report", "--date", "2019-11-24", code=3).stdout == ""


def test_a_report_on_nothing_writes_no_page_and_says_so(run, base, tmp_path):
    page = tmp_path / "report.html"
    for more in ([], ["--json"]):
        told = run("report", "--output", page, *more).stderr
        assert f"{page} is not written" in told
        assert "feed-assets backfill" in told
    assert not page.exists()


def test_a_day_that_does_not_exist_is_told_of_by_the_name_of_the_argument(run):
    told = run("explain", "2019-13-29", code=2).stderr
    assert "Invalid value for 'DATE'" in told


def test_explaining_an_empty_day_says_that_nothing_is_there(run, base):
    assert "no raw data" in run("explain", "2019-11-24").stdout
