"""Writers that stand still for longer than the longest write, at any step, and wake when retention has been there."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, Entry
from feed_assets.file_feed import (
    CheckOutcome,
    ClaimLostError,
    Facts,
    Feed,
    FeedError,
    Policy,
    TornUpdateError,
    begun,
    carry_out,
    claim,
    history,
    latest,
    plan,
    publish,
    publish_files,
    read_record,
    stage,
    staged_files,
)
from feed_assets_tests.file_feed import plain_reader
from feed_assets_tests.file_feed.stepping import SteppingThrough

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
MUCH_LATER = NOW + timedelta(days=3)
POLICY = Policy(keep=1, younger_than=timedelta(0), longest_write=timedelta(days=1))
DAY = "2018-05-20"
NAME = "20180521.160000"
PREFIX = f"ads/v1.0/{DAY}/"
PASSED = (CheckOutcome("rows", passed=True, severity="ERROR"),)

Objects = Callable[[], dict[str, bytes]]


@pytest.fixture(params=["memory", "disk"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Blackboard, Objects]:
    if request.param == "memory":
        board = MemoryBlackboard()
        return board, board.objects
    root = tmp_path / "root"

    def objects() -> dict[str, bytes]:
        files = (path for path in root.rglob("*") if path.is_file())
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}

    return LocalBlackboard(root), objects


def write_files(feed: Feed, tmp_path: Path, files: int) -> str:
    sources = [tmp_path / f"part-{number}" for number in range(files)]
    for source in sources:
        source.write_text(source.name)
    return publish_files(feed, DAY, sources, now=NOW, owner="late").name


def write_audited(feed: Feed, _: Path, files: int) -> str:
    claimed = claim(feed, DAY, now=NOW, owner="late")
    for number in range(files):
        feed.blackboard.create(f"{claimed.prefix}part-{number}", b"data")
    staged = stage(claimed, staged_files(claimed, files), Facts(), now=NOW)
    return publish(staged, now=NOW, checks=PASSED).name


@pytest.mark.parametrize("files", [0, 2])
@pytest.mark.parametrize("write", [write_files, write_audited])
def test_a_writer_that_wakes_after_retention_is_told_the_truth_and_leaves_no_stray_manifest(
    storage: tuple[Blackboard, Objects], write: Callable[[Feed, Path, int], str], files: int, tmp_path: Path
) -> None:
    board, objects = storage
    outcomes = set()
    for at in itertools.count():
        location = f"ads-{at}/v1.0"
        stepping = SteppingThrough(board, stop_before=at, act=lambda: collect(Feed(board, location)))  # noqa: B023
        try:
            name = write(Feed(stepping, location), tmp_path, files)
        except (FeedError, AlreadyExistsError) as error:
            outcomes.add(type(error))
            name = None
        there = objects()
        valid = plain_reader.updates(there, f"{location}/{DAY}/")
        assert (name is None) == (name not in valid)
        stated = [key for key, data in there.items() if key.startswith(f"{location}/{DAY}/{NAME}/_S") and data != b"-1"]
        assert len(stated) == len(valid)
        collect(Feed(board, location))
        collect(Feed(board, location))
        assert name is not None or not [
            key for key in objects() if key.startswith(location) and "/.feed/changes/" not in key
        ]
        if not stepping.stopped:
            break
    assert ClaimLostError in outcomes


def collect(feed: Feed) -> None:
    carry_out(feed, plan(feed, POLICY, now=MUCH_LATER, recovering=True), now=MUCH_LATER)


# --- a plain writer in the same second --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["part-0", "other"], ids=["a name of one's own", "another name"])
def test_a_file_that_another_program_wrote_in_the_same_second_is_never_published_as_ones_own(
    name: str, tmp_path: Path
) -> None:
    refused = 0
    for at in itertools.count():
        board = MemoryBlackboard()
        foreign = lambda: board.put(f"{PREFIX}{NAME}/{name}", b"theirs")  # noqa: B023, E731
        stepping = SteppingThrough(board, stop_before=at, act=foreign)
        try:
            write_files(Feed(stepping, "ads/v1.0"), tmp_path, 2)
        except (TornUpdateError, AlreadyExistsError):
            refused += 1
            assert plain_reader.latest(board.objects(), PREFIX) is None
        if not stepping.stopped:
            break
    assert refused >= 5


# --- claims that are held for long ------------------------------------------------------------------------------------


def test_an_update_that_was_claimed_before_the_latest_becomes_history_at_once_and_its_record_says_so() -> None:
    feed = Feed(MemoryBlackboard(), "ads/v1.0")
    claimed = claim(feed, DAY, now=NOW, owner="older inputs")
    newer = publish_files(feed, DAY, [], now=NOW + timedelta(hours=3), owner="newer inputs")
    waiting = stage(claimed, staged_files(claimed, 0), Facts(), now=NOW + timedelta(hours=5))
    update = publish(waiting, now=NOW + timedelta(hours=5))
    assert latest(feed, DAY, now=MUCH_LATER) == newer
    assert [each.state for each in history(feed, DAY, now=MUCH_LATER)] == ["valid", "valid"]
    record = read_record(feed, DAY, update.name)
    assert record is not None
    assert record.state == "published"
    assert record.history[-1].reason == f"history at once, as {newer.name} was claimed later and is in force"


def test_a_writer_that_stood_still_before_its_claim_takes_no_name_of_a_removed_update(monkeypatch) -> None:
    class Suspended(MemoryBlackboard):
        """The process stands still before its first claim for as long as `monkeypatch` says."""

        def create(self, key: str, data: bytes) -> Entry:
            if key.startswith("ads/v1.0/.feed/claims/") and not stood_still:
                stood_still.append(key)
                awake = time.time() + 3 * 86400
                monkeypatch.setattr(time, "time", lambda: awake)
            return super().create(key, data)

    stood_still: list[str] = []
    feed = Feed(Suspended(), "ads/v1.0")
    claimed = claim(feed, DAY, now=NOW, owner="suspended")
    assert stood_still[0].endswith(NAME)
    assert begun(claimed.name) >= MUCH_LATER


def test_a_claim_is_kept_for_the_longest_write_and_then_its_writer_is_told() -> None:
    board = MemoryBlackboard()
    feed = Feed(board, "ads/v1.0")
    publish_files(feed, DAY, [], now=NOW - timedelta(days=9), owner="before")
    claimed = claim(feed, DAY, now=NOW, owner="slow")
    assert plan(feed, POLICY, now=NOW + POLICY.longest_write) == ()
    collect(feed)
    board.create(f"{claimed.prefix}part-0", b"data")
    waiting = stage(claimed, staged_files(claimed, 1), Facts(), now=NOW)
    assert publish(waiting, now=NOW).name == claimed.name, "nothing was lost: it was whole when it was published"
