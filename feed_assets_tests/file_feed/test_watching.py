"""Watching a feed of any size: by its change log in few requests, and by scans where the log says nothing."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.blackboard import memory
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard, UnavailableError
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets.file_feed import (
    Change,
    Facts,
    Feed,
    MixedFeedError,
    Policy,
    Watch,
    begun,
    carry_out,
    claim,
    continue_scan,
    drop_old_entries,
    invalidate,
    log_page,
    look_at_logged,
    plan,
    publish_files,
    reject,
    stage,
)
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.file_feed import plain, plain_reader

ROOT = "clean-ads/v1.0/"
LOG = f"{ROOT}.feed/changes/"
DAYS = ("2018-05-20", "2018-05-20.x", "2018-05-21")
A, B, C = (f"20180521.1{hour}0000" for hour in range(3))
START = datetime(2018, 5, 22, tzinfo=UTC)
INTERVAL = timedelta(minutes=10)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


class Consumer:
    """Knows what it was told last of each partition, and keeps its watch as text."""

    def __init__(self, feed: Feed, clock: Clock) -> None:
        self.feed, self.clock = feed, clock
        self.cursor = "null"
        self.known: dict[str, str] = {}
        self.events: list[tuple[str, str, str]] = []
        self.touched: set[str] = set()

    def look(self, *, scanned: int | None = None, most: int | None = None) -> list[tuple[str, str, str]]:
        """One tick: the log, at most so many entries of it, and the scan, at most so many partitions of it."""
        before, now = len(self.events), self.clock.now
        watch = Watch.from_plain(json.loads(self.cursor), now=now).scanning(INTERVAL, now=now)
        page = log_page(self.feed, watch.position, now=now)
        for look in look_at_logged(self.feed, page.new[:most], self.known, now=now):
            self.touched.add(look.partition or "")
            self.take(look.changes)
        left = page.new[most:] if most is not None else ()
        watch = replace(watch, position=page.position_before(left[0] if left else None))
        if watch.place is not None:
            place: str | None = None
            for number, look in enumerate(continue_scan(self.feed, watch, dict(self.known), now=now)):
                if number == scanned:
                    watch = replace(watch, place=place)
                    break
                place = look.partition or ""
                self.touched |= {place} if look.touched else set()
                self.take(look.changes)
            else:
                watch = replace(watch, place=None)
        self.cursor = json.dumps(watch.to_plain())
        return self.events[before:]

    def take(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            partition = change.partition or ""
            if change.kind == "older" and (partition, change.name) in {each[1:] for each in self.events}:
                continue
            self.events.append((change.kind, partition, change.name))
            if change.kind != "older":
                self.known[partition] = change.update.name if change.update else ""
        self.known = {partition: name for partition, name in self.known.items() if name}

    def settle(self) -> None:
        """Two whole scans."""
        for _ in range(2):
            self.clock.now += INTERVAL
            self.look()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(clock: Clock) -> MemoryBlackboard:
    return MemoryBlackboard(clock=clock)


@pytest.fixture
def feed(board: MemoryBlackboard) -> Feed:
    return Feed(board, ROOT[:-1])


@pytest.fixture
def consumer(feed: Feed, clock: Clock) -> Consumer:
    """One that has looked, and for which no scan is due."""
    consumer = Consumer(feed, clock)
    consumer.look()
    return consumer


def publish(feed: Feed, partition: str | None, clock: Clock, name: str = A) -> str:
    clock.now += timedelta(seconds=1)
    return publish_files(feed, partition, [], now=begun(name), owner="test").name


# --- the log ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [None, *DAYS])
def test_each_act_is_in_the_log_with_the_time_of_the_store(
    feed: Feed, board: MemoryBlackboard, clock: Clock, partition: str | None
) -> None:
    first, second = publish(feed, partition, clock), publish(feed, partition, clock, B)
    reject(stage(claim(feed, partition, now=begun(C), owner="test"), (), Facts(), now=START), reason="no", now=START)
    invalidate(feed, partition, second, reason="wrong", author="test", now=START)
    carry_out(feed, plan(feed, Policy(1, timedelta(0), timedelta(0)), now=START), now=START)
    inside = f"{partition}/" if partition else ""
    logged = {key.removeprefix(LOG) for key in board.objects() if key.startswith(LOG)}
    assert logged == {
        f"20180522/000001/{inside}{first}.published",
        f"20180522/000002/{inside}{second}.published",
        f"20180522/000002/{inside}{C}.rejected",
        f"20180522/000002/{inside}{second}.invalidated",
        f"20180522/000002/{inside}{second}.removed",
        f"20180522/000002/{inside}{C}.removed",
    }
    assert {
        (entry.partition, entry.update)
        for entry in log_page(feed, Watch.from_plain({}, now=START).position, now=clock.now).new
    } == {(partition, first), (partition, second), (partition, C)}


def test_an_update_is_published_whose_entry_storage_does_not_take(feed: Feed, clock: Clock) -> None:
    class NoLog(RecordingBlackboard):
        def create(self, key: str, data: bytes):
            if "/.feed/changes/" in key:
                raise UnavailableError(key)
            return super().create(key, data)

    assert publish(Feed(NoLog(feed.blackboard), feed.location), DAYS[0], clock) == A
    assert Consumer(feed, clock).look() == [("published", DAYS[0], A)]


@pytest.mark.parametrize("ahead", [False, True])
def test_an_entry_that_comes_late_is_read_once_also_if_another_is_dated_more_than_an_hour_ahead(
    feed: Feed, board: MemoryBlackboard, clock: Clock, consumer: Consumer, *, ahead: bool
) -> None:
    clock.now += timedelta(minutes=4)
    publish(feed, DAYS[0], clock)
    if ahead:
        board.put(f"{LOG}20180522/010500/x/{A}.published", b"")
    assert consumer.look() == [("published", DAYS[0], A)]
    plain.publish(board, f"{ROOT}{DAYS[1]}/", B)
    board.put(f"{LOG}20180522/000100/{DAYS[1]}/{B}.published", b"")
    assert consumer.look() == [("published", DAYS[1], B)]
    recording = RecordingBlackboard(board)
    consumer.feed = Feed(recording, feed.location)
    assert consumer.look() == []
    assert recording.counts() == {"page": 1}


def test_what_is_no_entry_and_what_is_dated_far_ahead_hides_nothing(
    feed: Feed, board: MemoryBlackboard, clock: Clock, consumer: Consumer
) -> None:
    for key in ("zzz", "99990101/000000/x/20180521.100000.published", "20180522/000001/stray", "20180522/000001/.x/y"):
        board.put(f"{LOG}{key}", b"")
    assert consumer.look() == []
    publish(feed, DAYS[0], clock)
    assert consumer.look() == [("published", DAYS[0], A)]


def test_more_entries_than_a_position_remembers_are_all_read_and_it_stays_small(
    feed: Feed, clock: Clock, consumer: Consumer
) -> None:
    for number in range(300):
        publish(feed, f"p{number:03}", clock)
    events = [event for _ in range(4) for event in consumer.look(most=100)]
    assert events == [("published", f"p{number:03}", A) for number in range(300)]
    assert len(consumer.cursor) < 1_500


def test_what_is_stored_of_a_feed_is_small_again_when_the_feed_is_quiet(
    feed: Feed, clock: Clock, consumer: Consumer
) -> None:
    quiet = len(consumer.cursor)
    published = [publish(feed, f"p{number}", clock) for number in range(90)]
    assert len(consumer.look()) == len(published)
    assert len(consumer.cursor) > quiet + 90 * len("12345678")

    clock.now += timedelta(minutes=30)
    consumer.look()
    assert len(consumer.cursor) < quiet + 100
    publish(feed, "another", clock, B)
    assert consumer.look() == [("published", "another", B)]


def test_entries_are_folded_by_age(feed: Feed, board: MemoryBlackboard, clock: Clock) -> None:
    publish(feed, DAYS[0], clock)
    clock.now += timedelta(hours=2)
    publish(feed, DAYS[1], clock)
    clock.now += timedelta(days=7) - timedelta(hours=1)
    assert (drop_old_entries(feed, now=clock.now), drop_old_entries(feed, now=clock.now)) == (1, 0)
    assert [key.split("/")[6] for key in board.objects() if key.startswith(LOG)] == [DAYS[1]]


# --- scans ------------------------------------------------------------------------------------------------------------


def test_what_other_programs_did_is_found_by_the_next_scan_and_not_before(
    feed: Feed, board: MemoryBlackboard, clock: Clock, consumer: Consumer
) -> None:
    publish(feed, DAYS[2], clock)
    consumer.look()
    plain.publish(board, f"{ROOT}{DAYS[0]}/", B)
    plain.publish(board, f"{ROOT}{DAYS[0]}/", A)
    plain.invalidate(board, f"{ROOT}{DAYS[2]}/", A)
    assert consumer.look() == []
    clock.now += INTERVAL
    assert consumer.look() == [("older", DAYS[0], A), ("published", DAYS[0], B), ("invalidated", DAYS[2], A)]
    consumer.settle()
    assert len(consumer.events) == 4


def test_a_store_that_states_whole_seconds_hides_nothing_that_was_published_right_after_the_first_scan(
    clock: Clock,
) -> None:
    board = MemoryBlackboard(clock=lambda: clock.now.replace(microsecond=0))
    clock.now += timedelta(milliseconds=200)
    consumer = Consumer(Feed(board, ROOT[:-1]), clock)
    assert consumer.look() == []
    clock.now += timedelta(milliseconds=200)
    for name in (A, B):
        plain.publish(board, f"{ROOT}{DAYS[0]}/", name)
    clock.now += INTERVAL
    assert consumer.look() == [("older", DAYS[0], A), ("published", DAYS[0], B)]


@pytest.mark.parametrize("minutes", [-14, 14])
def test_where_the_clock_of_the_store_is_minutes_off_the_news_is_found_all_the_same(clock: Clock, minutes: int) -> None:
    board = MemoryBlackboard(clock=lambda: clock.now + timedelta(minutes=minutes))
    consumer = Consumer(Feed(board, ROOT[:-1]), clock)
    plain.publish(board, f"{ROOT}{DAYS[0]}/", B)
    consumer.settle()
    consumer.settle()
    assert consumer.events == [("published", DAYS[0], B)]
    plain.publish(board, f"{ROOT}{DAYS[0]}/", A)
    clock.now += INTERVAL
    assert consumer.look() == [("older", DAYS[0], A)]


def test_an_entry_of_a_store_whose_clock_is_ahead_by_less_than_an_hour_is_read_at_once(clock: Clock) -> None:
    feed = Feed(MemoryBlackboard(clock=lambda: clock.now + timedelta(minutes=55)), ROOT[:-1])
    consumer = Consumer(feed, clock)
    consumer.look()
    publish(feed, DAYS[0], clock)
    assert consumer.look() == [("published", DAYS[0], A)]


def test_partitions_that_are_gone_are_told_once_with_nothing_in_force(
    feed: Feed, board: MemoryBlackboard, clock: Clock, consumer: Consumer
) -> None:
    for day in DAYS:
        publish(feed, day, clock)
    consumer.look()
    board.delete(*[key for key in board.objects() if key.startswith((f"{ROOT}{DAYS[0]}/", f"{ROOT}{DAYS[2]}/"))])
    clock.now += INTERVAL
    assert consumer.look() == [("invalidated", DAYS[0], A), ("invalidated", DAYS[2], A)]
    assert consumer.known == {DAYS[1]: A}


@pytest.mark.parametrize("depth", [1, 2_000])
def test_what_is_in_force_after_a_loss_is_found_in_history_that_was_jumped_over(
    feed: Feed, board: MemoryBlackboard, clock: Clock, depth: int
) -> None:
    plain.publish(board, f"{ROOT}{DAYS[0]}/", "20180101.000000", files=depth)
    plain.publish(board, f"{ROOT}{DAYS[0]}/", A)
    consumer = Consumer(feed, clock)
    assert consumer.look() == [("published", DAYS[0], A)]
    plain.invalidate(board, f"{ROOT}{DAYS[0]}/", A)
    clock.now += INTERVAL
    assert consumer.look() == [("invalidated", DAYS[0], A)]
    assert consumer.known == {DAYS[0]: "20180101.000000"}


def test_a_feed_without_partitions_is_watched_too(feed: Feed, board: MemoryBlackboard, clock: Clock) -> None:
    consumer = Consumer(feed, clock)
    assert publish(feed, None, clock) == A
    assert consumer.look() == [("published", "", A)]
    plain.publish(board, ROOT, C)
    plain.publish(board, ROOT, B)
    clock.now += INTERVAL
    assert consumer.look() == [("older", "", B), ("published", "", C)]
    plain.publish(board, f"{ROOT}{DAYS[0]}/", A)
    clock.now += INTERVAL
    with pytest.raises(MixedFeedError, match="one level"):
        consumer.look()


def test_a_change_that_the_consumer_knows_and_the_log_lacks_is_touched_by_the_scan(
    feed: Feed, board: MemoryBlackboard, clock: Clock, consumer: Consumer
) -> None:
    consumer.settle()
    clock.now += timedelta(hours=1)
    consumer.look()
    consumer.touched.clear()
    plain.publish(board, f"{ROOT}{DAYS[0]}/", A)
    consumer.known[DAYS[0]] = A
    clock.now += INTERVAL
    assert (consumer.look(), consumer.touched) == ([], {DAYS[0]})
    clock.now += timedelta(hours=1)
    consumer.look()
    consumer.touched.clear()
    clock.now += INTERVAL
    assert (consumer.look(), consumer.touched) == ([], set())


@pytest.mark.parametrize("cursor", ["null", "[]", '{"log": []}', '{"log": [1], "scan": ["x", 1, 2], "all": []}', '"x"'])
def test_a_watch_that_cannot_be_read_begins_afresh_and_tells_nothing_twice(
    feed: Feed, clock: Clock, consumer: Consumer, cursor: str
) -> None:
    publish(feed, DAYS[0], clock)
    consumer.look()
    consumer.touched.clear()
    consumer.cursor = cursor
    clock.now += INTERVAL
    assert consumer.look() == []
    assert consumer.touched == {DAYS[0]}


def test_a_clock_that_was_set_back_does_not_end_the_scans(
    feed: Feed, board: MemoryBlackboard, clock: Clock, consumer: Consumer
) -> None:
    clock.now += timedelta(days=1000)
    consumer.look()
    clock.now -= timedelta(days=1000)
    plain.publish(board, f"{ROOT}{DAYS[0]}/", A)
    assert consumer.look() == [("published", DAYS[0], A)]


# --- requests ---------------------------------------------------------------------------------------------------------


def large(clock: Clock, partitions: int = 10_000) -> MemoryBlackboard:
    names = [f"p{number:05}" for number in range(partitions)]
    keys = {f"{ROOT}{name}/{A}/{path}": b"1" for name in names for path in ("_SUCCESS", "part-0")}
    # A log that nobody has folded: it is listed from the consumer's position on.
    keys |= {f"{LOG}20180401/000000/{name}/{A}.published": b"" for name in names}
    return MemoryBlackboard(keys, clock=clock)


def test_a_look_at_ten_thousand_partitions_and_a_long_log_costs_a_listing_and_one_for_each_that_changed(
    clock: Clock,
) -> None:
    board = RecordingBlackboard(large(clock))
    feed = Feed(board, ROOT[:-1])
    consumer = Consumer(feed, clock)
    consumer.look()
    assert len(consumer.known) == 10_000
    assert len(consumer.cursor) < 200
    pages = {}
    for changed in ([], [5], range(0, 9_000, 300), range(100, 130)):
        for number in changed:
            publish(feed, f"p{number:05}", clock, C)
        board.forget()
        assert len(consumer.look()) == len(changed)
        assert set(board.counts()) == {"page"}
        pages[len(changed), str(changed)] = board.counts()["page"]
    assert list(pages.values()) == [1, 1 + 1, 1 + 15, 1 + 1]  # two of each fit a page


def test_a_scan_is_bounded_and_goes_on_where_it_stopped(clock: Clock) -> None:
    board = RecordingBlackboard(large(clock, 3_000))
    consumer = Consumer(Feed(board, ROOT[:-1]), clock)
    events, pages = [], []
    for _ in range(3):
        board.forget()
        events.append(consumer.look(scanned=1_250))
        pages.append(board.counts()["page"])
    assert [len(each) for each in events] == [1_250, 1_250, 500]
    assert len({event for each in events for event in each}) == 3_000
    assert max(pages) <= 1 + 4
    clock.now += INTERVAL
    assert consumer.look() == []


@pytest.mark.parametrize("changed", [0, 1, 30])
def test_a_store_is_asked_as_often_as_the_memory(versitygw, clock: Clock, changed: int) -> None:
    s3_client = versitygw.client()
    bucket = f"watching-{changed}"
    s3_client.create_bucket(Bucket=bucket)
    counts = []
    boards: list[Blackboard] = [S3Blackboard(s3_client, bucket), MemoryBlackboard(clock=lambda: datetime.now(UTC))]
    for inner in boards:
        board = RecordingBlackboard(inner)
        feed, clock.now = Feed(board, ROOT[:-1]), datetime.now(UTC)
        consumer = Consumer(feed, clock)
        consumer.look()
        for number in range(changed):
            publish_files(feed, f"p{number:02}", [], now=clock.now, owner="test")
        board.forget()
        clock.now = datetime.now(UTC)
        assert len(consumer.look()) == changed
        counts.append(board.counts())
    assert counts[0] == counts[1] == {"page": 1 + min(changed, 1)}


def test_a_tick_over_a_hundred_feeds_without_news_is_a_listing_each_at_the_wire(versitygw, clock: Clock) -> None:
    """Of 20 partitions each; `test_sizes` has feeds of 10,000 in memory."""
    feeds = [f"feed-{number:03}/v1.0" for number in range(100)]
    names = [f"p{number:03}/{A}" for number in range(20)]
    log = {f"{feed}/.feed/changes/20180521/235900/{name}.published": b"" for feed in feeds for name in names}
    versitygw.place("a-hundred-feeds", log | {f"{feed}/{name}/_SUCCESS": b"0" for feed in feeds for name in names})
    client = versitygw.client()
    sent: Counter[str] = Counter()
    client.meta.events.register("before-call.s3", lambda model, **_: sent.update([model.name]))
    board = S3Blackboard(client, "a-hundred-feeds")
    consumers = [Consumer(Feed(board, feed), clock) for feed in feeds]
    consumers[0].look()
    assert len(consumers[0].known) == len(names)
    for consumer in consumers[1:]:  # the same names and times
        consumer.cursor, consumer.known = consumers[0].cursor, dict(consumers[0].known)
    sent.clear()
    assert [consumer.look() for consumer in consumers] == [[]] * len(feeds)
    assert sent == {"ListObjectsV2": len(feeds)}


def test_a_manifest_whose_tag_does_not_tell_is_read_once_while_it_stays_the_same(clock: Clock, tmp_path: Path) -> None:
    for inner in (MemoryBlackboard(content_tags=False, clock=clock), LocalBlackboard(tmp_path)):
        board = RecordingBlackboard(inner)
        consumer = Consumer(Feed(board, ROOT[:-1]), clock)
        for day in DAYS:
            publish(consumer.feed, day, clock)
        a_minute_ago(tmp_path)
        reads = []
        for _ in range(3):
            board.forget()
            consumer.settle()
            reads.append(board.counts()["read"])
        invalidate(consumer.feed, DAYS[1], A, reason="wrong", author="test", now=START)
        publish(consumer.feed, DAYS[1], clock, B)
        a_minute_ago(tmp_path)
        board.forget()
        consumer.settle()
        manifests = sorted(each.key for each in board.requests if each.operation == "read")
        assert (reads, manifests) == ([3, 0, 0], [f"{ROOT}{DAYS[1]}/{name}/_SUCCESS" for name in (A, B)])


def a_minute_ago(directory: Path) -> None:
    """Date these manifests back: a file that was written in this moment may still change and keep its time."""
    for path in directory.rglob("_SUCCESS"):
        if (written := path.stat().st_mtime) > time.time() - 30:
            os.utime(path, (written - 60, written - 60))


# --- any order --------------------------------------------------------------------------------------------------------

HALF_HOURS = st.integers(0, 4).map(lambda number: f"20180521.{10 + number // 2:02}{30 * (number % 2):02}00")
FOREIGN = st.sampled_from(["write", "publish", "invalidate", "spoil", "remove"])
OWN = st.sampled_from(["own publish", "own reject", "own invalidate", "own removal"])
EVENTS = st.lists(
    st.one_of(
        st.tuples(FOREIGN | OWN, st.sampled_from(DAYS), HALF_HOURS),
        st.tuples(st.sampled_from(["lose", "repeat"]), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.sampled_from([1, 60, 400, 3000])),
        st.tuples(st.just("look"), st.sampled_from([1, 2, None]), st.sampled_from([1, 3, None])),
        st.tuples(st.just("restart"), st.integers(1, 5)),
    ),
    max_size=30,
)


def foreign(board: MemoryBlackboard, kind: str, prefix: str, name: str) -> None:
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


def own(feed: Feed, board: MemoryBlackboard, kind: str, partition: str, name: str) -> None:
    match kind:
        case "own publish":
            publish_files(feed, partition, [], now=begun(name), owner="test")
        case "own reject":
            claimed = claim(feed, partition, now=begun(name), owner="test")
            reject(stage(claimed, (), Facts(), now=START), reason="no", now=START)
        case "own invalidate":
            if latest := plain.latest_name(board.objects(), f"{ROOT}{partition}/"):
                with suppress(Exception):  # another program left it without what an invalidation needs
                    invalidate(feed, partition, latest, reason="wrong", author="test", now=START)
        case "own removal":
            policy = Policy(1, timedelta(0), timedelta(0))
            carry_out(feed, plan(feed, policy, now=START, within=partition), now=START)


@settings(max_examples=150)
@given(before=EVENTS, events=EVENTS, page_size=st.sampled_from([2, 3, 7, 1000]))
def test_whatever_happens_in_the_end_what_is_in_force_was_told_and_what_is_new_was_told_once(
    before, events, page_size
) -> None:
    clock = Clock()
    board = MemoryBlackboard(clock=clock)
    feed = Feed(board, ROOT[:-1])
    consumers = [Consumer(feed, clock) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "PAGE_SIZE", page_size)
        play(feed, board, clock, [], [event for event in before if event[0] != "look"])
        clock.now += timedelta(hours=1)
        started = clock.now
        for consumer in consumers:
            consumer.look()
        play(feed, board, clock, consumers, events)
        for consumer in consumers:
            while page_size < 1000 and log_page(feed, position(consumer), now=clock.now).new:
                consumer.look()
            consumer.settle()
            count = len(consumer.events)
            consumer.settle()
            assert len(consumer.events) == count
    for consumer in consumers:
        for partition in DAYS:
            prefix = f"{ROOT}{partition}/"
            assert consumer.known.get(partition) == plain.latest_name(board.objects(), prefix)
            names = {name for _, day, name in consumer.events if day == partition} | {consumer.known.get(partition)}
            for name in plain_reader.updates(board.objects(), prefix):
                (manifest,) = (each for each in board.page(prefix).entries if each.key == f"{prefix}{name}/_SUCCESS")
                assert manifest.modified < started or name in names


def position(consumer: Consumer):
    return Watch.from_plain(json.loads(consumer.cursor), now=consumer.clock.now).position


def play(feed: Feed, board: MemoryBlackboard, clock: Clock, consumers: list[Consumer], events) -> None:
    cursors = {consumer: [consumer.cursor] for consumer in consumers}
    for event in events:
        clock.now += timedelta(seconds=1)
        match event:
            case ("look", scanned, most):
                for consumer in consumers:
                    consumer.look(scanned=scanned, most=most)
                    cursors[consumer].append(consumer.cursor)
            case ("restart", steps):  # as after a tick whose events are kept, and its cursor is not
                for consumer in consumers:
                    consumer.cursor = cursors[consumer][-steps:][0]
            case ("wait", seconds):
                clock.now += timedelta(seconds=seconds)
            case ("lose" | "repeat" as kind, number):
                spoil_log(board, clock, kind, number)
            case (str() as kind, partition, name) if kind.startswith("own"):
                own(feed, board, kind, partition, name)
            case (kind, partition, name):
                foreign(board, kind, f"{ROOT}{partition}/", name)


def spoil_log(board: MemoryBlackboard, clock: Clock, kind: str, number: int) -> None:
    """Take each tenth entry away from this one on, or add it once more."""
    for key in [key for key in board.objects() if key.startswith(LOG)][number::10]:
        if kind == "lose":
            board.delete(key)
        else:
            board.put(f"{LOG}{clock.now:%Y%m%d/%H%M%S}/{'/'.join(key.split('/')[6:])}", b"")
