"""Consumers of a feed: every update once, whatever happens in between, in few requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.blackboard import memory
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.file_feed import Change, Cursor, Feed, MixedFeedError, news
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.file_feed import plain

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
ROOT = "clean-ads/v1.0/"
DAY = f"{ROOT}2018-05-20/"
A, B, C, D = (f"20180521.1{hour}0000" for hour in range(4))


@pytest.fixture
def board() -> MemoryBlackboard:
    return MemoryBlackboard()


@pytest.fixture
def feed(board: MemoryBlackboard) -> Feed:
    return Feed(board, "clean-ads/v1.0")


def told(changes: list[Change]) -> list[tuple[str, str, str | None]]:
    return [(change.kind, change.name, change.update.name if change.update else None) for change in changes]


def look(feed: Feed, cursor: Cursor, **more: int) -> tuple[list[tuple[str, str, str | None]], Cursor]:
    changes, after = news(feed, cursor, now=NOW, **more)
    return told(changes), Cursor.from_json(after.to_json())


def test_a_first_look_brings_what_is_in_force_and_no_history(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, A)
    plain.publish(board, DAY, B)
    plain.publish(board, f"{ROOT}2018-05-19/", A)
    changes, cursor = news(feed, Cursor(), now=NOW)
    assert [(change.kind, change.partition, change.name) for change in changes] == [
        ("published", "2018-05-19", A),
        ("published", "2018-05-20", B),
    ]
    assert news(feed, cursor, now=NOW) == ([], cursor)


def test_an_update_of_the_first_second_there_is_is_delivered_once(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, "00010101.000000")
    changes, cursor = look(feed, Cursor())
    assert changes == [("published", "00010101.000000", "00010101.000000")]
    assert look(feed, cursor) == ([], cursor)


def test_a_first_look_at_the_beginning_of_time_brings_what_is_in_force(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, "00010101.000000")
    changes, _ = news(feed, Cursor(), now=datetime.min.replace(tzinfo=UTC))
    assert [change.name for change in changes] == ["00010101.000000"]


def test_updates_between_two_looks_are_delivered_in_order_and_only_the_newest_as_in_force(
    board: MemoryBlackboard, feed: Feed
) -> None:
    plain.publish(board, DAY, A)
    _, cursor = look(feed, Cursor())
    plain.publish(board, DAY, B)
    plain.publish(board, DAY, C)
    changes, cursor = look(feed, cursor)
    assert changes == [("older", B, C), ("published", C, C)]
    assert look(feed, cursor) == ([], cursor)


def test_an_update_that_becomes_valid_after_a_newer_one_is_delivered_late(board: MemoryBlackboard, feed: Feed) -> None:
    plain.write(board, DAY, A)
    plain.publish(board, DAY, B)
    _, cursor = look(feed, Cursor())
    plain.publish(board, DAY, A)
    changes, cursor = look(feed, cursor)
    assert changes == [("older", A, B)]
    assert look(feed, cursor) == ([], cursor)


def test_an_update_that_was_seen_incomplete_is_watched_beyond_the_horizon(board: MemoryBlackboard, feed: Feed) -> None:
    slow = "20180501.000000"
    plain.publish(board, DAY, "20180430.000000")
    _, cursor = look(feed, Cursor())
    plain.write(board, DAY, slow)
    _, cursor = look(feed, cursor)
    plain.publish(board, DAY, B)
    _, cursor = look(feed, cursor)
    plain.publish(board, DAY, slow)
    changes, cursor = look(feed, cursor)
    assert changes == [("older", slow, B)]
    assert look(feed, cursor) == ([], cursor)


@pytest.mark.parametrize("how", ["manifest removed", "file added", "manifest never valid"])
def test_the_loss_of_what_was_latest_is_told_once_with_what_is_in_force_now(
    board: MemoryBlackboard, feed: Feed, how: str
) -> None:
    plain.publish(board, DAY, A)
    plain.publish(board, DAY, B)
    _, cursor = look(feed, Cursor())
    match how:
        case "manifest removed":
            plain.invalidate(board, DAY, B)
        case "file added":
            board.put(f"{DAY}{B}/invalid", b"")
        case "manifest never valid":
            board.put(f"{DAY}{B}/_SUCCESS", b"-1")
    changes, cursor = look(feed, cursor)
    assert changes == [("invalidated", B, A)]
    assert look(feed, cursor) == ([], cursor)


def test_what_is_in_force_is_found_in_history_that_was_jumped_over(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, "20180101.000000", files=2000)
    plain.publish(board, DAY, "20180520.000000")
    _, cursor = look(feed, Cursor())
    plain.invalidate(board, DAY, "20180520.000000")
    changes, cursor = look(feed, cursor)
    assert changes == [("invalidated", "20180520.000000", "20180101.000000")]
    assert look(feed, cursor) == ([], cursor)


def test_a_partition_that_is_gone_is_an_invalidation_without_anything_in_force(
    board: MemoryBlackboard, feed: Feed
) -> None:
    plain.publish(board, DAY, A)
    _, cursor = look(feed, Cursor())
    board.delete(*board.objects())
    changes, cursor = look(feed, cursor)
    assert changes == [("invalidated", A, None)]
    assert look(feed, cursor) == ([], cursor)


def test_an_update_that_comes_back_in_force_is_published_again(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, A)
    plain.publish(board, DAY, B)
    _, cursor = look(feed, Cursor())
    plain.invalidate(board, DAY, B)
    _, cursor = look(feed, cursor)
    plain.publish(board, DAY, B)
    changes, cursor = look(feed, cursor)
    assert changes == [("published", B, B)]
    assert look(feed, cursor) == ([], cursor)


def test_an_older_update_that_retention_removes_is_no_news(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, A)
    plain.publish(board, DAY, B)
    _, cursor = look(feed, Cursor())
    plain.invalidate(board, DAY, A)
    assert look(feed, cursor)[0] == []


def test_what_was_replaced_and_removed_between_two_looks_is_no_invalidation(
    board: MemoryBlackboard, feed: Feed
) -> None:
    plain.publish(board, DAY, A)
    _, cursor = look(feed, Cursor())
    plain.publish(board, DAY, B)
    plain.invalidate(board, DAY, A)
    assert look(feed, cursor)[0] == [("published", B, B)]


def test_everything_in_a_partition_that_is_new_is_news(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, B)
    _, cursor = look(feed, Cursor())
    new = f"{ROOT}2018-05-21/"
    plain.publish(board, new, "20180101.000000")
    plain.publish(board, new, A)
    assert look(feed, cursor)[0] == [("older", "20180101.000000", A), ("published", A, A)]


def test_a_limit_leaves_the_rest_for_the_next_look(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, A)
    plain.publish(board, f"{ROOT}2018-05-21/", A)
    first, cursor = look(feed, Cursor(), limit=1)
    second, cursor = look(feed, cursor, limit=1)
    assert (len(first), len(second)) == (1, 1)
    plain.publish(board, DAY, B)
    plain.publish(board, DAY, C)
    plain.publish(board, DAY, D)
    delivered = []
    for _ in range(4):
        changes, cursor = look(feed, cursor, limit=1)
        delivered += changes
    assert delivered == [("older", B, D), ("older", C, D), ("published", D, D)]


def test_a_feed_without_partitions_has_news_too(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, ROOT, A)
    board.put(f"{ROOT}.feed/claims/{A}", b"{}")
    changes, cursor = news(feed, Cursor(), now=NOW)
    assert [(change.kind, change.partition, change.name) for change in changes] == [("published", None, A)]
    assert changes[0].sentence() == f"update {A} was published"
    assert news(feed, cursor, now=NOW)[0] == []


def test_updates_and_partitions_at_one_level_are_an_error(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, ROOT, A)
    plain.publish(board, DAY, A)
    with pytest.raises(MixedFeedError, match="one level"):
        news(feed, Cursor(), now=NOW)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "null",
        "[]",
        "{}",
        '{"format": 2, "complete": true, "partitions": {}}',
        '{"format": 1, "complete": true, "partitions": {"x": 7}}',
        '{"format": 1, "complete": true, "partitions": {"x": ["../..", [], [], ""]}}',
        '{"format": 1, "complete": true, "partitions": {"x": [null, [], [], ""]}}',
    ],
)
def test_a_cursor_that_cannot_be_read_starts_afresh(text: str) -> None:
    assert Cursor.from_json(text) == Cursor()


@given(st.text())
def test_no_text_makes_a_cursor_fail(text: str) -> None:
    assert isinstance(Cursor.from_json(text), Cursor)


def test_a_cursor_is_a_name_for_most_partitions(board: MemoryBlackboard, feed: Feed) -> None:
    for day in range(1, 31):
        plain.publish(board, f"{ROOT}2018-04-{day:02}/", A)
    _, cursor = look(feed, Cursor())
    assert len(cursor.to_json()) < 30 * 40


def test_sentences_tell_people_what_happened(board: MemoryBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, A)
    _, cursor = look(feed, Cursor())
    plain.invalidate(board, DAY, A)
    (change,), _ = news(feed, cursor, now=NOW)
    assert change.sentence() == f"2018-05-20: update {A} is not valid any more, nothing valid is left"


def test_no_news_in_many_partitions_costs_a_listing_of_their_keys() -> None:
    board = MemoryBlackboard()
    for day in range(400):
        plain.publish(board, f"{ROOT}{NOW.date() - timedelta(days=day)}/", A, files=4)
    recording = RecordingBlackboard(board)
    feed = Feed(recording, "clean-ads/v1.0")
    _, cursor = news(feed, Cursor(), now=NOW)
    recording.forget()
    assert news(feed, cursor, now=NOW)[0] == []
    # One more than their keys fill, as the update at the end of a page is listed again whole; and no manifest is read.
    assert recording.counts() == {"page": 3}
    assert set(recording.counts()) <= {"page", "read"}
    assert recording.counts()["read"] <= 1, "only the update that a page tore is read"


def test_no_news_in_partitions_of_long_history_costs_a_listing_each_at_most() -> None:
    board = MemoryBlackboard()
    for day in range(3):
        prefix = f"{ROOT}{NOW.date() - timedelta(days=day)}/"
        for hour in range(3000):
            board.put(f"{prefix}{datetime(2017, 1, 1, tzinfo=UTC) + timedelta(hours=hour):%Y%m%d.%H%M%S}/part", b"")
        plain.publish(board, prefix, A)
    recording = RecordingBlackboard(board)
    feed = Feed(recording, "clean-ads/v1.0")
    _, cursor = news(feed, Cursor(), now=NOW)
    recording.forget()
    assert news(feed, cursor, now=NOW)[0] == []
    assert recording.counts()["page"] <= 4


PARTITIONS = ("2018-05-20", "2018-05-21")
NAMES = st.integers(0, 11).map(lambda half_hour: f"20180521.{10 + half_hour // 2:02}{30 * (half_hour % 2):02}00")
KINDS = ("write", "publish", "invalidate", "spoil", "remove")
EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["write", "publish", "invalidate", "spoil", "remove"]), st.sampled_from(PARTITIONS), NAMES
        ),
        st.tuples(st.just("look"), st.sampled_from([None, 1, 2])),
        st.tuples(st.just("fall back"), st.integers(0, 20)),
    ),
    max_size=40,
)


class Consumer:
    """Keeps its deliveries together with its cursor, and can fall back to an earlier state of both."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.states: list[tuple[str, list[Change]]] = [("", [])]

    def look(self, limit: int | None) -> int:
        text, log = self.states[-1]
        changes, cursor = news(self.feed, Cursor.from_json(text), now=NOW, limit=limit)
        assert limit is None or len(changes) <= limit
        self.states.append((cursor.to_json(), log + changes))
        return len(changes)

    def fall_back(self, steps: int) -> None:
        # The first look stays: what it took as history depends on when it was.
        del self.states[max(2, len(self.states) - steps) :]


def apply(board: MemoryBlackboard, kind: str, partition: str, name: str) -> None:
    prefix = f"{ROOT}{partition}/"
    match kind:
        case "write":
            plain.write(board, prefix, name)
        case "publish":
            board.delete(f"{prefix}{name}/invalid")
            plain.publish(board, prefix, name)
        case "invalidate":
            plain.invalidate(board, prefix, name)
        case "spoil":
            board.put(f"{prefix}{name}/invalid", b"")
        case "remove":
            board.delete(*(key for key in board.objects() if key.startswith(f"{prefix}{name}/")))


@settings(max_examples=300, deadline=None)
@given(before=EVENTS, events=EVENTS, page_size=st.sampled_from([2, 3, 7, 1000]))
def test_every_update_is_delivered_once_through_restarts_and_limits(before, events, page_size) -> None:
    board = MemoryBlackboard()
    consumer = Consumer(Feed(board, "clean-ads/v1.0"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "PAGE_SIZE", page_size)
        play(board, consumer, [event for event in before if event[0] in KINDS])
        history = {partition: set(valid_in(board, partition)) for partition in PARTITIONS}
        consumer.look(None)
        play(board, consumer, events)
        for limit in (1, 2, 1, 2, None, None):
            consumer.look(limit)
        assert consumer.look(None) == 0
    for partition in PARTITIONS:
        changes = [change for change in consumer.states[-1][1] if change.partition == partition]
        assert_once(changes, set(valid_in(board, partition)), history[partition])


def play(board: MemoryBlackboard, consumer: Consumer, events) -> None:
    for event in events:
        match event:
            case ("look", limit):
                consumer.look(limit)
            case ("fall back", steps):
                consumer.fall_back(steps)
            case _:
                apply(board, *event)


def valid_in(board: MemoryBlackboard, partition: str) -> dict[str, set[str]]:
    return plain.valid_updates(board.objects(), f"{ROOT}{partition}/")


def assert_once(changes: list[Change], valid: set[str], history: set[str]) -> None:
    """All that is valid was delivered, save the history before, after its last loss; and once between two losses."""
    in_force = changes[-1].update.name if changes and changes[-1].update else None
    assert in_force == max(valid, default=None)
    since_loss: set[str] = set()
    held: set[str] = set()
    for change in changes:
        if change.kind == "invalidated":
            since_loss.clear()
            held.discard(change.name)
        else:
            assert change.name not in since_loss, "delivered twice, and nothing was lost in between"
            since_loss.add(change.name)
            held.add(change.name)
    assert valid - history <= held
