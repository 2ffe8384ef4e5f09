"""`feed-assets late` and the reports in `feed-assets explain`: what came late, day by day and source by source."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dagster import DagsterRunStatus
from dagster._core.test_utils import create_run_for_test

from feed_assets.blackboard.location import open_blackboard
from feed_assets.notices.keeping import keep
from feed_assets.notices.tables import Report
from feed_assets_tests.harness import DAY, NEXT_DAY, Installation

LAST = "2019-11-30"
NOON = datetime(2019, 12, 1, 12, tzinfo=UTC)


@pytest.fixture
def there(desk: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """A day that grew by 10 %, one by 1 %, one as it was processed, and one that was never processed."""
    monkeypatch.setenv("FEED_ASSETS_BASE", str(desk.base))
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(desk.settings.sources_directory))
    monkeypatch.setenv("FEED_ASSETS_FIRST_DAY", "2019-11-20")
    for day in (DAY, NEXT_DAY, LAST):
        desk.raw_bytes(day, {"x": 1000})
        desk.process(day)
    desk.raw_bytes(DAY, {"late": 100})
    desk.raw_bytes(NEXT_DAY, {"late": 10})
    desk.raw_bytes("2019-11-27", {"x": 5}, "clicks/shop_clicks")
    return desk


def test_the_calendar_shows_each_day_of_each_source_with_what_was_sent_and_decided(there, run) -> None:
    rows = {(row["source"], row["day"]): row for row in json.loads(run("late", "--json").stdout)}

    shown = {
        place: (row["sent_bytes"], row["baseline_bytes"], row["growth_percent"], row["decision"])
        for place, row in rows.items()
    }
    assert shown == {
        ("ads/shop_ads", DAY): (1100, 1000, 10, "grown, due"),
        ("ads/shop_ads", NEXT_DAY): (1010, 1000, 1, "below threshold, waits"),
        ("ads/shop_ads", LAST): (1000, 1000, 0, "unchanged"),
        ("clicks/shop_clicks", "2019-11-27"): (5, 0, None, "never processed, due"),
    }
    assert rows["ads/shop_ads", DAY]["update"] == "20191201.000000"
    assert rows["ads/shop_ads", DAY]["rerun"] is None


def test_a_growth_just_below_the_threshold_is_not_shown_as_the_threshold(there, run) -> None:
    there.raw_bytes(LAST, {"more": 99_000})
    there.process(LAST)
    there.raw_bytes(LAST, {"late": 4_999})

    row = next(each for each in json.loads(run("late", "--json").stdout) if each["day"] == LAST)

    assert row["sentence"].startswith(f"ads/shop_ads {LAST}: below threshold, +4.99 % (threshold 5 %)")
    assert row["growth_percent"] == 4.99


def test_the_calendar_names_the_last_rerun_and_can_be_narrowed_to_days_and_sources(there, run) -> None:
    there.process()

    lines = run("late", "--source", "shop_ads", "--days", "7").stdout.splitlines()

    assert lines[0].split() == ["day", "source", "growth", "decision", "sent", "baseline", "re-run", "in", "force"]
    assert lines[1].split()[:8] == [DAY, "ads/shop_ads", "+0", "%", "unchanged", "1,100", "B", "1,100"]
    assert lines[1].endswith("2019-12-01 00:00:01  20191201.000001")
    assert len(lines) == 4
    assert [line.split()[:2] for line in run("late", "--days", "1").stdout.splitlines()[1:]] == [[LAST, "ads/shop_ads"]]
    assert run("late", "--days", "4", "--source", "clicks/shop_clicks").stdout.count("shop_clicks") == 1


@pytest.mark.parametrize("width", [80, 40])
def test_the_calendar_fits_a_terminal_and_breaks_no_date_and_no_name(there, program_on, width) -> None:
    shown = program_on(width, "late")

    for line in shown.splitlines():
        assert len(line) <= width, line
    for part in (DAY, "ads/shop_ads", "+10 %"):
        assert any(part in line for line in shown.splitlines()), (part, shown)


def test_the_calendar_is_written_as_a_picture_and_wrong_arguments_say_what_to_do(there, run, tmp_path: Path) -> None:
    picture = tmp_path / "late.png"
    shown = run("late", "--picture", picture)
    assert f"Written: {picture}" in shown.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")

    assert "is no .png file" in run("late", "--picture", "late.gif", code=2).stderr
    nowhere = run("late", "--picture", tmp_path / "none" / "late.png", code=2)
    assert "none is no directory; make it, or name another" in " ".join(nowhere.stderr.split())
    assert nowhere.stdout == ""
    assert "There is no source 'shop_add'. There are: ads/shop_ads, clicks/shop_clicks." in " ".join(
        run("late", "--source", "shop_add", code=2).stderr.split()
    )
    assert "nothing to show" in run("late", "--source", "shop_clicks", "--days", "1", "--picture", picture).stderr


def test_explaining_a_day_tells_its_reports(there, run) -> None:
    (request,) = [each for each in there.tick("late_growth").requests if each.partition_key == DAY]
    create_run_for_test(
        there.instance,
        status=DagsterRunStatus.FAILURE,
        tags={**request.tags, "dagster/partition": DAY},
        asset_selection=frozenset(request.asset_selection),
    )
    there.tick("late_reports")

    shown = " ".join(run("explain", DAY).stdout.split())
    assert f"Late data for {DAY} failed: ads/shop_ads +10.0 % The run for {DAY} failed" in shown
    assert "clean-ads/v1.0: not computed by this run; 20191201.000000 stays in force." in shown
    stories = {story["asset"]: story for story in json.loads(run("explain", DAY, "--json").stdout)}
    assert [each["result"]["outcome"] for each in stories["clean_ads"]["late_reports"]] == ["failed"]
    assert stories["clean_clicks"]["late_reports"] == []


def test_the_tables_of_a_report_keep_their_columns_on_a_terminal_that_is_too_narrow_for_them(there, program_on) -> None:
    numbers = {"impressions": [1441, 1594], "clicks": [6, 6], "CTR": [0.00416, 0.00376]}
    figures = {
        "by": "campaign_id",
        "ratios": ["CTR"],
        "groups": 2,
        "totals": {"rows": [149, 149], **numbers},
        "movers": [{"group": group, "rows": [9, 9], **numbers} for group in ("all", "women")],
    }
    feed = {"feed": "x/v1.0", "uri": "file:///x", "before": "20191201.000000", "after": "20191201.000001"}
    result = {
        "outcome": "success",
        "run": None,
        "ended": None,
        "feeds": [{**feed, "state": "published", "rows": [149, 149], "figures": figures}],
    }
    request = {"sources": [], "before": {}, "computed": ["x/v1.0"]}
    report = Report("1", str(there.base), DAY, NOON, request, result)
    keep(open_blackboard(str(there.base)), DAY, lambda: [report], now=NOON, owner="a run")

    for width in (80, 200):
        lines = program_on(width, "explain", DAY).splitlines()
        ends = [line.index("1,594 (+10.6 %)") for line in lines if line.lstrip().startswith(("all ", "women "))]
        assert len(ends) == 2, lines
        assert len(set(ends)) == 1, lines
        assert any("CTR: 0.416 % -> 0.376 % (-0.040 points)" in line for line in lines) == (width == 80), lines
