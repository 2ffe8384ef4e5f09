"""What people see of every update: its state, and why."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.file_feed import (
    CheckOutcome,
    Facts,
    Feed,
    Staged,
    UpdateStatus,
    claim,
    history,
    invalidate,
    publish,
    reject,
    stage,
    staged_files,
    tag,
)
from feed_assets_tests.file_feed import plain

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
PARTITION = "2018-05-20"
DAY = f"clean/v1.0/{PARTITION}/"
NAME = "20180521.160000"
CHECKED = (CheckOutcome("not empty", passed=True, severity="ERROR"),)


@pytest.fixture
def board() -> MemoryBlackboard:
    return MemoryBlackboard()


@pytest.fixture
def feed(board: MemoryBlackboard) -> Feed:
    return Feed(board, "clean/v1.0")


def written(board: MemoryBlackboard, feed: Feed) -> Staged:
    claimed = claim(feed, PARTITION, now=NOW, owner="run-1")
    board.put(f"{claimed.prefix}part", b"data")
    return stage(claimed, staged_files(claimed, 1), Facts(), now=NOW)


def only(feed: Feed) -> UpdateStatus:
    (status,) = history(feed, PARTITION, now=NOW)
    return status


def test_all_updates_are_shown_newest_first_with_the_latest_marked(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, "20180521.100000", files=2)
    plain.publish(board, DAY, "20180521.110000")
    plain.write(board, DAY, "20180521.120000")
    tag(feed, PARTITION, "20180521.100000", "release-1")
    assert [(each.name, each.state, each.latest, each.tags) for each in history(feed, PARTITION, now=NOW)] == [
        ("20180521.120000", "incomplete", False, ()),
        ("20180521.110000", "valid", True, ()),
        ("20180521.100000", "valid", False, ("release-1",)),
    ]


def test_files_and_bytes_leave_out_the_manifest(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, NAME, files=2)
    assert (only(feed).files, only(feed).bytes) == (2, 2 * len(f"{NAME} 0"))
    assert only(feed).why == "its manifest states 2 files"


def test_a_staged_update_waits_for_its_audit(board: MemoryBlackboard, feed: Feed) -> None:
    written(board, feed)
    assert (only(feed).state, only(feed).why) == ("staged", "1 file recorded, no manifest yet")


def test_a_rejected_update_tells_the_reason(board: MemoryBlackboard, feed: Feed) -> None:
    reject(written(board, feed), reason="no rows", now=NOW)
    assert (only(feed).state, only(feed).why) == ("rejected", "no rows (run-1)")


def test_an_invalidated_update_tells_the_reason_and_the_author(board: MemoryBlackboard, feed: Feed) -> None:
    publish(written(board, feed), now=NOW)
    invalidate(feed, PARTITION, NAME, reason="wrong day", author="ann", now=NOW)
    assert (only(feed).state, only(feed).why) == ("invalidated", "wrong day (ann)")


def test_an_update_whose_manifest_was_removed_by_hand_is_invalidated(board: MemoryBlackboard, feed: Feed) -> None:
    publish(written(board, feed), now=NOW, checks=CHECKED)
    plain.invalidate(board, DAY, NAME)
    assert (only(feed).state, only(feed).why) == (
        "invalidated",
        "recorded as published, but its manifest is gone",
    )


@pytest.mark.parametrize(
    ("manifest", "state", "why"),
    [
        (b"1", "invalidated", "its manifest states 1, and there are 2 files: some were added"),
        (b"3", "incomplete", "its manifest states 3, and there are 2 files: some are missing"),
        (b"", "incomplete", "its manifest is not a number of files"),
        (b"-1", "incomplete", "retention is removing it"),
        (b"-2", "invalidated", "its record, with the reason, is gone"),
    ],
)
def test_a_manifest_that_disagrees_is_explained(
    board: MemoryBlackboard, feed: Feed, manifest: bytes, state: str, why: str
) -> None:
    plain.write(board, DAY, NAME, files=2)
    board.put(f"{DAY}{NAME}/_SUCCESS", manifest)
    assert (only(feed).state, only(feed).why) == (state, why)


def test_a_date_in_the_future_is_pointed_out(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, NAME)
    (status,) = history(feed, PARTITION, now=NOW - timedelta(seconds=1))
    assert (status.latest, status.why) == (True, "its manifest states 1 file; dated in the future")


def test_a_feed_without_partitions_has_a_history_too(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, "clean/v1.0/", NAME)
    assert [status.name for status in history(feed, now=NOW)] == [NAME]


def test_an_update_whose_writer_stopped_before_the_manifest_waits_and_one_that_lost_its_last_word_is_valid(
    board: MemoryBlackboard, feed: Feed
) -> None:
    waiting = written(board, feed)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(board, "create", stop)
        publish(waiting, now=NOW, checks=CHECKED)
    assert only(feed).state == "staged"
    assert "stopped just before the manifest" in only(feed).why
    board.put(f"{DAY}{NAME}/_SUCCESS", b"1")
    assert only(feed).state == "valid"
