"""Operating a feed: its history, invalidation, holds, removal, faults."""

from __future__ import annotations

import getpass
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.location import open_blackboard
from feed_assets.blackboard.port import UnavailableError
from feed_assets.file_feed import Facts, Feed, claim, open_feed, publish_both, reject, stage, staged_files
from feed_assets.file_feed.quarantine import QUARANTINE, quarantine_of
from feed_assets.file_feed.start_objects import START
from feed_assets_tests.harness import Interposed

Requests = Callable[[], "Counter[str]"]
Run = Callable[..., Result]
Written = Callable[[str, str], Path]
NOON = datetime(2019, 12, 1, 12, tzinfo=UTC)


def listed(run: Run, *arguments: object) -> list[dict[str, Any]]:
    return json.loads(run("feed", "ls", *arguments, "--json").stdout)


def test_ls_tells_the_state_of_every_update(run: Run, written: Written, tmp_path: Path):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    feed = open_feed(str(location))

    def staged():
        claimed = claim(feed, "day", now=NOON, owner="a run")
        feed.blackboard.create(f"{claimed.prefix}a.csv", b"x\n")
        return stage(claimed, staged_files(claimed, 1), Facts(), now=NOON)

    for _ in range(2):
        run("feed", "publish", location, "-p", "day", file)
    run("feed", "invalidate", location, "-p", "day", "--reason", "wrong prices", "--author", "ann")
    reject(staged(), reason="no rows", now=NOON)
    staged()
    unfinished = claim(feed, "day", now=NOON, owner="a run")
    feed.blackboard.create(f"{unfinished.prefix}a.csv", b"x\n")

    rows = listed(run, location)
    assert [(row["update"], row["state"]) for row in rows] == [
        ("20191201.120004", "incomplete"),
        ("20191201.120003", "staged"),
        ("20191201.120002", "rejected"),
        ("20191201.120001", "invalidated"),
        ("20191201.120000", "valid"),
    ]
    assert all(row["why"] for row in rows)
    assert "wrong prices" in rows[3]["why"]
    assert "ann" in rows[3]["why"]
    assert "no rows" in rows[2]["why"]
    assert [row["latest"] for row in rows] == [False] * 4 + [True]
    assert rows == listed(run, location, "--partition", "day") == listed(run, location / "day")
    assert (rows[4]["files"], rows[4]["bytes"]) == (1, 2)


def test_ls_lists_all_partitions_and_those_only_of_the_one_that_is_named(run: Run, written: Written, tmp_path: Path):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    for partition in ("2019-11-25", "2019-11-24"):
        run("feed", "publish", location, "-p", partition, file)
    (location / "notes").mkdir()
    (location / "notes" / "README").write_text("no update")
    assert [row["partition"] for row in listed(run, location)] == ["2019-11-24", "2019-11-25"]
    assert [row["partition"] for row in listed(run, location, "-p", "2019-11-25")] == ["2019-11-25"]


def test_ls_reads_what_holds_updates_once_for_all_partitions(
    run: Run, requests: Requests, written: Written, tmp_path: Path
):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    partitions = [f"2019-11-{day}" for day in range(11, 21)]
    for partition in partitions:
        run("feed", "publish", location, "-p", partition, file)
        run("feed", "tag", location, "-p", partition, "golden")
    requests()
    assert [row["tags"] for row in listed(run, location)] == [["golden"]] * 10
    # For each partition its tag, and its manifest, as tags on a disk do not tell the content; and one listing of each
    # area, of the feed itself, and of what lies above it.
    assert requests() == {"read": 2 * 10, "page": 4 + 1}


def test_ls_of_nothing_fails_and_says_what_is_near(run: Run, written: Written, tmp_path: Path):
    location, file = tmp_path / "base" / "clean-ads" / "v1.0", written("a.csv", "x\n")
    for partition in ("2019-11-24", "2019-11-25"):
        run("feed", "publish", location, "-p", partition, file)

    def message(*arguments: object) -> str:
        result = run("feed", "ls", *arguments, code=3)
        assert result.stdout == ""
        return result.stderr

    assert "no update of 2019-11-26. There is: 2019-11-2" in message(location, "-p", "2019-11-26")
    assert "Did you mean v1.0?" in message(tmp_path / "base" / "clean-ads" / "v1.1")
    misspelt = message(tmp_path / "base" / "clean-add" / "v1.0", "--json")
    assert f"The nearest place that exists is {(tmp_path / 'base').as_uri()}." in misspelt
    assert "Did you mean clean-ads?" in misspelt
    assert "has no update. There is: clean-ads." in message(tmp_path / "base")
    assert "nor above it" in message("/no/such/disk/feed")
    (tmp_path / "empty").mkdir()
    empty = (tmp_path / "empty").as_uri()
    assert f"The nearest place that exists is {empty}. It has no folders." in message(tmp_path / "empty" / "v1.0" / "x")
    assert f"{empty} has no update. It has no folders." in message(tmp_path / "empty")


def test_files_shows_exactly_the_update_that_is_named_and_tells_its_state(run: Run, written: Written, tmp_path: Path):
    location = tmp_path / "f"
    for content in ("old\n", "newer\n"):
        run("feed", "publish", location, "-p", "day", written("a.csv", content))
    run("feed", "invalidate", location, "-p", "day", "--reason", "wrong prices", "--author", "ann")
    old, new = (
        run("feed", "files", location, "-p", "day", "--update", name, "--json")
        for name in ("20191201.120000", "20191201.120001")
    )
    assert [each["bytes"] for each in json.loads(old.stdout)] == [4]
    assert "20191201.120000 is valid, and in force" in old.stderr
    assert [each["bytes"] for each in json.loads(new.stdout)] == [6]
    assert "20191201.120001 is invalidated: wrong prices (ann)" in new.stderr
    assert "has no update" in run("feed", "files", location, "-p", "day", "--update", "20191201.130000", code=3).stderr
    both = ("--update", "20191201.120000", "--as-of", "20191201.120000")
    assert "not both" in run("feed", "files", location, "-p", "day", *both, code=2).stderr


def test_ls_of_updates_without_partitions_passes_over_other_folders(run: Run, written: Written, tmp_path: Path):
    run("feed", "publish", tmp_path / "f", written("a.csv", "x\n"))
    (tmp_path / "f" / "notes").mkdir()
    (tmp_path / "f" / "notes" / "README").write_text("no update")
    assert [(row["partition"], row["state"]) for row in listed(run, tmp_path / "f")] == [(None, "valid")]


def test_the_files_of_an_update_are_listed_by_its_name_whatever_its_state(run: Run, written: Written, tmp_path: Path):
    location = tmp_path / "f" / "v1.0"
    for content in ("one", "two"):
        run("feed", "publish", location, written("a.csv", content))
    run("feed", "invalidate", location, "--reason", "wrong")

    def listed(*more: str, code: int = 0):
        return run("feed", "files", location, *more, "--json", code=code)

    (latest,), (named,) = json.loads(listed().stdout), json.loads(listed("--update", "20191201.120001").stdout)
    assert "/20191201.120000/" in latest["uri"]
    assert "/20191201.120001/" in named["uri"]
    assert "has no update" in listed("--update", "20191201.120009", code=3).stderr
    assert "--as-of" in listed("--update", "20191201.120000", "--as-of", "20191201.120000", code=2).stderr


def test_invalidate_puts_the_update_before_back_in_force(run: Run, written: Written, tmp_path: Path):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    for _ in range(3):
        run("feed", "publish", location, file)
    done = json.loads(run("feed", "invalidate", location, "--reason", "wrong", "--json").stdout)
    assert (done["update"], done["state"], done["author"]) == ("20191201.120002", "invalidated", getpass.getuser())
    run("feed", "invalidate", location, "--update", "20191201.120000", "--reason", "wrong, too")
    assert json.loads(run("feed", "latest", location, "--json").stdout)["update"] == "20191201.120001"


def test_invalidate_takes_the_quarantine_of_the_update_out_of_force_with_it(run: Run, tmp_path: Path):
    clean = Feed(open_blackboard(str(tmp_path)), "clean/v1.0")
    kept = quarantine_of(clean)
    for _ in range(2):
        claimed = claim(clean, "2019-11-24", now=NOON, owner="a run")
        stage(replace(claimed, feed=kept), (), Facts(), now=NOON)
        publish_both(stage(claimed, (), Facts(details={QUARANTINE: kept.location}), now=NOON), now=NOON)

    done = run("feed", "invalidate", tmp_path / "clean/v1.0", "-p", "2019-11-24", "--reason", "wrong prices")

    assert "20191201.120001 is invalidated, and its quarantine, too" in done.stderr
    for feed in (clean, kept):
        shown = json.loads(run("feed", "latest", feed.uri, "-p", "2019-11-24", "--json").stdout)
        assert shown["update"] == "20191201.120000"


def test_a_warning_shows_the_control_characters_of_a_record_escaped(program_on, tmp_path: Path):
    feed = open_feed(str(tmp_path / "clean"))
    claimed = claim(feed, None, now=NOON, owner="another program")
    publish_both(stage(claimed, (), Facts(details={QUARANTINE: "\x1b]0;title\a"}), now=NOON), now=NOON)

    shown = program_on(100, "feed", "invalidate", feed.uri, "--reason", "wrong prices")

    assert r"Warning: " in shown
    assert r"\x1b]0;title\x07" in shown.replace("\r\n", "")
    assert "\x1b" not in shown


@pytest.mark.parametrize("area", ["records", "_SUCCESS"])
@pytest.mark.parametrize("error", [UnavailableError("503 Slow Down."), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_an_invalidation_that_failed_on_its_way_names_the_update_with_which_to_repeat_it(
    run: Run, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, area: str, error: BaseException
):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    for _ in range(2):
        run("feed", "publish", location, file)

    def fail(operation: str, key: str) -> None:
        if operation in {"create", "replace"} and area in key:
            raise error

    def opened(uri: str) -> Interposed:
        return Interposed(open_blackboard(uri), fail)

    with monkeypatch.context() as patched:
        patched.setattr("feed_assets.file_feed.feed.open_blackboard", opened)
        code = 1 if isinstance(error, UnavailableError) else 130
        failed = run("feed", "invalidate", location, "--reason", "wrong", code=code)
    assert "Repeat it with --update 20191201.120001: the latest may be another one by now." in failed.stderr
    run("feed", "invalidate", location, "--reason", "wrong", "--update", "20191201.120001")
    assert json.loads(run("feed", "latest", location, "--json").stdout)["update"] == "20191201.120000"


def test_an_update_that_is_not_there_is_exit_code_3(run: Run, written: Written, tmp_path: Path):
    location, missing = tmp_path / "f", "20180101.000000"
    run("feed", "publish", location, written("a.csv", "x\n"))
    for command in (
        ["invalidate", location, "--update", missing, "--reason", "wrong"],
        ["tag", location, "good", "--update", missing],
        ["pin", location, "--update", missing, "--until", "1d"],
        ["diff", location, "--from", missing],
    ):
        assert f"has no update {missing}" in run("feed", *command, code=3).stderr


def test_an_update_whose_manifest_was_removed_is_shown_as_invalidated_and_can_be_given_the_reason(
    run: Run, written: Written, tmp_path: Path
):
    location, update = tmp_path / "f", "20191201.120000"
    run("feed", "publish", location, written("a.csv", "x\n"))
    (location / update / "_SUCCESS").unlink()
    (row,) = listed(run, location)
    assert (row["state"], row["why"]) == ("invalidated", "recorded as published, but its manifest is gone")
    run("feed", "invalidate", location, "--update", update, "--reason", "wrong prices", "--author", "ann")
    (row,) = listed(run, location)
    assert (row["state"], row["why"]) == ("invalidated", "wrong prices (ann)")


def test_tags_and_pins_are_shown_and_lifted(run: Run, written: Written, tmp_path: Path):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    run("feed", "publish", location, file)
    run("feed", "publish", location, file)
    run("feed", "tag", location, "golden", "--update", "20191201.120000")
    pinned = json.loads(run("feed", "pin", location, "--until", "36h", "--holder", "report", "--json").stdout)
    assert (pinned["update"], pinned["until"]) == ("20191201.120001", "2019-12-03T00:00:00+00:00")
    newest, oldest = listed(run, location)
    assert newest["pins"] == [{"holder": "report", "until": "2019-12-03T00:00:00+00:00"}]
    assert oldest["tags"] == ["golden"]
    assert "golden" in run("feed", "ls", location).stdout
    assert "golden" in run("feed", "tag", location, "golden", code=1).stderr, "one name for one update"

    run("feed", "untag", location, "golden")
    run("feed", "unpin", location, "--holder", "somebody else")
    assert listed(run, location)[0]["pins"]
    lifted = json.loads(run("feed", "unpin", location, "--holder", "report", "--json").stdout)
    assert lifted["unpinned"] == ["20191201.120001"]
    assert not any(row["pins"] or row["tags"] for row in listed(run, location))


def test_a_mistyped_place_of_a_tag_or_pin_to_lift_is_an_error_that_says_what_is_near(
    run: Run, written: Written, tmp_path: Path
):
    run("feed", "publish", tmp_path / "ads", "-p", "2019-11-24", written("a.csv", "x\n"))
    for command in (["untag", "golden"], ["unpin"]):
        name, *others = command
        assert "Did you mean ads?" in run("feed", name, tmp_path / "adz", *others, code=3).stderr
        day = run("feed", name, tmp_path / "ads", *others, "-p", "2019-11-25", code=3)
        assert "has no update of 2019-11-25. There is: 2019-11-24." in day.stderr
        run("feed", name, tmp_path / "ads", *others, "-p", "2019-11-24")


def test_a_tag_of_a_partition_whose_files_are_gone_can_be_lifted(run: Run, written: Written, tmp_path: Path):
    location, day = tmp_path / "ads", "2019-11-24"
    run("feed", "publish", location, "-p", day, written("a.csv", "x\n"))
    run("feed", "tag", location, "golden", "-p", day)
    shutil.rmtree(location / day)
    run("feed", "untag", location, "golden", "-p", day)
    assert not list(location.rglob("golden"))
    run("feed", "untag", location, "golden", "-p", day, code=3)


def test_gc_removes_nothing_without_yes_and_never_what_is_held(
    run: Run, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    for day in range(1, 6):
        monkeypatch.setenv("FEED_ASSETS_AS_OF", f"2019-11-0{day}")
        run("feed", "publish", location, "-p", "day", file)
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "2019-12-20")
    run("feed", "tag", location, "golden", "-p", "day", "--update", "20191101.000000")
    removable = ["20191102.000000", "20191103.000000"]
    assert json.loads(run("feed", "gc", location, "--keep", "2", "--younger-than", "60d", "--json").stdout) == []

    plan = run("feed", "gc", location, "--keep", "2")
    assert all(name in plan.stdout for name in removable)
    assert "Nothing changed. --yes removes 2 updates with 4 bytes." in plan.stderr
    assert len(listed(run, location)) == 5

    done = json.loads(run("feed", "gc", location / "day", "--keep", "2", "--yes", "--json").stdout)
    assert [(each["update"], each["removed"]) for each in done] == [(name, True) for name in removable]
    assert sorted(row["update"] for row in listed(run, location)) == [
        "20191101.000000",
        "20191104.000000",
        "20191105.000000",
    ]
    assert "Nothing to remove" in run("feed", "gc", location, "--keep", "2", "--yes").stderr


def test_gc_removes_the_objects_of_the_starts_whose_updates_it_removes(run: Run, tmp_path: Path):
    feed = open_feed(str(tmp_path / "f"))
    for number in range(2):
        claimed = claim(feed, "day", now=NOON - timedelta(days=60), owner="a run")
        feed.blackboard.create(f"{claimed.prefix}a.csv", b"x\n")
        facts = Facts(details={START: f"forced {number}"})
        publish_both(stage(claimed, staged_files(claimed, 1), facts, now=NOON), now=NOON)
    starts = tmp_path / "f" / ".feed" / "starts" / "day"
    assert len(list(starts.iterdir())) == 2

    run("feed", "gc", tmp_path / "f", "--keep", "1")
    assert len(list(starts.iterdir())) == 2
    run("feed", "gc", tmp_path / "f", "--keep", "1", "--yes")
    assert [json.loads(left.read_bytes())["update"] for left in starts.iterdir()] == ["20191002.120001"]
    assert "is sound" in run("feed", "verify", tmp_path / "f").stderr


def test_gc_names_tags_and_pins_among_what_may_have_kept_everything(run: Run, written: Written, tmp_path: Path):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    for _ in range(2):
        run("feed", "publish", location, file)
    run("feed", "tag", location, "golden", "--update", "20191201.120000")

    message = run("feed", "gc", location, "--keep", "1", "--younger-than", "0s").stderr

    assert "--keep, --younger-than, --longest-write, tags and pins keep all updates" in message


def test_gc_keeps_three_updates_thirty_days_and_a_write_of_twenty_four_hours_if_nothing_else_is_said(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    young = ["20191121.000000", "20191218.100000", "20191218.110000", "20191218.120000"]
    old = ["20191101.000000", "20191102.000000", "20191103.000000", "20191104.000000"]
    unfinished = ["20191219.235959", "20191220.000000"]
    for partition, names in {"young": ["20191120.235959", *young], "old": old, "unfinished": unfinished}.items():
        for name in names:
            update = tmp_path / "f" / partition / name
            update.mkdir(parents=True)
            (update / "a.csv").write_text("x\n")
            if partition != "unfinished":
                (update / "_SUCCESS").write_text("1")
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "2019-12-21")

    def removable(partition: str, *options: str) -> list[str]:
        planned = json.loads(run("feed", "gc", tmp_path / "f", "-p", partition, "--json", *options).stdout)
        return [each["update"] for each in planned]

    assert removable("young") == ["20191120.235959"]
    assert removable("old") == old[:1]
    assert removable("unfinished") == []
    assert removable("unfinished", "--younger-than", "0d") == unfinished[:1]


def test_gc_with_yes_drops_entries_of_the_change_log_that_are_older_than_seven_days(
    run: Run, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    location, published = tmp_path / "f", datetime.now(UTC)
    run("feed", "publish", location, written("a.csv", "x\n"))

    def entries(days: float, *options: str) -> int:
        monkeypatch.setenv("FEED_ASSETS_AS_OF", f"{published + timedelta(days=days):%Y-%m-%dT%H:%M:%S}")
        run("feed", "gc", location, *options)
        return sum(path.is_file() for path in (location / ".feed" / "changes").rglob("*"))

    assert [entries(6.9, "--yes"), entries(7.1), entries(7.1, "--yes")] == [1, 1, 0]


@pytest.mark.parametrize("output", [(), ("--json",)], ids=["table", "json"])
def test_gc_that_may_not_list_uploads_says_what_it_removed_and_which_right_it_lacks(
    run: Run, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: tuple[str, ...]
):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    for day in (1, 2):
        monkeypatch.setenv("FEED_ASSETS_AS_OF", f"2019-11-0{day}")
        run("feed", "publish", location, file)
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "2019-12-20")

    def refuse(*_: object, **__: object) -> int:
        message = "Could not list the uploads: AccessDenied."
        raise UnavailableError(message, transient=False)

    monkeypatch.setattr(LocalBlackboard, "abort_uploads", refuse)
    done = run("feed", "gc", location, "--keep", "1", "--yes", *output, code=1)
    assert "20191101.000000" in done.stdout
    assert "removed" in done.stdout
    assert "Could not list the uploads: AccessDenied." in done.stderr
    assert "s3:ListBucketMultipartUploads and s3:AbortMultipartUpload" in done.stderr
    assert [row["update"] for row in listed(run, location)] == ["20191102.000000"]


@pytest.mark.parametrize("option", ["--longest-write", "--younger-than"])
def test_gc_takes_a_span_that_goes_back_before_the_calendar(run: Run, written: Written, tmp_path: Path, option: str):
    run("feed", "publish", tmp_path / "f", written("a.csv", "x\n"))
    for yes in ((), ("--yes",)):
        assert run("feed", "gc", tmp_path / "f", option, "9999999d", "--json", *yes).stdout == "[]\n"


def test_gc_gives_back_what_an_interrupted_one_had_taken_over(run: Run, written: Written, tmp_path: Path):
    location, update = tmp_path / "f", "20191201.120000"
    run("feed", "publish", location, written("a.csv", "x\n"))
    (location / update / "_SUCCESS").write_text("-1123456781")
    assert "retention is removing it" in run("feed", "ls", location).stdout
    run("feed", "gc", location)
    run("feed", "latest", location, code=3)
    run("feed", "gc", location, "--yes")
    run("feed", "latest", location)


TWO_AREAS = "is a control area inside the partition day"


@pytest.mark.parametrize(
    "command",
    [
        "publish FEED -p day FILE",
        "invalidate FEED -p day --reason wrong",
        "tag FEED good -p day",
        "untag FEED golden -p day",
        "pin FEED -p day --until 1d",
        "unpin FEED -p day",
        "gc FEED --keep 1 --younger-than 0d --yes",
        "gc FEED -p day --keep 1 --younger-than 0d --yes",
        "verify FEED",
    ],
)
@pytest.mark.parametrize("whole_feed_has_one_too", [False, True])
def test_a_control_area_inside_a_partition_is_told_and_nothing_is_changed(
    run: Run, written: Written, tmp_path: Path, command: str, whole_feed_has_one_too: bool
):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    for _ in range(3):
        run("feed", "publish", location / "day", file)
    run("feed", "tag", location / "day", "golden", "--update", "20191201.120000")
    if whole_feed_has_one_too:
        run("feed", "publish", location, "-p", "other", file)
    before = sorted(location.rglob("*"))
    refused = run("feed", *command.replace("FEED", str(location)).replace("FILE", str(file)).split(), code=1)
    assert TWO_AREAS in refused.stderr + refused.stdout
    assert (location / "day" / ".feed").as_uri() in refused.stderr + refused.stdout
    assert sorted(location.rglob("*")) == before
    for spelling in ([location / "day"], [location, "-p", "day"]):
        assert json.loads(run("feed", "latest", *spelling, "--json").stdout)["update"] == "20191201.120002"


def test_where_the_whole_feed_has_a_control_area_one_inside_a_partition_is_not_written_to_either(
    run: Run, written: Written, tmp_path: Path
):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    run("feed", "publish", location / "day", file)
    run("feed", "publish", location, "-p", "other", file)
    for command in (["publish", location / "day", file], ["tag", location / "day", "good"]):
        assert TWO_AREAS in run("feed", *command, code=1).stderr


def test_a_location_that_holds_updates_itself_keeps_its_own_control_area(run: Run, written: Written, tmp_path: Path):
    location, file = tmp_path / "f" / "v1.0", written("a.csv", "x\n")
    for _ in range(2):
        run("feed", "publish", location, file)
    run("feed", "tag", location, "golden", "--update", "20191201.120000")
    done = json.loads(run("feed", "gc", location, "--keep", "1", "--younger-than", "0d", "--yes", "--json").stdout)
    assert done == []
    run("feed", "verify", location)


@pytest.mark.parametrize("above", [["publish", "2019-11-24", "FILE"], ["publish", ".", "-p", "clean", "FILE"]])
def test_a_feed_below_a_location_with_a_control_area_keeps_its_own(
    run: Run, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: list[str]
):
    nest, file = tmp_path / "nest", written("a.csv", "x\n")
    command, location, *rest = above
    run("feed", command, nest / location, *(file if each == "FILE" else each for each in rest))
    assert (nest / ".feed").exists()
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "2019-11-25")
    for _ in range(2):
        run("feed", "publish", nest / "ads", "-p", "2019-11-24", file)
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "2019-12-01")
    assert len(listed(run, nest / "ads")) == 2
    assert listed(run, nest / "ads") == listed(run, nest / "ads", "-p", "2019-11-24")
    assert json.loads(run("feed", "verify", nest / "ads", "--json").stdout) == []
    removable = json.loads(run("feed", "gc", nest / "ads", "--keep", "1", "--younger-than", "0s", "--json").stdout)
    assert [each["update"] for each in removable] == ["20191125.000000"]
    assert "has partitions" in run("feed", "publish", nest / "ads", file, code=2).stderr


def test_a_day_that_is_named_by_its_location_first_is_a_partition_of_its_feed(
    run: Run, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    day = location / "2019-11-24"
    run("feed", "publish", day, file)
    run("feed", "tag", day, "golden")
    run("feed", "pin", day, "--until", "100d")
    run("feed", "publish", location, "-p", "2019-11-24", file)
    run("feed", "publish", day, file)
    assert not (day / ".feed").exists()
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "2019-12-20")
    done = json.loads(run("feed", "gc", location, "--keep", "1", "--younger-than", "0d", "--yes", "--json").stdout)
    assert [each["update"] for each in done] == ["20191201.120001"]
    assert [row["tags"] for row in listed(run, day)] == [[], ["golden"]]
    run("feed", "verify", location)


def test_a_day_that_has_partitions_is_a_feed_and_takes_no_update_beside_them(
    run: Run, written: Written, tmp_path: Path
):
    day, file = tmp_path / "2019-11-24", written("a.csv", "x\n")
    update = day / "de" / "20191124.000000"
    update.mkdir(parents=True)
    (update / "_SUCCESS").write_text("0")
    assert "has partitions" in run("feed", "publish", day, file, code=2).stderr
    assert "has partitions" in run("feed", "publish", tmp_path, "-p", "2019-11-24", file, code=2).stderr
    assert [row["partition"] for row in listed(run, day)] == ["de"]
    run("feed", "publish", day, "-p", "de", file)
    assert (day / ".feed").exists()


@pytest.mark.parametrize("updates", [0, 1, 5])
def test_publishing_into_a_partition_costs_two_listings_more_than_the_protocol_needs(
    run: Run, requests: Requests, written: Written, tmp_path: Path, updates: int
):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    for _ in range(updates):
        run("feed", "publish", location, "-p", "2019-11-24", file)
    requests()
    run("feed", "publish", location, "-p", "2019-11-24", file)
    # What lies in the partition and beside it, as neither may be mixed; and the three of the protocol.
    assert requests() == {"page": 5, "create": 4, "replace": 1, "upload": 1}


@pytest.mark.parametrize("now", ["2026-11-21T12:00:00", "2027-11-01"])
def test_nothing_is_published_beside_partitions_however_recent_the_updates_there_are(
    run: Run, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: str
):
    monkeypatch.setenv("FEED_ASSETS_AS_OF", now)
    feed, file = tmp_path / "mix", written("a.csv", "x\n")
    for update in ("2026-11-20/20261121.000000", "20261121.100000"):
        (feed / update).mkdir(parents=True)
        (feed / update / "_SUCCESS").write_text("0")
    before = sorted(feed.rglob("*"))
    for rest in ([file], ["-p", "2026-11-20", file], ["-p", "2026-11-21", file]):
        run("feed", "publish", feed, *rest, code=2)
    assert sorted(feed.rglob("*")) == before


def test_verify_fails_for_a_fault_and_not_for_a_note(run: Run, written: Written, tmp_path: Path):
    location, file = tmp_path / "f", written("a.csv", "x\n")
    run("feed", "publish", location, "-p", "day", file)
    sound = run("feed", "verify", location)
    assert "is sound" in sound.stderr

    (location / "notes").mkdir()
    (location / "notes" / "README").write_text("no update")
    (note,) = json.loads(run("feed", "verify", location, "--json").stdout)
    assert (note["weight"], note["kind"]) == ("note", "odd name")

    (location / "day" / "20191201.120000" / "b.csv").write_text("x\n")
    findings = json.loads(run("feed", "verify", location, "--json", code=1).stdout)
    assert {"torn", "extra file"} <= {each["kind"] for each in findings if each["weight"] == "fault"}
    assert "b.csv" in run("feed", "verify", location / "day", code=1).stdout
    run("feed", "verify", location, "--partition", "notes")


@pytest.mark.parametrize("command", [["verify"], ["gc"], ["gc", "--yes"], ["gc", "--json"], ["verify", "--json"]])
def test_a_mistyped_feed_or_partition_is_not_sound_and_has_not_been_cleaned_up(
    run: Run, written: Written, tmp_path: Path, command: list[str]
):
    run("feed", "publish", tmp_path / "orders", "-p", "2019-11-24", written("a.csv", "x\n"))
    name, *options = command

    feed = run("feed", name, tmp_path / "oders", *options, code=3)
    assert "There is nothing at" in feed.stderr
    assert "Did you mean orders?" in feed.stderr
    partition = run("feed", name, tmp_path / "orders", "-p", "2019-11-42", *options, code=3)
    assert "has no update of 2019-11-42" in partition.stderr
    assert feed.stdout == partition.stdout == ""
    run("feed", name, tmp_path / "orders", "-p", "2019-11-24", *options)


def test_gc_names_every_option_that_keeps_what_could_be_removed(run: Run, written: Written, tmp_path: Path):
    location = tmp_path / "f"
    for _ in range(2):
        run("feed", "publish", location, written("a.csv", "x\n"))
    run("feed", "invalidate", location, "--reason", "wrong prices")

    kept = run("feed", "gc", location, "--keep", "1", "--younger-than", "0d")
    assert "--longest-write" in kept.stderr
    run("feed", "gc", location, "--keep", "1", "--younger-than", "0d", "--longest-write", "0d")


def test_verify_has_a_note_on_a_file_that_spark_skips_for_its_name(run: Run, written: Written, tmp_path: Path):
    location = tmp_path / "f"
    run("feed", "publish", location, "-p", "day", written("_a.csv", "x\n"))
    (note,) = json.loads(run("feed", "verify", location, "--json").stdout)
    assert (note["weight"], note["kind"], note["update"]) == ("note", "hidden file", "20191201.120000")
    assert "Spark skips _a.csv" in note["message"]


def test_verify_succeeds_for_what_was_properly_invalidated_by_an_added_file(run: Run, written: Written, tmp_path: Path):
    location = tmp_path / "f"
    run("feed", "publish", location, "-p", "day", written("a.csv", "x\n"))
    (location / "day" / "20191201.120000" / "wrong").touch()
    (note,) = json.loads(run("feed", "verify", location, "--json").stdout)
    assert (note["weight"], note["kind"]) == ("note", "invalidated")
