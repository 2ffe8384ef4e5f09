"""`feed-assets state check` and `rebuild`: a state database that is lost, and made again from storage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from feed_assets_tests.harness import ADS, DAY, Installation

HOUR = f"{DAY}T15"
COPY = ".dependencies/state"


@pytest.fixture
def gated(triggered: Installation) -> Installation:
    """An installation whose assets have triggers, with a feed, a mark and a waiver."""
    installation = triggered
    installation.process(details={"revisions": {f"raw/ads - day {DAY}": 1}})
    installation.tick("new_manifests")
    installation.tick("starts")
    return installation


def lose(installation: Installation) -> Path:
    """Move the database away."""
    file = Path(installation.settings.state.removeprefix("sqlite:///"))
    away = file.with_name("away")
    away.mkdir()
    for each in file.parent.glob(f"{file.name}*"):
        shutil.move(each, away / each.name)
    return file


def test_after_a_loss_marks_waivers_and_revisions_are_as_before_and_it_says_what_it_cannot_know(gated, run) -> None:
    made = json.loads(run("deps", "mark", "raw/ads", HOUR, "--reason", "bots", "--json").stdout)
    run("deps", "reopen", ADS, DAY, "--reason", "prices")
    run("deps", "waive", "raw/ads", "2019-11-30", "--reason", "cut")
    assert "are equal" in run("state", "check").output
    slots = [run("deps", "slots", name, DAY, "2019-11-30", "--json").stdout for name in ("raw/ads", ADS)]
    marks = run("deps", "marks", "--json").stdout

    lose(gated)
    (said,) = json.loads(run("state", "check", "--json", code=1).stdout)["differences"]
    assert "`state rebuild` makes it again" in said
    shown = run("state", "rebuild").output
    assert "Not known, as it is in no copy:" in shown
    assert "add tokens again" in shown
    assert [run("deps", "slots", name, DAY, "2019-11-30", "--json").stdout for name in ("raw/ads", ADS)] == slots
    assert run("deps", "marks", "--json").stdout == marks
    assert f"mark {made['id']}" in run("deps", "explain", "clean_ads", DAY).output
    assert "are equal" in run("state", "check").output
    assert "has facts of" in run("state", "rebuild", code=1).output
    assert gated.tick("starts").asked == {}


def test_a_new_database_that_the_sensor_began_leaves_the_copy_and_says_so(gated, run) -> None:
    run("deps", "mark", "raw/ads", HOUR, "--reason", "bots")
    before = sorted((gated.base / COPY).iterdir())
    lose(gated)
    gated.tick("starts")
    assert sorted((gated.base / COPY).iterdir()) == before
    result = run("deps", "mark", "raw/ads", HOUR, "--reason", "other")
    assert "Warning: it is done, but not copied to the blackboard yet" in result.stderr
    assert "the copy of another state database" in run("state", "check", code=1).output


LOOKS = [
    ("marks",),
    ("slots", "raw/ads", DAY),
    ("events",),
    ("questions",),
    ("flows",),
    ("backfill", "list"),
    ("explain", "clean_ads", DAY),
    ("attempts", "clean_ads", DAY),
]


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look[0])
def test_whoever_looks_into_a_lost_database_is_told_so_and_how_to_make_it_again(gated, run, look) -> None:
    assert "looks lost" not in run("deps", *look).stderr
    lose(gated)
    told = " ".join(run("deps", *look, "--json").stderr.split())
    assert "knows nothing of" in told
    assert "looks lost or replaced" in told
    assert "`feed-assets state rebuild` makes it again." in told


def test_an_id_that_only_the_lost_database_has_is_refused_with_the_loss(gated, run) -> None:
    mark = json.loads(run("deps", "mark", "raw/ads", HOUR, "--reason", "bots", "--json").stdout)["id"]
    lose(gated)
    for command in ("unmark", "unwaive"):
        assert "looks lost" in run("deps", command, mark, "--reason", "no bots", code=1).stderr


def test_a_database_that_replaced_the_lost_one_is_told_from_it(gated, run) -> None:
    lose(gated)
    gated.tick("starts")
    told = " ".join(run("deps", "marks").stderr.split())
    assert "has a copy of another one. `feed-assets state rebuild` makes it again, once this one is moved away." in told


def test_attempts_before_a_rebuild_are_said_to_be_unknown_and_pauses_have_to_be_made_again(gated, run) -> None:
    run("deps", "pause", "ad_effectiveness", "--reason", "new schema")
    lose(gated)
    assert "which flows were paused: pause them again" in run("state", "rebuild").output
    told = " ".join(run("deps", "attempts", "clean_ads", DAY).stderr.split())
    assert "Attempts before 2019-12-01 12:00 are not known" in told
    assert "looks lost" not in told


def test_the_copy_is_no_feed_and_no_fault(gated, run) -> None:
    assert (gated.base / COPY).is_dir()
    assert COPY not in run("feeds").output
    run("feed", "verify", gated.base / ADS)


def test_a_project_without_a_trigger_writes_no_copy(desk, run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_ASSETS_BASE", str(desk.base))
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(desk.settings.sources_directory))
    monkeypatch.setenv("FEED_ASSETS_GATE", "0")
    monkeypatch.setenv("FEED_ASSETS_STATE", desk.settings.state)
    desk.raw_bytes(DAY, {"x": 1000})
    desk.process()
    desk.tick("new_manifests")
    desk.tick("late_growth")
    assert not (desk.base / ".dependencies").exists()
    for command in ("check", "rebuild"):
        assert "No asset of this project has a trigger" in run("state", command, code=1).output
