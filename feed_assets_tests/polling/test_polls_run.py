"""Polls by their schedules in Dagster and by the command, with Spark: sources by configuration only."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from uuid import uuid4

import dagster as dg
import pytest
from click.testing import CliRunner
from dagster._core.test_utils import create_run_for_test

from feed_assets.ads.definitions import build_definitions
from feed_assets.ads.schemas import KINDS
from feed_assets.cli.main import main
from feed_assets.project.assembly import PROJECT
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_source
from feed_assets.sources.raw import raw_days, raw_frame
from feed_assets.sources.source_errors import LandingError
from feed_assets.sources.spec import SpecError
from feed_assets_tests.harness import AS_OF, SHOP_CLICKS, settings_below
from feed_assets_tests.polling.partners import KEY, describe, send

FILES = ["2019-11-28/a.csv", "2019-11-28/c.csv"]


@pytest.fixture
def environment(tmp_path, monkeypatch):
    values = {"BASE": tmp_path / "base", "SOURCES": tmp_path / "sources", "AS_OF": AS_OF.isoformat()}
    for name, value in {**values, "SPARK_MASTER": "local[2]", "FIRST_DAY": "2019-11-20"}.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", str(value))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    (tmp_path / "base").mkdir()


@pytest.fixture
def instance():
    """A Dagster on disk, which contexts of schedules want."""
    with dg.instance_for_test() as instance:
        yield instance


def rows(spark, board, source):
    days = raw_days(board, [source.key], date.min, date.max)
    return Counter(
        (str(day), row.id) for (_, day), read in days.items() for row in raw_frame(spark, board, source, read).collect()
    )


def test_the_schedule_of_a_polled_source_runs_by_its_cron_takes_each_file_once_and_replaces_what_is_sent_anew(
    spark, tmp_path, outbox, instance, environment
):
    source = describe(tmp_path / "sources" / "shop_ads.yaml", outbox)
    settings = settings_below(tmp_path / "base", tmp_path / "sources")
    defs = build_definitions(settings)
    schedule = defs.resolve_schedule_def("poll_ads_shop_ads")
    board = defs.resources["blackboard"].blackboard

    def run():
        job = defs.resolve_job_def("poll_ads_shop_ads")
        return job.execute_in_process(instance=instance, raise_on_error=False)

    send(outbox, "2019-11-28/a.csv", "1", "2")
    send(outbox, "2019-11-28/b.csv", "1", day="2019-11-27")
    first = run()
    seen = rows(spark, board, source)
    second = run()
    send(outbox, "2019-11-28/a.csv", "3", day="2019-11-29")
    (outbox / "2019-11-28" / "c.csv").write_text("id,when\n1,2019-11-28\n", encoding="utf-8")
    third, fourth = run(), run()

    assert (schedule.cron_schedule, schedule.default_status) == ("*/15 * * * *", dg.DefaultScheduleStatus.RUNNING)
    with dg.build_schedule_context(instance, datetime(2019, 12, 1, 12, 15, tzinfo=UTC)) as context:
        assert len(schedule.evaluate_tick(context).run_requests) == 1
    assert (first.success, second.success, third.success, fourth.success) == (True, True, False, True)
    assert seen == {("2019-11-28", "1"): 1, ("2019-11-28", "2"): 1, ("2019-11-27", "1"): 1}
    assert rows(spark, board, source) == {("2019-11-29", "3"): 1, ("2019-11-27", "1"): 1}
    (failure,) = [each for each in third.all_events if each.is_step_failure]
    assert "failed: 2019-11-28/c.csv:1: the header lacks" in failure.step_failure_data.error.message
    assert metadata(second) == {"seen": 2, "taken": [], "replaced": [], "records": 0}
    outcome = failure.step_failure_data.user_failure_data.metadata
    assert outcome["replaced"].value == ["2019-11-28/a.csv"]

    # The 28th has an empty file now, so that the day is processed again. All can land again from what was kept.
    assert (date(2019, 11, 28)) in {day for _, day in raw_days(board, [KEY], date.min, date.max)}
    corrected = source.model_copy(update={"null_tokens": ("none",)})
    (outbox / "a.csv").write_text("id,time,ad\n", encoding="utf-8")
    with pytest.raises(
        LandingError, match=r"does not end as \{yyyy\}-\{mm\}-\{dd\}/\*\.csv .*by which files of ads/shop_ads"
    ):
        land(spark, board, corrected, outbox / "a.csv", now=AS_OF)
    again = land(spark, board, corrected, outbox / "2019-11-28" / "a.csv", now=AS_OF, again=True)
    assert (again.file, again.generation, again.already_landed) == ("2019-11-28/a.csv", 3, False)
    assert rows(spark, board, source) == {("2019-11-29", "3"): 1, ("2019-11-27", "1"): 1}


def metadata(result):
    (output,) = [each for each in result.all_events if each.is_successful_output]
    found = {name: each.value for name, each in output.step_output_data.metadata.items()}
    return {name: found[name] for name in ("seen", "taken", "replaced", "records")}


def test_a_run_names_a_hundred_files_that_fail_and_counts_the_others(tmp_path, outbox, dagster_instance, environment):
    describe(tmp_path / "sources" / "shop_ads.yaml", outbox, "{yyyy}-{mm}-{dd}/*/*/*/*/*.csv")
    too_long = "/".join(letter * 250 for letter in "abcd")
    for number in range(130):
        send(outbox, f"2019-11-28/{too_long}/{number:03}.csv")
    job = build_definitions(settings_below(tmp_path / "base", tmp_path / "sources")).resolve_job_def(
        "poll_ads_shop_ads"
    )

    result = job.execute_in_process(instance=dagster_instance, raise_on_error=False)

    (failure,) = [each.step_failure_data for each in result.all_events if each.is_step_failure]
    outcome = failure.user_failure_data.metadata
    assert (outcome["seen"].value, outcome["failed in all"].value, len(outcome["failed"].value)) == (130, 130, 100)
    assert failure.error.message.count("longer than 1024 bytes") == 100
    assert "130 files of ads/shop_ads failed: " in failure.error.message
    assert "and 30 more, which `feed-assets poll ads/shop_ads` names" in failure.error.message


def test_dagster_loads_the_schedules_of_several_polled_sources(tmp_path, outbox):
    shop, mall = (tmp_path / "sources" / f"{name}.yaml" for name in ("shop_ads", "mall_ads"))
    describe(shop, outbox)
    mall.write_text(shop.read_text(encoding="utf-8").replace("shop_ads", "mall_ads"), encoding="utf-8")
    defs = build_definitions(settings_below(tmp_path / "base", tmp_path / "sources"))
    dg.Definitions.validate_loadable(defs)
    assert {"poll_ads_shop_ads", "poll_ads_mall_ads"} <= {each.name for each in defs.schedules}


def test_a_tick_while_a_poll_goes_on_is_skipped_and_the_next_one_runs(tmp_path, outbox, instance):
    describe(tmp_path / "sources" / "shop_ads.yaml", outbox)
    defs = build_definitions(settings_below(tmp_path / "base", tmp_path / "sources"))
    schedule = defs.resolve_schedule_def("poll_ads_shop_ads")

    def tick(minute):
        at = datetime(2019, 12, 1, 12, minute, tzinfo=UTC)
        with dg.build_schedule_context(instance, at) as context:  # left open, it is collected in another test
            return schedule.evaluate_tick(context)

    (request,) = tick(0).run_requests
    run = create_run_for_test(
        instance, job_name=schedule.job_name, status=dg.DagsterRunStatus.STARTED, tags=request.tags
    )
    skipped = tick(15)
    instance.report_run_failed(run)

    assert skipped.run_requests == []
    assert skipped.skip_message == (
        f"Run {run.run_id} goes on. Nothing is lost: the next poll fetches all files that are there."
    )
    assert len(tick(30).run_requests) == 1


def test_a_cron_that_is_none_stops_its_source_with_a_message_with_its_line(tmp_path, outbox):
    describe(tmp_path / "sources" / "shop_ads.yaml", outbox, every="at noon")
    project = build_definitions(settings_below(tmp_path / "base", tmp_path / "sources")).resources[PROJECT]
    (source,) = project.sources
    with pytest.raises(
        SpecError, match=r"shop_ads\.yaml:\d+: poll\.every: 'at noon' is no schedule; write five fields"
    ):
        source.require_usable()


def test_the_command_polls_all_sources_and_says_what_it_took_left_and_could_not_take(
    spark, tmp_path, outbox, environment
):
    describe(tmp_path / "sources" / "shop_ads.yaml", outbox, settle_seconds=60)
    other = tmp_path / "sources" / "shop_clicks.yaml"
    place = "poll: {place: /typo, pattern: '*.csv', every: '0 * * * *'}\n"
    other.write_text(SHOP_CLICKS + place, encoding="utf-8")
    assert load_source(other, KINDS).poll.lookback_days == 7
    send(outbox, "2019-11-28/a.csv", "1", "2")
    send(outbox, "2019-11-28/b.csv", "3", time=None)
    send(outbox, "2019-11-28/c.csv", "4", day="2019-11-21")

    def poll(*arguments, code):
        result = CliRunner().invoke(main, ["poll", *arguments], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    both = poll("--json", code=1)
    (took,) = json.loads(both.stdout)
    again = poll("shop_ads", code=0)

    assert (took["source"], took["seen"], took["taken"], took["records"]) == (KEY, 3, FILES, 3)
    message = "1 record in 2019-11-21 (1) is older than the lookback of 7 days. No sensor will process these days."
    assert message in both.stderr.replace("\n", " ")
    assert "Error: clicks/shop_clicks: /typo is no directory; create it" in both.stderr
    assert "b.csv is left: it changed at" in both.stderr
    assert again.stdout.split() == [
        *("source", "seen", "taken", "replaced", "same", "left", "failed", "refused", "ignored"),
        *("records", "quarantined"),
        *(KEY, "3", "0", "0", "0", "1", "0", "0", "0", "0", "0"),
    ]
    assert "There is no source 'shop' with a field `poll`. There are: ads/shop_ads, clicks/shop_clicks" in poll(
        "shop", code=2
    ).stderr.replace("\n", " ")
    assert "FEED_ASSETS_POLL_TABLE names no table" in poll("reindex", code=1).stderr


def test_the_command_makes_the_table_anew(tmp_path, outbox, environment, monkeypatch):
    from moto import mock_aws  # noqa: PLC0415 - slow to load

    describe(tmp_path / "sources" / "shop_ads.yaml", outbox)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    table = f"polled-{uuid4().hex}"
    monkeypatch.setenv("FEED_ASSETS_POLL_TABLE", table)
    with mock_aws():
        missing = CliRunner().invoke(main, ["poll"], catch_exceptions=False)
        made = CliRunner().invoke(main, ["poll", "reindex"], catch_exceptions=False)
        polled = CliRunner().invoke(main, ["poll"], catch_exceptions=False)
    assert (missing.exit_code, made.exit_code, polled.exit_code) == (1, 0, 0)
    assert "Make it with `feed-assets poll reindex`" in missing.stderr.replace("\n", " ")
    assert made.stderr == f"{table} has 0 files of 1 source.\n"


def test_commands_list_ignore_and_release_what_polls_leave_alone_without_spark(tmp_path, outbox, environment):
    describe(tmp_path / "sources" / "shop_ads.yaml", outbox, pattern="*", lookback_days=3650)
    for name in ("a.xlsx", "b.csv.xz"):
        send(outbox, name)

    def poll(*arguments, code=0):
        result = CliRunner().invoke(main, ["poll", *arguments], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    first, second = poll(code=1), poll()
    held = json.loads(poll("held", "--json").stdout)
    poll("ignore", "shop_ads", "a.xlsx", "--reason", "a picture of it")
    poll("release", "shop_ads", "b.csv.xz")
    absent = poll("release", "shop_ads", "b.csv.xz", code=1)
    third = poll("--json", code=1)

    assert first.stderr.count("Error: ads/shop_ads: ") == 2
    assert "ads/shop_ads: 2 files failed before, and did not change: `feed-assets poll held ads/shop_ads`" in (
        second.stderr.replace("\n", " ")
    )
    assert [(each["file"], each["ignored"], each["final"]) for each in held] == [
        ("a.xlsx", False, True),
        ("b.csv.xz", False, True),
    ]
    assert "b.csv.xz of ads/shop_ads is not held back" in absent.stderr
    (polled,) = json.loads(third.stdout)
    assert (polled["ignored"], list(polled["failed"]), polled["refused"]) == (["a.xlsx"], ["b.csv.xz"], [])
    assert "is no file of ads/shop_ads: its pattern is *" in poll("ignore", "shop_ads", "x/y", code=2).stderr
