"""`feed-assets deps mark`, `unmark`, `marks`, and what `explain` says about bad data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from feed_assets_tests.harness import ADS, DAY, NEXT_DAY, Installation
from feed_assets_tests.plain_flows import publish_attempts

HOUR = f"{DAY}T15"


@pytest.fixture
def gated(triggered: Installation) -> Installation:
    """An installation whose assets have triggers, and whose raw ads are complete."""
    return triggered


def test_a_mark_holds_the_flow_and_explain_says_why_and_how_it_came_there(gated, run) -> None:
    gated.tick("starts")
    made = json.loads(run("deps", "mark", "raw/ads", HOUR, "--member", "shop_ads", "--reason", "bots", "--json").stdout)
    assert made == {
        "id": made["id"],
        "slot": f"raw/ads shop_ads hour {HOUR}:00Z",
        "revision": 1,
        "evidence": "",
        "by": "person ann",
        "at": "2019-12-01T12:00:00+00:00",
        "reason": "bots",
    }

    shown = " ".join(run("deps", "explain", "clean_ads", DAY).output.split())
    assert f"held by quality: raw/ads - day {DAY} is bad: bots (person ann, mark {made['id']})" in shown
    assert f"- bots (person ann, mark {made['id']}), on raw/ads shop_ads hour {HOUR}:00Z, revision 1." in shown
    explained = json.loads(run("deps", "explain", "clean_ads", DAY, "--json").stdout)
    (raw,) = explained["inputs"]
    assert (explained["may_start"], raw["quality"], raw["marks"][0]["id"]) == (False, "bad", made["id"])


def test_a_result_that_was_computed_from_bad_data_is_shown_as_bad(gated, run) -> None:
    gated.tick("starts")
    gated.process(details={"revisions": {f"raw/ads - day {DAY}": 1}})
    gated.tick("new_manifests")
    run("deps", "mark", "raw/ads", HOUR, "--reason", "bots", "--evidence", "9 of 10")
    shown = " ".join(run("deps", "explain", "clean_ads", DAY).output.split())
    assert "The update in force, 20191201.000000, is bad:" in shown
    assert f"revision 1, by way of {ADS} - day {DAY}, revision 1 < raw/ads - day {DAY}, revision 1." in shown
    explained = json.loads(run("deps", "explain", "clean_ads", DAY, "--json").stdout)
    (mark,) = explained["marks"]
    assert mark["evidence"] == "9 of 10"
    assert [each["slot"] for each in mark["path"]] == [
        f"{ADS} - day {DAY}",
        f"raw/ads - day {DAY}",
        f"raw/ads - hour {HOUR}:00Z",
    ]


def test_marks_are_listed_and_taken_back_by_their_ids(gated, run) -> None:
    gated.tick("starts")
    run("deps", "mark", "raw/ads", HOUR, "--reason", "bots", "--by", "bob")
    run("deps", "mark", "clean_ads", DAY, "--reason", "prices")
    first, second = json.loads(run("deps", "marks", "--json").stdout)
    assert {(first["by"], first["reason"]), (second["by"], second["reason"])} == {
        ("person bob", "bots"),
        ("person ann", "prices"),
    }
    (bots,) = json.loads(run("deps", "marks", "raw/ads", "--json").stdout)
    assert f"raw/ads - hour {HOUR}:00Z" in run("deps", "marks", "raw/ads").output

    gone = json.loads(run("deps", "unmark", bots["id"], "--reason", "no bots", "--json").stdout)
    assert gone["removed"] == {"by": "person ann", "at": "2019-12-01T12:00:00+00:00", "reason": "no bots"}
    assert json.loads(run("deps", "marks", "raw/ads", "--json").stdout) == []
    assert "held by quality" not in run("deps", "explain", "clean_ads", DAY).output


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (
            ["mark", "raw/ads", "2031-01-01T15", "--reason", "bots"],
            "has not begun: there is no data yet that could be bad",
            1,
        ),
        (
            ["mark", "raw/x", DAY, "--reason", "bots"],
            "'raw/x' is no declared dataset. Declared are: ",
            2,
        ),
        (["mark", "raw/ads", "yesterday", "--reason", "bots"], "'yesterday'", 2),
        (["mark", "raw/ads", "2018-01-01", "--reason", "bots"], "2018-01-01", 2),
        (["mark", "raw/ads", DAY, "--member", "shop", "--reason", "bots"], "shop", 2),
        (["mark", "raw/ads", DAY, "--reason", " "], "The mark needs a reason", 1),
        (["unmark", "x", "--reason", "no"], "No mark has the id x", 1),
        (["marks", "raw/x"], "'raw/x' is no declared dataset", 2),
    ],
)
def test_d40_what_cannot_be_marked_is_refused_with_what_there_is(gated, run, arguments, message, code) -> None:
    result = run("deps", *arguments, code=code)
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert json.loads(run("deps", "marks", "--json").stdout) == []


def test_a_mark_needs_a_reason(gated, run) -> None:
    assert "--reason" in run("deps", "mark", "raw/ads", NEXT_DAY, code=2).output


def test_a_project_without_a_trigger_has_nothing_to_mark(gated, run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_ASSETS_GATE", "0")
    result = run("deps", "mark", "raw/ads", DAY, "--reason", "bots", code=1)
    assert "No asset of this project has a trigger" in result.output
    assert not Path(gated.base / "state.db").exists()


def test_d11_explain_shows_the_rows_of_the_update_in_force_and_the_run_that_made_it(gated, run) -> None:
    gated.tick("starts")
    profile = {"rows": 430, "columns": {"cost": [3, 40, 0.5, 9]}, "times": []}
    update = gated.process(run_id="r1", details={"profile": profile})
    gated.tick("new_manifests")
    shown = " ".join(run("deps", "explain", "clean_ads", DAY).output.split())
    assert f"In force: update {update} has 430 rows, made by run r1." in shown
    assert json.loads(run("deps", "explain", "clean_ads", DAY, "--json").stdout)["output"] == {
        "update": update,
        "run": "r1",
        "rows": 430,
        "columns": {"cost": {"nulls": 3, "distinct": 40, "smallest": 0.5, "largest": 9}},
        "unusual": [],
    }


def test_explain_names_the_inputs_that_may_be_missing(gated, run) -> None:
    shown = " ".join(run("deps", "explain", "ad_effectiveness", DAY).output.split())
    assert f"{ADS} - day {NEXT_DAY} (optional)" in shown
    assert f"{ADS} - day {DAY} (optional)" not in shown


def test_explain_of_a_date_says_what_the_gate_says_of_an_equal_rerun(gated, run) -> None:
    gated.raw_bytes(DAY, {"x": 1000}, "clicks/shop_clicks")
    gated.tick("starts")
    gated.process(kind="clicks")
    gated.process(details={"digest": "d1"})
    gated.tick("new_manifests")
    gated.relate()
    publish_attempts(gated)
    gated.tick("new_manifests")
    gated.process(details={"digest": "d1"})
    gated.tick("new_manifests")
    assert gated.tick("starts").asked == {}
    told = {each["asset"]: each["standing"] for each in json.loads(run("explain", DAY, "--json").stdout)}
    assert told["ad_effectiveness"] == "up to date"
    assert told["clean_ads"] == "up to date"
