"""A start publishes one update, whoever stops where; without a start nothing is asked of storage."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Entry, UnavailableError
from feed_assets.file_feed import (
    Column,
    Facts,
    Feed,
    FeedInput,
    Policy,
    RawFile,
    RawInput,
    Update,
    carry_out,
    claim,
    invalidate,
    latest,
    plan,
    publish,
    publish_both,
    read_record,
    reject_both,
    stage,
    staged_files,
    verify,
)
from feed_assets.file_feed.control import stored_record
from feed_assets.file_feed.errors import NotPublishedError, SchemaChangeError, StartTakenError
from feed_assets.file_feed.read_sets import summarized
from feed_assets.file_feed.record import Record
from feed_assets.file_feed.schema import promise
from feed_assets.file_feed.staging import Staged, staged_of
from feed_assets.file_feed.start_objects import START, drop_start_objects, start_digest, start_objects
from feed_assets_tests.blackboard.recording import RecordingBlackboard

NOW = datetime(2019, 11, 28, 16, tzinfo=UTC)
DAY = "2019-11-27"
LOCATION = "clean-ads/v1.0"
READ = (FeedInput("ads/v1.0", DAY, "20191128.120000"),)


def facts(forced: str | None = "", **changes: Any) -> Facts:
    details = {} if forced is None else {START: forced}
    return replace(Facts(inputs=READ, code_version="1", config_digest="c", details=details), **changes)


def staged(feed: Feed, made_from: Facts, *, owner: str = "run", partition: str | None = DAY) -> Staged:
    claimed = claim(feed, partition, now=NOW, owner=owner)
    feed.blackboard.create(f"{claimed.prefix}part-0", owner.encode())
    return stage(claimed, staged_files(claimed, 1), made_from, now=NOW)


def state(feed: Feed, update: Staged) -> str:
    record = read_record(feed, update.claim.partition, update.claim.name)
    assert record is not None
    return record.state


def in_force(feed: Feed, partition: str | None = DAY) -> str | None:
    update = latest(feed, partition, now=NOW + timedelta(hours=1))
    return update.name if update else None


def announced(update: Staged) -> None:
    """Publish up to the moment before the manifest, as a process does that is killed there."""

    class Killed(BaseException):
        pass

    class Dies(RecordingBlackboard):
        def create(self, key: str, data: bytes) -> Entry:
            if key.endswith("_SUCCESS"):
                raise Killed
            return super().create(key, data)

    claimed = update.claim
    dying = replace(update, claim=replace(claimed, feed=Feed(Dies(claimed.feed.blackboard), LOCATION)))
    with pytest.raises(Killed):
        publish_both(dying, now=NOW)


@pytest.fixture(params=[True, False], ids=["tags tell the content", "tags as on a disk"])
def feed(request: pytest.FixtureRequest) -> Feed:
    return Feed(MemoryBlackboard(content_tags=request.param), LOCATION)


@pytest.mark.parametrize("partition", [DAY, None])
def test_the_second_update_of_a_start_is_rejected_and_names_the_first(feed: Feed, partition: str | None) -> None:
    one, other = (staged(feed, facts(), owner=each, partition=partition) for each in ("one", "other"))
    publish_both(other, now=NOW)
    publish_both(other, now=NOW)

    with pytest.raises(StartTakenError, match=r"20191128.160001 was made by the same code") as taken:
        publish_both(one, now=NOW)
    assert isinstance(taken.value.update, Update)
    assert (in_force(feed, partition), taken.value.update.name) == (other.claim.name, other.claim.name)
    assert (state(feed, one), state(feed, other)) == ("rejected", "published")


def test_an_update_whose_writer_was_killed_before_the_manifest_is_published_by_the_next_of_its_start(
    feed: Feed,
) -> None:
    first, second = staged(feed, facts(), owner="first"), staged(feed, facts(), owner="second")
    announced(first)
    assert in_force(feed) is None

    with pytest.raises(StartTakenError):
        publish_both(second, now=NOW)
    assert (in_force(feed), state(feed, first), state(feed, second)) == (first.claim.name, "published", "rejected")


def test_other_inputs_other_code_another_configuration_and_a_forced_start_are_other_starts(feed: Feed) -> None:
    newer = (FeedInput("ads/v1.0", DAY, "20191128.130000"),)
    starts = [
        facts(),
        facts(inputs=newer),
        facts(code_version="2"),
        facts(config_digest="d"),
        facts("store:2"),
        facts("store:3"),
    ]
    for each in starts:
        publish_both(staged(feed, each), now=NOW)
    assert len(list(start_objects(feed))) == len(starts)


def test_a_newer_update_of_a_context_input_is_another_start() -> None:
    def digest(update: str | None) -> str:
        context = FeedInput("clicks/v1.0", "2019-11-28", update, context=True)
        return start_digest(Record(DAY, "20191128.160000", "", "", (), facts(inputs=(*READ, context))))

    assert len({digest(None), digest("20191128.120000"), digest("20191128.130000")}) == 3


def test_a_start_is_the_same_whether_its_raw_files_are_in_the_record_or_beside_it() -> None:
    files = tuple(RawFile(f"{number % 24:02}/{number}.csv", 1, f"tag {number}") for number in range(500))
    whole = (RawInput("ads/shop", DAY, files),)
    kept, listing = summarized(whole)
    assert listing is not None

    def digest(inputs: tuple[RawInput, ...]) -> str:
        return start_digest(Record(DAY, "20191128.160000", "", "", (), facts(inputs=inputs)))

    assert digest(whole) == digest(kept)  # type: ignore[arg-type]
    assert digest(whole) != digest((replace(whole[0], files=files[1:]),))
    assert digest(whole) == digest((*whole, RawInput("ads/other", DAY, ())))


def test_the_place_of_an_update_that_is_gone_or_was_rejected_is_taken(feed: Feed) -> None:
    first, second, third = (staged(feed, facts(), owner=each) for each in ("1", "2", "3"))
    announced(first)
    stored = stored_record(feed, DAY, first.claim.name)
    assert stored is not None
    reject_both(staged_of(feed, stored), reason="the checks of its second audit", now=NOW)
    publish_both(second, now=NOW)
    assert in_force(feed) == second.claim.name
    invalidate(feed, DAY, second.claim.name, reason="wrong", author="me", now=NOW)
    policy = Policy(keep=1, younger_than=timedelta(0), longest_write=timedelta(0))
    later = NOW + timedelta(days=1)
    newest = staged(feed, facts(None))
    publish(newest, now=NOW)
    assert [each.removed for each in carry_out(feed, plan(feed, policy, now=later), now=later)] == [True] * 3

    again = staged(feed, facts(), owner="again")
    publish_both(again, now=NOW)
    assert in_force(feed) == again.claim.name
    assert third.claim.name < again.claim.name


def test_an_update_that_somebody_took_out_of_force_is_not_made_again_by_the_same_start(feed: Feed) -> None:
    first, second = staged(feed, facts()), staged(feed, facts())
    publish_both(first, now=NOW)
    invalidate(feed, DAY, first.claim.name, reason="wrong", author="me", now=NOW)

    with pytest.raises(StartTakenError, match="was taken out of force: force a new start") as taken:
        publish_both(second, now=NOW)
    assert taken.value.update is None
    assert (in_force(feed), state(feed, second)) == (None, "rejected")
    forced = staged(feed, facts("store:7"))
    publish_both(forced, now=NOW)
    assert in_force(feed) == forced.claim.name


def test_an_update_that_breaks_a_promise_made_since_is_rejected_and_its_place_is_taken(feed: Feed) -> None:
    whole, less = (Column("ad_id", "bigint"), Column("cost", "double")), (Column("ad_id", "bigint"),)
    first = staged(feed, facts(schema=less))
    announced(first)
    promise(feed, whole)
    second = staged(feed, facts(schema=whole))
    publish_both(second, now=NOW)

    assert (in_force(feed), state(feed, first)) == (second.claim.name, "rejected")
    with pytest.raises((NotPublishedError, SchemaChangeError)):
        publish_both(first, now=NOW)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"update": "x", "token": "y"}', b'{"update": "20180101.000000"}'])
def test_an_object_that_names_no_update_is_replaced_and_verify_tells(feed: Feed, content: bytes) -> None:
    first = staged(feed, facts())
    key = f"{LOCATION}/.feed/starts/{DAY}/{start_digest(first.record)}"
    feed.blackboard.create(key, content)
    assert [(each.kind, each.partition) for each in verify(feed, now=NOW) if each.kind == "start"] == [("start", DAY)]

    publish_both(first, now=NOW)
    assert in_force(feed) == first.claim.name
    assert json.loads(feed.blackboard.read(key).data)["update"] == first.claim.name
    assert verify(feed, now=NOW) == []


def test_retention_removes_the_objects_of_removed_updates_and_verify_misses_them(feed: Feed) -> None:
    updates = [staged(feed, facts(f"store:{number}")) for number in range(3)]
    other = staged(feed, facts(), partition="2019-11-28")
    for each in (*updates, other):
        publish_both(each, now=NOW)
    later = NOW + timedelta(days=3)
    removals = plan(feed, Policy(keep=1, younger_than=timedelta(0), longest_write=timedelta(0)), now=later)
    removed = {(each.removal.partition, each.removal.update) for each in carry_out(feed, removals, now=later)}
    assert [each.kind for each in verify(feed, now=later)] == ["orphan", "orphan"]

    assert drop_start_objects(feed, removed) == 2
    assert [each.update for each in start_objects(feed)] == [updates[-1].claim.name, other.claim.name]
    assert verify(feed, now=later) == []
    assert drop_start_objects(feed, removed) == 0


def test_without_a_start_publishing_asks_nothing_more_and_with_one_it_costs_one_write() -> None:
    def requests(forced: str | None) -> list[tuple[str, str]]:
        board = RecordingBlackboard(MemoryBlackboard())
        update = staged(Feed(board, LOCATION), facts(forced))
        board.forget()
        publish_both(update, now=NOW)
        parts = ((request.operation, request.key.removeprefix(f"{LOCATION}/.feed/")) for request in board.requests)
        return [(operation, key.removeprefix(f"{LOCATION}/").partition("/")[0]) for operation, key in parts]

    without, with_one = requests(None), requests("")
    assert without == [
        ("replace", "records"),
        ("create", DAY),
        ("page", DAY),
        ("replace", "records"),
        ("create", "changes"),
    ]
    assert with_one == [without[0], ("create", "starts"), *without[1:]]
    board = RecordingBlackboard(MemoryBlackboard())
    assert drop_start_objects(Feed(board, LOCATION), set()) == 0
    assert board.requests == ()


class LosesAnswers(RecordingBlackboard):
    """Writes of objects of starts succeed, and their answers are lost."""

    def create(self, key: str, data: bytes) -> Entry:
        entry = super().create(key, data)
        return self._lost(key, entry)

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        entry = super().replace(key, data, tag=tag)
        return self._lost(key, entry)

    def _lost(self, key: str, entry: Entry) -> Entry:
        if "/starts/" in key:
            raise UnavailableError(f"no answer about {key}")
        return entry


@pytest.mark.parametrize("there", [None, b"no object of ours"])
def test_a_lost_answer_about_the_object_is_found_out(there: bytes | None) -> None:
    feed = Feed(LosesAnswers(board := MemoryBlackboard()), LOCATION)
    update = staged(feed, facts())
    if there is not None:
        board.create(f"{LOCATION}/.feed/starts/{DAY}/{start_digest(update.record)}", there)
    publish_both(update, now=NOW)
    assert in_force(feed) == update.claim.name


def test_a_program_that_publishes_needs_no_more_than_the_record() -> None:
    """Whoever audits and publishes the staged update, the record says that it has a start."""
    board = MemoryBlackboard()
    first, second = staged(Feed(board, LOCATION), facts()), staged(Feed(board, LOCATION), facts())

    def found(update: Staged) -> Staged:
        stored = stored_record(Feed(board, LOCATION), DAY, update.claim.name)
        assert stored is not None
        return staged_of(Feed(board, LOCATION), stored)

    publish_both(found(first), now=NOW)
    with pytest.raises(StartTakenError):
        publish_both(found(second), now=NOW)
