"""Tags and pins: what people and readers keep from retention."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Entry
from feed_assets.file_feed import (
    BadNameError,
    Feed,
    FeedError,
    NoValidUpdateError,
    Pin,
    Tag,
    pin,
    pins,
    tag,
    tags,
    unpin,
    untag,
)
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.file_feed import plain

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
DAY = "2018-05-20"
A, B = "20180521.100000", "20180521.110000"


@pytest.fixture
def board() -> MemoryBlackboard:
    board = MemoryBlackboard()
    for prefix in (f"partitioned/v1.0/{DAY}/", "whole/v1.0/"):
        plain.publish(board, prefix, A)
        plain.publish(board, prefix, B)
    return board


@pytest.fixture(params=[DAY, None])
def place(request: pytest.FixtureRequest, board: MemoryBlackboard) -> tuple[Feed, str | None]:
    return Feed(board, "whole/v1.0" if request.param is None else "partitioned/v1.0"), request.param


def test_a_tag_names_an_update_until_it_is_taken_away(place: tuple[Feed, str | None]) -> None:
    feed, partition = place
    given = tag(feed, partition, A, "release-1")
    assert given == Tag(partition, A, "release-1")
    assert tag(feed, partition, A, "release-1") == given
    assert tags(feed) == [given]
    untag(feed, partition, "release-1")
    untag(feed, partition, "release-1")
    assert tags(feed) == []


def test_a_name_is_given_once_in_a_partition(place: tuple[Feed, str | None]) -> None:
    feed, partition = place
    tag(feed, partition, A, "release-1")
    with pytest.raises(FeedError, match=f"name of {A} already"):
        tag(feed, partition, B, "release-1")
    assert tags(feed) == [Tag(partition, A, "release-1")]


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\nb"])
def test_an_unsafe_name_is_refused(board: MemoryBlackboard, name: str) -> None:
    feed = Feed(board, "partitioned/v1.0")
    before = board.objects()
    with pytest.raises(BadNameError):
        tag(feed, DAY, A, name)
    with pytest.raises(BadNameError):
        pin(feed, DAY, A, until=NOW, holder=name)
    assert board.objects() == before


def test_a_damaged_tag_is_an_error_as_what_it_holds_is_not_known(board: MemoryBlackboard) -> None:
    feed = Feed(board, "partitioned/v1.0")
    tag(feed, DAY, A, "release-1")
    (key,) = (key for key in board.objects() if "/.feed/tags/" in key)
    board.put(key, b"{")
    with pytest.raises(FeedError, match="damaged"):
        tags(feed)


def test_a_pin_holds_until_its_time(place: tuple[Feed, str | None]) -> None:
    feed, partition = place
    until = NOW + timedelta(minutes=10)
    held = pin(feed, partition, A, until=until, holder="run-7.retry")
    assert held == Pin(partition, A, until, "run-7.retry")
    assert pin(feed, partition, A, until=until, holder="run-7.retry") == held
    assert pins(feed, now=until - timedelta(seconds=1)) == [held]
    assert pins(feed, now=until) == []


def test_a_pin_is_rounded_up_to_the_second_and_taken_in_any_zone(board: MemoryBlackboard) -> None:
    feed = Feed(board, "partitioned/v1.0")
    until = datetime.fromisoformat("2018-05-21T18:00:00.000001+02:00")
    assert pin(feed, DAY, A, until=until, holder="r").until == NOW + timedelta(seconds=1)


def test_a_lifted_pin_holds_no_more(place: tuple[Feed, str | None]) -> None:
    feed, partition = place
    held = pin(feed, partition, A, until=NOW, holder="r")
    unpin(feed, held)
    unpin(feed, held)
    assert pins(feed, now=NOW - timedelta(hours=1)) == []


def test_finding_pins_reads_no_object(board: MemoryBlackboard) -> None:
    recording = RecordingBlackboard(board)
    feed = Feed(recording, "partitioned/v1.0")
    pin(feed, DAY, A, until=NOW + timedelta(1), holder="r")
    recording.forget()
    assert len(pins(feed, now=NOW)) == 1
    assert recording.counts() == {"page": 1}


@pytest.mark.parametrize("state", ["never there", "taken over", "being removed", "removed, and taken over again"])
def test_what_is_not_there_or_is_being_removed_cannot_be_held(board: MemoryBlackboard, state: str) -> None:
    feed = Feed(board, "partitioned/v1.0")
    update = "20180521.120000" if state == "never there" else A
    if state != "never there":
        board.put(f"partitioned/v1.0/{DAY}/{A}/_SUCCESS", b"-1" if state == "being removed" else b"-1123456781")
    if state == "removed, and taken over again":
        board.delete(f"partitioned/v1.0/{DAY}/{A}/part-0")
    before = board.objects()
    with pytest.raises(NoValidUpdateError, match=update):
        tag(feed, DAY, update, "release-1")
    with pytest.raises(NoValidUpdateError, match=update):
        pin(feed, DAY, update, until=NOW, holder="r")
    assert board.objects() == before


def test_an_incomplete_update_can_be_held_for_a_closer_look(board: MemoryBlackboard) -> None:
    feed = Feed(board, "partitioned/v1.0")
    plain.invalidate(board, f"partitioned/v1.0/{DAY}/", A)
    assert tag(feed, DAY, A, "look") in tags(feed)


def test_an_update_that_is_only_a_directory_marker_cannot_be_held(board: MemoryBlackboard) -> None:
    feed = Feed(board, "partitioned/v1.0")
    board.put(f"partitioned/v1.0/{DAY}/20180521.120000/", b"")
    with pytest.raises(NoValidUpdateError):
        tag(feed, DAY, "20180521.120000", "release-1")


class SendsTwice(MemoryBlackboard):
    """Loses the answer to each object it creates and sends it again, as clients of S3 do: it meets its own."""

    def create(self, key: str, data: bytes) -> Entry:
        super().create(key, data)
        return super().create(key, data)


def test_what_is_not_there_cannot_be_held_either_where_the_answer_was_lost() -> None:
    board = SendsTwice()
    feed = Feed(board, "partitioned/v1.0")
    with pytest.raises(NoValidUpdateError):
        tag(feed, DAY, A, "release-1")
    with pytest.raises(NoValidUpdateError):
        pin(feed, DAY, A, until=NOW, holder="r")
    assert board.objects() == {}
    plain.publish(board, f"partitioned/v1.0/{DAY}/", A)
    assert [tag(feed, DAY, A, "release-1")] == tags(feed)
    assert [pin(feed, DAY, A, until=NOW + timedelta(1), holder="r")] == pins(feed, now=NOW)


def test_a_hold_that_was_there_stays_where_it_is_set_again_while_retention_has_taken_its_update_over(
    board: MemoryBlackboard,
) -> None:
    feed = Feed(board, "partitioned/v1.0")
    held = tag(feed, DAY, A, "release-1")
    board.put(f"partitioned/v1.0/{DAY}/{A}/_SUCCESS", b"-1000000011")
    with pytest.raises(NoValidUpdateError):
        tag(feed, DAY, A, "release-1")
    assert tags(feed) == [held]


def test_a_directory_marker_in_the_control_area_holds_nothing(place: tuple[Feed, str | None]) -> None:
    feed, partition = place
    held = tag(feed, partition, A, "release-1")
    for area in ("tags", "pins"):
        for key in {feed.control(area), feed.control(area, partition)}:
            feed.blackboard.put(key, b"")
    assert tags(feed) == [held]
    assert pins(feed, now=NOW) == []
