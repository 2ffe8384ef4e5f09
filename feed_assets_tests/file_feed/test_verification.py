"""Each fault that a feed can have is found, and a sound feed has none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.file_feed import (
    Facts,
    Feed,
    claim,
    invalidate,
    pin,
    publish,
    publish_files,
    reject,
    stage,
    staged_files,
    tag,
    verify,
)
from feed_assets_tests.file_feed import plain

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
LATER = NOW + timedelta(days=3)
ROOT = "clean/v1.0/"
PARTITION = "2018-05-20"
DAY = f"{ROOT}{PARTITION}/"
NAME = "20180521.160000"


@pytest.fixture
def board() -> MemoryBlackboard:
    """A sound feed with one published update of two files."""
    board = MemoryBlackboard()
    feed = Feed(board, "clean/v1.0")
    claimed = claim(feed, PARTITION, now=NOW, owner="run-1")
    plain.write(board, DAY, NAME, files=2)
    publish(stage(claimed, staged_files(claimed, 2), Facts(), now=NOW), now=NOW)
    return board


@pytest.fixture
def feed(board: MemoryBlackboard) -> Feed:
    return Feed(board, "clean/v1.0")


def found(feed: Feed, now: datetime = LATER) -> list[tuple[str, str | None]]:
    return [(finding.kind, finding.update) for finding in verify(feed, now=now)]


def test_a_sound_feed_has_no_fault(feed: Feed, board: MemoryBlackboard) -> None:
    tag(feed, PARTITION, NAME, "release-1")
    pin(feed, PARTITION, NAME, until=LATER, holder="reader")
    claim(feed, PARTITION, now=LATER, owner="at work")
    board.put(f"{ROOT}2018-05-19/", b"")
    assert found(feed) == []


def test_rejected_and_invalidated_updates_are_no_faults(feed: Feed, board: MemoryBlackboard) -> None:
    invalidate(feed, PARTITION, NAME, reason="wrong", author="ann", now=LATER)
    claimed = claim(feed, PARTITION, now=LATER, owner="run-2")
    board.put(f"{claimed.prefix}part", b"")
    reject(stage(claimed, staged_files(claimed, 1), Facts(), now=LATER), reason="no rows", now=LATER)
    assert found(feed) == []


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (f"{DAY}notes.txt", ("odd name", "notes.txt")),
        (f"{DAY}tmp/x", ("odd name", "tmp")),
        (f"{ROOT}notes.txt", ("odd name", "notes.txt")),
        (f"{DAY}20180230.000000/part", ("no such second", "20180230.000000")),
        (f"{DAY}20180521.160060/part", ("no such second", "20180521.160060")),
    ],
)
def test_what_no_reader_reads_is_pointed_out(feed: Feed, board: MemoryBlackboard, key: str, expected: object) -> None:
    board.put(key, b"")
    assert found(feed) == [expected]


@pytest.mark.parametrize("path", [".part-0.crc", "_temporary/0/part", "nested/part"])
def test_what_writers_leave_behind_is_found_in_an_update(feed: Feed, board: MemoryBlackboard, path: str) -> None:
    board.put(f"{DAY}{NAME}/{path}", b"")
    assert found(feed) == [("extra file", NAME), ("leftover", NAME), ("torn", NAME)]


@pytest.mark.parametrize("path", ["_part.parquet", ".part.csv"])
def test_a_file_of_a_valid_update_that_spark_skips_for_its_name_is_found(
    feed: Feed, board: MemoryBlackboard, path: str
) -> None:
    claimed = claim(feed, PARTITION, now=LATER, owner="run-2")
    board.put(f"{claimed.prefix}{path}", b"")
    staged = stage(claimed, staged_files(claimed, 1), Facts(), now=LATER)
    assert found(feed) == []
    publish(staged, now=LATER)
    assert found(feed) == [("hidden file", claimed.name)]


@pytest.mark.parametrize("path", ["", "sub/"])
def test_a_directory_marker_in_an_update_is_found(feed: Feed, board: MemoryBlackboard, path: str) -> None:
    board.put(f"{DAY}{NAME}/{path}", b"")
    assert found(feed) == [("directory marker", NAME)]


def test_the_directory_marker_that_a_killed_writer_leaves_without_a_manifest_is_no_fault(
    feed: Feed, board: MemoryBlackboard
) -> None:
    claimed = claim(feed, PARTITION, now=LATER, owner="run-2")
    board.put(f"{claimed.prefix}part.parquet", b"x")
    board.put(f"{claimed.prefix}__magic/", b"")
    assert found(feed) == []


def test_an_object_in_the_place_of_an_update_is_found(feed: Feed, board: MemoryBlackboard) -> None:
    board.put(f"{DAY}20180521.170000", b"")
    assert found(feed) == [("odd name", "20180521.170000")]


def test_an_update_dated_in_the_future_is_found(feed: Feed) -> None:
    assert found(feed, NOW - timedelta(seconds=1)) == [("future", NAME)]


@pytest.mark.parametrize(
    ("manifest", "kind"), [(b"", "manifest"), (b'{"files": 2}', "manifest"), (b"3", "torn"), (b"-1", "removal")]
)
def test_a_manifest_that_makes_nothing_valid_is_found(
    feed: Feed, board: MemoryBlackboard, manifest: bytes, kind: str
) -> None:
    board.put(f"{DAY}{NAME}/_SUCCESS", manifest)
    assert found(feed) == [(kind, NAME)]


@pytest.mark.parametrize("manifest", [b"-1", b"-112345678", b"-1123456782"])
@pytest.mark.parametrize("left", [0, 1, 2])
def test_files_that_are_gone_from_an_update_that_retention_removes_are_no_fault(
    feed: Feed, board: MemoryBlackboard, manifest: bytes, left: int
) -> None:
    board.put(f"{DAY}{NAME}/_SUCCESS", manifest)
    board.delete(*[f"{DAY}{NAME}/part-{number}" for number in range(left, 2)])
    assert found(feed) == [("removal", NAME)]


def test_files_that_differ_from_the_record_are_found(feed: Feed, board: MemoryBlackboard) -> None:
    board.put(f"{DAY}{NAME}/part-0", b"longer than it was before")
    assert found(feed) == [("changed file", NAME)]
    same_size = bytes(len(f"{NAME} 0"))
    board.put(f"{DAY}{NAME}/part-0", same_size)
    assert found(feed) == [("changed file", NAME)]
    board.delete(f"{DAY}{NAME}/part-0")
    assert found(feed) == [("missing file", NAME), ("torn", NAME)]


def test_a_replaced_file_that_a_count_cannot_tell_is_found(feed: Feed, board: MemoryBlackboard) -> None:
    board.delete(f"{DAY}{NAME}/part-0")
    board.put(f"{DAY}{NAME}/part-9", b"")
    assert found(feed) == [("extra file", NAME), ("missing file", NAME)]


def test_a_control_area_inside_a_partition_is_found(feed: Feed, board: MemoryBlackboard) -> None:
    tag(Feed(board, DAY.removesuffix("/")), None, NAME, "release-1")
    assert found(feed) == [("control area", None)]


def test_updates_and_partitions_at_one_level_are_found(feed: Feed, board: MemoryBlackboard) -> None:
    plain.publish(board, ROOT, NAME)
    assert found(feed) == [("mixed levels", None)]


def test_a_damaged_record_is_found(feed: Feed, board: MemoryBlackboard) -> None:
    (key,) = (key for key in board.objects() if "/.feed/records/" in key)
    board.put(key, b"{")
    assert found(feed) == [("record", NAME)]


def test_control_objects_without_an_update_are_found(feed: Feed, board: MemoryBlackboard) -> None:
    tag(feed, PARTITION, NAME, "release-1")
    pin(feed, PARTITION, NAME, until=LATER + timedelta(hours=1), holder="reader")
    pin(feed, PARTITION, NAME, until=LATER, holder="killed, and its pin has ended")
    board.delete(*(key for key in board.objects() if key.startswith(DAY)))
    assert found(feed) == [("orphan", NAME)] * 4


def test_an_update_of_another_program_needs_no_record(feed: Feed, board: MemoryBlackboard) -> None:
    plain.publish(board, DAY, "20180521.170000")
    assert found(feed) == []
    invalidate(feed, PARTITION, "20180521.170000", reason="wrong", author="ann", now=LATER)
    assert found(feed) == []


def test_an_update_that_was_invalidated_by_an_added_empty_file_is_no_fault(feed: Feed, board: MemoryBlackboard) -> None:
    board.put(f"{DAY}{NAME}/invalid", b"")
    assert found(feed) == [("invalidated", NAME)]
    board.put(f"{DAY}{NAME}/invalid", b"data of another program")
    assert found(feed) == [("extra file", NAME), ("torn", NAME)]


def test_what_is_in_force_against_its_record_is_found(feed: Feed, board: MemoryBlackboard) -> None:
    invalidate(feed, PARTITION, NAME, reason="wrong", author="ann", now=LATER)
    board.put(f"{DAY}{NAME}/_SUCCESS", b"2")
    assert found(feed) == [("in force", NAME)]


@pytest.mark.parametrize("how", [["cp", "-a"], ["cp", "-r"]])
def test_a_copied_base_has_no_fault_and_a_replaced_file_is_one(tmp_path: Path, how: list[str]) -> None:
    feed = Feed(LocalBlackboard(tmp_path / "base"), "clean")
    for name in ("a", "b"):
        (tmp_path / name).write_text("data")
    update = publish_files(feed, PARTITION, [tmp_path / "a", tmp_path / "b"], now=NOW, owner="me")
    subprocess.run([*how, tmp_path / "base", tmp_path / "copy"], check=True)
    copy = Feed(LocalBlackboard(tmp_path / "copy"), "clean")
    assert [(each.kind, each.update) for each in verify(copy, now=LATER)] == [("copied", update.name)]
    assert [(each.kind, each.update) for each in verify(feed, now=LATER)] == []
    path = tmp_path / "base" / update.key("a")
    path.unlink()
    path.write_text("DATA")
    assert [(each.kind, each.update) for each in verify(feed, now=LATER)] == [("changed file", update.name)]


def test_a_file_rewritten_in_place_with_its_time_restored_is_a_fault(tmp_path: Path) -> None:
    feed = Feed(LocalBlackboard(tmp_path / "base"), "clean")
    (tmp_path / "a").write_text("data")
    update = publish_files(feed, PARTITION, [tmp_path / "a"], now=NOW, owner="me")
    path = tmp_path / "base" / update.key("a")
    before = path.stat()
    path.write_text("DATA")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    (finding,) = verify(feed, now=LATER)

    assert (finding.kind, finding.update) == ("changed file", update.name)
    assert "a has other content than was recorded" in finding.message


def test_of_a_copy_in_which_one_file_differs_only_this_file_is_a_fault(tmp_path: Path) -> None:
    feed = Feed(LocalBlackboard(tmp_path / "base"), "clean")
    for name in ("a", "b"):
        (tmp_path / name).write_text("data")
    update = publish_files(feed, PARTITION, [tmp_path / "a", tmp_path / "b"], now=NOW, owner="me")
    shutil.copytree(tmp_path / "base", tmp_path / "copy")
    (tmp_path / "copy" / update.key("b")).write_text("DATA")

    (finding,) = verify(Feed(LocalBlackboard(tmp_path / "copy"), "clean"), now=LATER)

    assert (finding.kind, finding.message.split()[0]) == ("changed file", "b")


def test_a_copy_of_an_update_whose_contents_were_not_recorded_is_a_note(tmp_path: Path) -> None:
    feed = Feed(LocalBlackboard(tmp_path / "base"), "clean")
    (tmp_path / "a").write_text("data")
    update = publish_files(feed, PARTITION, [tmp_path / "a"], now=NOW, owner="me")
    (record,) = (tmp_path / "base").glob("clean/.feed/records/*/*.json")
    content = json.loads(record.read_text())
    del content["files"][0]["digest"]  # as an earlier version wrote it
    record.write_text(json.dumps(content))
    (tmp_path / "base" / update.key("a")).write_text("DATA")

    assert [each.kind for each in verify(feed, now=LATER)] == ["copied"]
