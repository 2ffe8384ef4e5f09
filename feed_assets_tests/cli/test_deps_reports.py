"""`feed-assets deps report`, `expect`, `waive`, `unwaive`, `reopen` and `backfill`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from feed_assets.cli.main import main
from feed_assets.dependencies.facts import Ends
from feed_assets_tests.dependencies.datasets import at, topic
from feed_assets_tests.dependencies.datasets import service as service_of
from feed_assets_tests.harness import ADS, DAY, NEXT_DAY, SHOP_ADS, Installation, write_sources

WITNESS = "counts/{yyyy}-{mm}-{dd}.csv"
HOUR = f"{DAY}T15"
MINE = ("--member", "shop_ads")


@pytest.fixture
def gated(desk: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An installation whose ads are counted, with a flow over them."""
    sources = write_sources(tmp_path / "counted", SHOP_ADS + f"complete: {{basis: counted, witness: '{WITNESS}'}}\n")
    settings = replace(desk.settings, gate=True, sources_directory=sources)
    installation = replace(desk, settings=settings, _definitions=None)
    monkeypatch.setenv("FEED_ASSETS_BASE", str(desk.base))
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(sources))
    monkeypatch.setenv("FEED_ASSETS_FIRST_DAY", "2019-11-20")
    monkeypatch.setenv("FEED_ASSETS_GATE", "1")
    monkeypatch.setenv("FEED_ASSETS_STATE", installation.settings.state)
    monkeypatch.setenv("LOGNAME", "ann")
    return installation


def slot(run, start: str = HOUR, dataset: str = "raw/ads") -> dict:
    """What is known of a slot, as `deps slots --json` says it."""
    grain = ("--grain", "hour") if "T" in start else ()
    member = MINE if "T" in start else ()
    found = json.loads(run("deps", "slots", dataset, start[:10], *grain, *member, "--json").stdout)
    return next(each for each in found if each["start"].startswith(start))


def part(name: str, records: int, hour: str = HOUR, **more: object) -> dict:
    return {"dataset": "raw/ads", "member": "shop_ads", "id": name, "object": name, "records": {hour: records}} | more


def report(run, name: str, *more: str, **options: object):
    return run("deps", "report", "raw/ads", "--part", name, "--object", f"s3://raw/{name}", *MINE, *more, **options)


def expect(run, records: int, start: str = HOUR):
    return run("deps", "expect", "raw/ads", start, "--witness", WITNESS, "--records", records, *MINE)


def test_an_hour_is_complete_when_its_parts_have_the_records_that_its_witness_counts(gated, run) -> None:
    assert "is accepted" in expect(run, 1200).output
    assert json.loads(report(run, "a", "--records", f"{HOUR}=1100", "--json").stdout)["status"] == "accepted"
    assert "is known" in report(run, "a", "--records", f"{HOUR}=1100").output
    waiting = slot(run)
    assert (waiting["complete"], waiting["accounted"], waiting["expected"]) == (False, 1100, 1200)

    report(run, "b", "--records", f"{HOUR}=100", "--stream", "0", "--positions", "0-100", "--writer", "w", "--epoch", 1)
    assert slot(run)["complete"]
    shown = report(run, "c", "--records", f"{HOUR}=90", "--replaces", "b").output
    assert "Part c is accepted" in shown
    assert (slot(run)["complete"], slot(run)["revision"], slot(run)["accounted"]) == (False, 2, 1190)


def test_a_part_that_nobody_has_reported_is_not_replaced_and_those_that_there_are_are_named(gated, run) -> None:
    assert "none is known" in report(run, "b", "--records", f"{HOUR}=5", "--replaces", "a", code=1).output
    for name in "abcdefghijkl":
        report(run, name, "--records", f"{HOUR}=5")
    refused = " ".join(report(run, "z", "--records", f"{HOUR}=5", "--replaces", "y", code=1).stderr.split())
    assert "y is no part of raw/ads shop_ads, so it cannot be replaced: those are a, b," in refused
    assert "i, j and 2 more." in refused
    assert slot(run)["accounted"] == 60

    for _ in range(2):  # a command may be repeated
        report(run, "z", "--records", f"{HOUR}=5", "--replaces", "a")
    assert slot(run)["accounted"] == 60


def test_a_file_of_parts_is_answered_line_by_line_and_one_refused_line_fails_the_command(gated, run) -> None:
    good = [part("a", 5), part("b", 6)]
    bad = [part("c", -1), part("d", 1, f"{HOUR}:30Z"), part("e", 1, dataset="raw/none"), part("f", 1, colour="red")]
    text = "\n".join(map(json.dumps, [*good, *bad, 17])) + "\nnonsense\n\n"
    command = ["deps", "report", "--file", "-", "--json"]
    result = CliRunner().invoke(main, command, input=text)
    said = [json.loads(line) for line in result.stdout.splitlines()]
    assert (result.exit_code, [each["status"] for each in said]) == (1, ["accepted"] * 2 + ["refused"] * 6)
    assert [each["line"] for each in said] == [*range(1, 9)]
    assert slot(run)["accounted"] == 11

    result = CliRunner().invoke(main, ["deps", "report", "raw/ads", "--file", "-"], input=json.dumps(good[0]))
    assert (result.exit_code, "1 line known" in result.output) == (0, True)


def test_a_file_of_numbers_takes_what_witnesses_count(gated, run, tmp_path: Path) -> None:
    lines = tmp_path / "numbers.jsonl"
    numbers = [
        {"start": f"{DAY}T{hour:02}", "member": "shop_ads", "witness": WITNESS, "records": 0} for hour in range(24)
    ]
    lines.write_text("\n".join(map(json.dumps, numbers)), encoding="utf-8")
    assert "24 lines accepted" in run("deps", "expect", "raw/ads", "--file", lines).output
    assert slot(run)["complete"]
    lines.write_text(json.dumps(numbers[0] | {"witness": "nobody"}), encoding="utf-8")
    assert "'nobody' is no witness" in run("deps", "expect", "raw/ads", "--file", lines, code=1).output


def test_a_waiver_completes_slots_says_why_and_is_taken_back_by_its_id(gated, run) -> None:
    made = json.loads(
        run("deps", "waive", "raw/ads", HOUR, "--until", f"{DAY}T16", *MINE, "--reason", "cut", "--json").stdout
    )
    assert made["slots"] == [f"raw/ads shop_ads hour {DAY}T{hour}:00Z" for hour in (15, 16)]
    assert (slot(run)["complete"], slot(run)["waived"]) == (True, [f"cut ({made['id']})"])
    assert f"waived: cut ({made['id']})" in run("deps", "slots", "raw/ads", DAY, "--grain", "hour").output
    run("deps", "unwaive", made["id"], "--reason", "it came")
    assert not slot(run)["complete"]
    before = len(json.loads(run("deps", "events", "--json").stdout))
    run("deps", "unwaive", made["id"], "--reason", "it came")
    assert len(json.loads(run("deps", "events", "--json").stdout)) == before


def test_a_slot_is_reopened_and_what_is_not_complete_has_no_revision_to_end(gated, run) -> None:
    gated.process(DAY)
    gated.tick("new_manifests")
    gated.tick("starts")
    (reopened,) = json.loads(run("deps", "reopen", "clean_ads", DAY, "--reason", "prices", "--json").stdout)
    assert reopened == {"slot": f"{ADS} - day {DAY}", "revision": 2, "complete": True}
    assert "Nothing of " in run("deps", "reopen", "clean_ads", NEXT_DAY, "--reason", "prices", code=1).output


def test_a_bad_slot_that_is_backfilled_is_not_bad_and_not_passed(gated, run) -> None:
    expect(run, 5)
    report(run, "a", "--records", f"{HOUR}=5")
    run("deps", "mark", "raw/ads", HOUR, *MINE, "--reason", "bots")
    command = ("deps", "backfill", "open", "raw/ads", HOUR, *MINE, "--reason", "again")
    opened = json.loads(run(*command, "--json").stdout)
    assert (slot(run)["complete"], slot(run)["flags"]) == (False, ["backfill"])
    assert f"raw/ads shop_ads hour {HOUR}:00Z" in run("deps", "backfill", "list").output
    run(*command, code=1)
    run("deps", "backfill", "close", "raw/ads", f"{DAY}T16", *MINE, "--reason", "done", code=1)

    report(run, "b", "--records", f"{HOUR}=5", "--replaces", "a")
    close = ("deps", "backfill", "close", "raw/ads", f"{DAY}T14", HOUR, *MINE, "--reason", "done")
    (closed,) = json.loads(run(*close, "--json").stdout)
    assert (closed["id"], closed["closed"]["by"], closed["abandoned"]) == (opened["id"], "person ann", False)
    assert (slot(run)["complete"], slot(run)["revision"], slot(run)["quality"]) == (True, 2, "backfilled")
    assert json.loads(run("deps", "backfill", "list", "--json").stdout) == []


PART = ["report", "raw/ads", "--part", "a", "--object", "x", *MINE]
NUMBER = ["--witness", WITNESS, "--records", "5", *MINE]


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["report", "raw/x", *PART[2:], "--records", f"{HOUR}=1"], "'raw/x' is no declared dataset", 2),
        ([*PART, "--records", f"{HOUR}:30Z=1"], "is not on its grain: use 2019-11-24T15:00Z", 2),
        ([*PART, "--records", f"{HOUR}=-1"], "a count cannot be negative", 1),
        ([*PART, "--records", "2019-12-01T13=1"], "is later than the store's time", 1),
        ([*PART, "--records", "2018-01-01T13=1"], "does not deliver at", 2),
        ([*PART[:-1], "nobody", "--records", f"{HOUR}=1"], "nobody", 2),
        ([*PART, "--records", f"{HOUR}=1", "--positions", "9-9"], "a range of positions is empty", 1),
        (["report", ADS, *PART[2:-2], "--records", f"{HOUR}=1"], "is no start of the grain day", 2),
        (["report", ADS, *PART[2:-2], "--records", f"{DAY}=1"], "takes no parts and numbers", 1),
        (["expect", "raw/x", HOUR, *NUMBER], "'raw/x' is no declared dataset", 2),
        (["expect", "raw/ads", f"{HOUR}:30", *NUMBER], "is not on its grain", 2),
        (["expect", "raw/ads", HOUR, *NUMBER[:2], "--records", "-5", *MINE], "a count cannot be negative", 1),
        (["expect", "raw/ads", HOUR, "--witness", "me", *NUMBER[2:]], "is no witness", 1),
        (["expect", "raw/ads", DAY, *NUMBER], "is no base slot", 1),
        (["waive", "raw/x", DAY, "--reason", "r"], "'raw/x' is no declared dataset", 2),
        (["waive", "raw/ads", f"{HOUR}:30Z", "--reason", "r"], "is not on its grain", 2),
        (["waive", "raw/ads", DAY, "--until", "2019-11-23", "--reason", "r"], "exchange them", 1),
        (["waive", "raw/ads", DAY, "--reason", " "], "needs a reason", 1),
        (["unwaive", "x", "--reason", "r"], "There is no waiver x", 1),
        (["reopen", "raw/ads", DAY, "--reason", " "], "reason", 1),
        (["reopen", "raw/x", DAY, "--reason", "r"], "'raw/x' is no declared dataset", 2),
        (["backfill", "open", "raw/ads", DAY, "--reason", "r"], "was never complete", 1),
        (["backfill", "close", "raw/ads", DAY, "--reason", "r"], "No open backfill", 1),
    ],
)
def test_bad_input_is_refused_with_what_to_do_and_changes_nothing(gated, run, arguments, message, code) -> None:
    result = run("deps", *arguments, code=code)
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert json.loads(run("deps", "events", "--json").stdout) == []


def test_a_part_with_other_content_is_refused_and_changes_nothing(gated, run) -> None:
    report(run, "a", "--records", f"{HOUR}=5")
    result = report(run, "a", "--records", f"{HOUR}=6", code=1)
    assert "was reported with other content before" in result.output
    assert json.loads(report(run, "a", "--records", f"{HOUR}=6", "--json", code=1).stdout)["status"] == "refused"
    assert slot(run)["accounted"] == 5


def test_end_positions_of_a_clock_an_hour_ahead_are_refused(database: str) -> None:
    declared = topic(basis="covered")
    dependencies = service_of(database, declared)
    hour = declared.dataset.slot("2026-11-27T15:00Z", grain=declared.dataset.base)
    now = at("2026-11-27T16:00")
    (outcome,) = dependencies.expect([Ends(hour, {"0": 5}, at("2026-11-27T17:00"))], now=now)
    assert (outcome.status, "Check the clock of the reporting machine" in outcome.message) == ("refused", True)
    assert dependencies.newest() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report"], "DATASET is missing"),
        (["report", "raw/ads"], "--part is missing"),
        ([*PART, "--records", HOUR], "is no slot with its records"),
        ([*PART, "--records", f"{HOUR}=1", "--records", f"{HOUR}=2"], "names 2019-11-24T15 twice"),
        ([*PART, "--positions", "5"], "is no range of positions"),
        ([*PART, "--epoch", "5"], "--epoch needs --writer"),
        ([*PART, "--equal-to"], "--equal-to needs --replaces"),
        ([*PART, "--file", "-"], "comes from the lines"),
        (["expect", "raw/ads", HOUR], "--witness is missing"),
        (["report", "--file", "nothing.jsonl"], "No such file"),
        (["waive", "raw/ads", DAY], "--reason"),
    ],
)
def test_a_command_that_is_not_whole_says_what_is_missing(gated, run, arguments, message) -> None:
    assert message in " ".join(run("deps", *arguments, code=2).output.split())


def test_a_shell_completes_the_names_of_datasets(gated, run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"COMP_WORDS": "feed-assets deps waive raw/", "COMP_CWORD": "3", "_FEED_ASSETS_COMPLETE": "bash_complete"}
    result = CliRunner().invoke(main, [], env=words, prog_name="feed-assets")
    assert result.output.split() == ["plain,raw/ads"]
