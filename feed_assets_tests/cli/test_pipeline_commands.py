"""`land` and `backfill`: from a partner's files to published days, as one types it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from feed_assets.ads.demo.logs import LOG, cut
from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.engine.duckdb_sql import rows_of
from feed_assets.engine.session import QUICKLY
from feed_assets.file_feed import latest, open_feed
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_sources
from feed_assets_tests import ROOT
from feed_assets_tests.harness import AS_OF
from feed_assets_tests.waiting import HANGS


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


def rows(feed: Path, day: str) -> list[str]:
    """The rows in force of a day, as texts in order."""
    update = latest(open_feed(str(feed)), day, now=AS_OF)
    assert update is not None
    relation = rows_of([feed / day / update.name / file.path for file in update.files])
    return sorted(map(str, duckdb.sql(f"SELECT * FROM {relation}").fetchall())) if relation else []


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


SHOP = """\
name: shop
kind: ads
format: {type: csv, header: true}
columns:
  event_time: to_timestamp(time)
  ad_id: ad
identity: [id]
growth_threshold_percent: 5
lookback_days: 3
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A description of a source, to be changed, and a log of good and bad records of recent and of old days."""
    description = tmp_path / "sources" / "shop.yaml"
    description.parent.mkdir()
    description.write_text(SHOP)
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(description.parent))
    log = tmp_path / "day 100%.csv"
    log.write_text(
        "id,time,ad\n"
        "1,2019-11-30 05:00:00,a\n"
        "2,2019-11-30 06:00:00,a,and more\n"
        "3,2019-11-25 05:00:00,a\n"
        "4,2019-11-25 06:00:00,a\n"
        "5,2019-10-20 05:00:00,a\n"
        "6,never,a\n"
        "7,2019-12-03 00:00:00,a\n"
    )
    return description, log


def test_a_source_is_tried_on_a_file_and_nothing_lands(run, base, shop):
    _, log = shop

    result = run("sources", "try", "shop", log)
    trial = json.loads(run("sources", "try", "ads/shop", log, "--json").stdout)

    assert [line.split()[:5] for line in result.stdout.splitlines()][2] == ["event_time", "timestamp", "6", "0", "1"]
    assert result.stderr.splitlines() == [
        "day 100%.csv: 7 records read; 5 would land, in 5 hours from 2019-10-20 05:00 to 2019-11-30 06:00 UTC.",
        "Landing would quarantine 1 record: event_time in the future. Line 8: 7,2019-12-03 00:00:00,a",
        "Landing would quarantine 1 record: no usable time (event_time unparsable 1). Line 7: 6,never,a",
        "1 malformed record would land, as the event time is readable. Line 3: 2,2019-11-30 06:00:00,a,and more",
        'event_time cannot be read in line 7: {"id":"6","time":"never","ad":"a"}',
    ]
    assert trial["reasons"] == {"event_time unparsable": 1, "event_time in the future": 1}
    assert trial["landing"]["landed"] == 5
    assert {each["name"]: each["filled"] for each in trial["columns"]}["ad_id"] == 7
    assert not (base / "raw").exists()


def test_an_expression_that_drops_zones_is_a_warning_of_its_check_and_of_its_trial(run, base, shop, tmp_path):
    description, _ = shop
    description.write_text(SHOP.replace("to_timestamp(time)", "to_timestamp_ntz(time)"))
    log = tmp_path / "zoned.csv"
    log.write_text("id,time,ad\n1,2019-11-30T05:00:00+02:00,a\n")

    checked, tried = run("sources", "check").stderr, run("sources", "try", "shop", log).stderr

    assert "columns.event_time: to_timestamp_ntz(time) drops a `Z` or an offset such as +02:00" in checked
    assert "Warning: columns.event_time drops the zone of 1 record: " in tried
    assert "2019-11-30T05:00:00+02:00" in tried


def test_a_file_that_a_source_cannot_read_is_an_error_of_its_trial(run, base, shop, tmp_path):
    result = run("sources", "try", "shop", tmp_path / "absent.csv", code=1)

    assert "absent.csv is not a file" in result.stderr
    assert "There are: ads/shop" in run("sources", "try", "mall", tmp_path / "absent.csv", code=2).stderr


def test_landing_says_what_is_bad_and_which_days_nobody_processes(run, base, shop, tmp_path):
    _, log = shop
    copy = Path(shutil.copy(log, tmp_path / "copy.csv"))

    result = run("land", "shop", log, copy)

    assert [line.split() for line in result.stdout.splitlines()] == [
        ["file", "read", "landed", "filtered", "quarantined", "hours", "note"],
        ["day", "100%.csv", "7", "5", "0", "2", "5"],
        ["copy.csv", "7", "5", "0", "2", "5", "landed", "before"],
    ]
    assert result.stderr.splitlines()[:2] == [
        f"landing 1 of 2: {log} ({log.stat().st_size} B)",
        f"landing 2 of 2: {copy} ({log.stat().st_size} B)",
    ]
    notes = "\n".join(result.stderr.splitlines()[2:])
    assert "day 100%.csv: in quarantine: no usable time (1), event_time in the future (1). " in notes
    assert "day 100%.csv: 1 malformed record landed, as the event time was readable. " in notes
    assert (
        "The time is fixed at 2019-12-01 12:00. With FEED_ASSETS_AS_OF=now, `feed-assets land --again ads/shop` lands "
        "records that are in the future now."
    ) in notes
    assert "copy.csv: landed before as day 100%.csv on 2019-12-01 12:00; nothing added." in notes
    assert (
        "Warning: 2 records in 2019-11-25 (2) are older than the lookback of 3 days. "
        "No sensor will process these days. Run `feed-assets backfill --from 2019-11-25 --to 2019-11-25`."
    ) in notes
    assert (
        "Warning: before the first partition, 2019-11-24: 1 record in 2019-10-20 (1). "
        "Set FEED_ASSETS_FIRST_DAY=2019-10-20, then run `feed-assets backfill --from 2019-10-20 --to 2019-10-20`."
    ) in notes


def test_a_landing_that_the_next_one_completes_names_the_days_nobody_processes_too(run, base, shop, tmp_path, spark):
    _, log = shop

    class KilledWhilePublishing(LocalBlackboard):
        def copy(self, source, key):
            if key.startswith("raw/ads/"):
                raise KeyboardInterrupt
            return super().copy(source, key)

    (source,) = load_sources(tmp_path / "sources", KINDS)
    with pytest.raises(KeyboardInterrupt):
        land(spark, KilledWhilePublishing(base), source, log, now=AS_OF)
    three_days_ago = (AS_OF - timedelta(days=3)).timestamp()
    for path in (base / "raw/.staging").rglob("*"):
        os.utime(path, (three_days_ago, three_days_ago))
    (tmp_path / "next.csv").write_text("id,time,ad\n8,2019-11-30 05:00:00,a\n")

    notes = run("land", "shop", tmp_path / "next.csv").stderr

    assert "Completed the interrupted landing of day 100%.csv: 5 records." in notes
    assert "Warning: 2 records in 2019-11-25 (2) are older than the lookback of 3 days." in notes
    assert "Warning: before the first partition, 2019-11-24: 1 record in 2019-10-20 (1)." in notes


def test_what_another_description_landed_is_an_error_until_it_is_landed_again(run, base, shop):
    description, log = shop
    (first,) = json.loads(run("land", "shop", log, "--json").stdout)
    assert first["outside_lookback"] == {"2019-10-20": 1, "2019-11-25": 2}
    description.write_text(SHOP.replace("to_timestamp(time)", "to_timestamp(time) + INTERVAL 1 HOUR"))

    refused = run("land", "shop", log, code=1)

    assert refused.stdout.splitlines()[1].split()[-2:] == ["other", "description"]
    assert (
        "Error: day 100%.csv landed on 2019-12-01 12:00 by another description of ads/shop; nothing added. "
        "`feed-assets land --again ads/shop FILE` replaces its records."
    ) in refused.stderr
    log.unlink()
    (again,) = json.loads(run("land", "shop", "--again", "--json").stdout)
    assert (again["file"], again["generation"], again["landed"]) == ("day 100%.csv", 2, 5)
    assert again["partitions"] == ["2019-10-20/06", "2019-11-25/06", "2019-11-25/07", "2019-11-30/06", "2019-11-30/07"]
    assert "FILE" in run("land", "shop", code=2).stderr


def test_what_was_sent_in_another_format_stays_as_it_landed_and_that_is_said(run, base, shop, tmp_path):
    description, _ = shop
    events = tmp_path / "pushed.jsonl"
    events.write_text('{"id": "9", "time": "2019-11-30 05:00:00", "ad": "a"}\n')
    description.write_text(SHOP.replace("{type: csv, header: true}", "{type: jsonl, columns: [id, time, ad]}"))
    run("land", "shop", events)
    landed = {path: path.read_bytes() for path in (base / "raw/ads").rglob("*.parquet")}
    description.write_text(SHOP)

    failed = run("land", "shop", "--again", code=1)

    assert "Nothing landed." in failed.stderr
    assert "Error: pushed.jsonl: " in failed.stderr
    assert "What these files had landed did not change. A file in another format" in failed.stderr
    assert {path: path.read_bytes() for path in (base / "raw/ads").rglob("*.parquet")} == landed


def test_a_file_whose_raw_files_are_gone_says_so_and_is_landed_again_from_the_copy_that_was_kept(run, base, shop):
    _, log = shop
    run("land", "shop", log)
    gone = sorted((base / "raw/ads/shop/2019-11-25").rglob("*.parquet"))
    for path in gone:
        path.unlink()

    assert (
        f"Warning: raw files of day 100%.csv are gone ({gone[0].as_uri()} and 1 more). Land it again: "
        "`feed-assets land --again ads/shop FILE`, or without FILE from the copy that was kept."
    ) in run("land", "shop", log).stderr
    (again,) = json.loads(run("land", "shop", "--again", "--json").stdout)

    assert (again["file"], again["generation"], again["landed"]) == ("day 100%.csv", 2, 5)
    assert json.loads(run("land", "shop", "--again", "--json").stdout) == []


def test_a_source_that_spark_does_not_take_is_one_error_with_its_line(run, base, shop):
    description, log = shop
    description.write_text(SHOP.replace("ad_id: ad", "ad_id: max(creative)"))

    message = run("land", "shop", log, log, code=1).stderr

    assert message.count("shop.yaml:6: columns.ad_id: Spark does not take 'max(creative)'") == 1
    assert "Traceback" not in message


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

    output = run("explain", "2019-11-25").stdout
    # The reasons stand at the rejected updates, and are not repeated at their run.
    of_ads, of_clicks, _, of_run = output.strip().split("\n\n")
    for story in (of_ads, of_clicks):
        assert story.count("failed not_empty: rows 0") == 1
    assert "of clean_ads, clean_clicks failed at" in of_run
    assert of_run.endswith(", as shown above.")
    (of_ads, *_) = json.loads(run("explain", "2019-11-25", "--json").stdout)
    assert len(of_ads["failed_runs"]) == 1
    assert "failed" not in run("explain", "2019-11-26").stdout
    for more in ([], ["--json"]):
        assert "Without figures, as nothing valid is published: 2019-11-25." in run("report", *more).stderr


def test_a_backfill_of_two_days_at_once_publishes_the_same_rows_as_one_after_the_other(
    run, base, two_days_and_a_gap, tmp_path, monkeypatch
):
    run("land", "open_bandit_ads", two_days_and_a_gap)
    run("land", "open_bandit_clicks", two_days_and_a_gap)
    shutil.copytree(base, tmp_path / "beside")
    period = ("backfill", "--from", "2019-11-24", "--to", "2019-11-26", "--json", "--at-once")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dgiven=1")

    one = json.loads(run(*period, "1", code=1).stdout)
    monkeypatch.setenv("FEED_ASSETS_BASE", str(tmp_path / "beside"))
    two = json.loads(run(*period, "2", code=1).stdout)

    def outcomes(results: list[dict]) -> list[tuple]:
        return sorted((each["day"], each["assets"], each["success"], each["failures"]) for each in results)

    assert os.environ["SPARK_SUBMIT_OPTS"] == f"{QUICKLY} -Dgiven=1", "the days are small"
    assert outcomes(two) == outcomes(one)
    assert {each["day"] for each in one if not each["success"]} == {"2019-11-25"}
    for feed in ("clean-ads", "clean-clicks", "ad-effectiveness"):
        for day in ("2019-11-24", "2019-11-26"):
            alone, beside = (rows(place / feed / "v1.0", day) for place in (base, tmp_path / "beside"))
            assert alone == beside != []


OF_A_COMPANY = """\
spark.sql.adaptive.enabled false
spark.sql.autoBroadcastJoinThreshold -1
spark.sql.caseSensitive true
spark.sql.datetime.java8API.enabled true
spark.sql.decimalOperations.allowPrecisionLoss false
spark.sql.execution.arrow.pyspark.enabled true
spark.sql.files.maxPartitionBytes 20000
spark.sql.files.maxPartitionNum 3
spark.sql.files.maxRecordsPerFile 100
spark.sql.files.minPartitionNum 7
spark.sql.jsonGenerator.ignoreNullFields false
spark.sql.mapKeyDedupPolicy LAST_WIN
spark.sql.optimizer.nestedSchemaPruning.enabled false
spark.sql.parquet.compression.codec gzip
spark.sql.parquet.enableVectorizedReader false
spark.sql.parquet.filterPushdown false
spark.sql.parquet.mergeSchema true
spark.sql.parquet.writeLegacyFormat true
spark.sql.session.timeZone Asia/Tokyo
spark.sql.shuffle.partitions 3
spark.sql.sources.partitionOverwriteMode dynamic
spark.sql.timestampType TIMESTAMP_NTZ
"""
"""Settings of a `spark-defaults.conf` that serve other programs well."""

ALL_IN_ONE_PROCESS = """\
import json, sys
from feed_assets.cli.main import main
for command in json.loads(sys.argv[1]):
    main(command, standalone_mode=False)
"""


def test_what_a_company_sets_for_all_of_its_spark_changes_no_result(run, base, two_days_and_a_gap, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(OF_A_COMPANY)
    elsewhere = {**os.environ, "SPARK_CONF_DIR": str(tmp_path), "FEED_ASSETS_BASE": str(tmp_path / "elsewhere")}
    commands = [
        ("land", "open_bandit_ads", str(two_days_and_a_gap)),
        ("land", "open_bandit_clicks", str(two_days_and_a_gap)),
        ("backfill", "--from", "2019-11-24", "--to", "2019-11-24", "--at-once", "1"),
    ]
    for command in commands:
        run(*command)
    # In one process, as each start of Spark takes ten seconds.
    program = [sys.executable, "-c", ALL_IN_ONE_PROCESS, json.dumps(commands)]
    done = subprocess.run(program, env=elsewhere, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.returncode == 0, done.stderr

    for feed in ("clean-ads", "clean-clicks", "ad-effectiveness"):
        ordinary, other = (rows(place / feed / "v1.0", "2019-11-24") for place in (base, tmp_path / "elsewhere"))
        assert other == ordinary != []


def test_a_backfill_of_selected_assets_makes_no_others(run, base):
    message = run("backfill", "--from", "2019-11-24", "--to", "2019-11-24", "--select", "clean_ad", code=2).stderr
    assert "'clean_ad' is no valid selection of assets" in message
    assert "clean_ads, clean_clicks, ad_effectiveness" in message
    assert (
        "no valid selection of assets"
        in run("backfill", "--from", "2019-11-24", "--to", "2019-11-24", "--select", "((", code=2).stderr
    )


def test_a_backfill_where_nothing_has_landed_says_which_base_it_looked_at(run, base, monkeypatch):
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dgiven=1")
    result = run("backfill", "--from", "2019-11-24", "--to", "2019-11-24", code=1)

    assert result.stdout.splitlines()[0] == (
        "2019-11-24  failed   clean_ads, clean_clicks: clean_ads not_empty: rows 0; clean_clicks not_empty: rows 0"
    )
    assert f"no raw data in {base.as_uri()}" in result.stderr
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dgiven=1", "nothing is known of the days' sizes"
    assert "FEED_ASSETS_BASE" in result.stderr


def test_a_backfill_of_days_that_do_not_exist_starts_nothing(run, base):
    assert (
        "partitions go from 2019-11-24" in run("backfill", "--from", "2019-11-30", "--to", "2019-12-24", code=2).stderr
    )
    assert "is before" in run("backfill", "--from", "2019-11-30", "--to", "2019-11-24", code=2).stderr


def test_a_backfill_before_the_first_partition_says_when_that_is(run, base, monkeypatch):
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "2019-11-01")
    refused = run("backfill", "--from", "2019-10-30", "--to", "2019-10-31", code=2).stderr
    assert "There is no partition 2019-10-30: the first day is 2019-11-24, and today is 2019-11-01." in refused


def test_a_report_on_nothing_fails_and_says_what_to_do(run, base):
    assert "feed-assets backfill" in run("report", code=3).stderr
    assert run("report", "--date", "2019-11-24", code=3).stdout == ""


def test_a_report_on_nothing_writes_no_page_and_says_so(run, base, tmp_path):
    page = tmp_path / "report.html"
    for more in ([], ["--json"]):
        message = run("report", "--output", page, *more, code=3).stderr
        assert f"{page} is not written" in message
        assert "feed-assets backfill" in message
    assert not page.exists()


def test_a_day_that_does_not_exist_is_told_of_by_the_name_of_the_argument(run):
    for command in ("explain", "quarantine"):
        message = run(command, "2019-13-29", code=2).stderr
        assert "Invalid value for 'DATE'" in message


def test_explaining_an_empty_day_says_that_nothing_is_there(run, base):
    explained = run("explain", "2019-11-24")
    assert "no raw data" in explained.stdout
    assert explained.stdout.count("no updates yet") == explained.stdout.count("in force: nothing valid") > 0
