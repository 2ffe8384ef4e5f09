"""Failures between manifest and record: the record never says `invalidated` or `rejected` of a valid update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard, BlackboardError, UnavailableError
from feed_assets.file_feed import (
    Facts,
    Feed,
    FeedError,
    Policy,
    carry_out,
    claim,
    find_staged,
    history,
    invalidate,
    latest,
    plan,
    publish,
    publish_files,
    read_record,
    reject,
    stage,
    verify,
)
from feed_assets.file_feed.staging import Staged
from feed_assets_tests.blackboard.interleavings import Actor, Reached, explore
from feed_assets_tests.file_feed import plain
from feed_assets_tests.harness import Interposed

DAY, NAME = "2018-05-20", "20180521.160000"
NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
FAILURES = (FeedError, BlackboardError)


def refusing(board: Blackboard, *ends: str, operations: tuple[str, ...] = ("create", "replace")) -> Blackboard:
    """The blackboard as somebody sees it who may not write keys with one of these in them."""

    def refuse(operation: str, key: str) -> None:
        if operation in operations and any(each in key for each in ends):
            message = f"Could not {operation} {key}: Permission denied. Give the user who runs this access to it."
            raise UnavailableError(message, transient=False)

    return Interposed(board, refuse)


def staged(feed: Feed) -> Staged:
    return stage(claim(feed, DAY, now=NOW, owner="me"), (), Facts(run_id="run"), now=NOW)


def on(board: Blackboard, waiting: Staged) -> Staged:
    """The same update, on this blackboard."""
    return replace(waiting, claim=replace(waiting.claim, feed=replace(waiting.claim.feed, blackboard=board)))


def state(feed: Feed) -> tuple[str | None, bool]:
    record, update = read_record(feed, DAY, NAME), latest(feed, DAY, now=NOW)
    return record.state if record else None, update is not None and update.name == NAME


@pytest.fixture
def board() -> MemoryBlackboard:
    return MemoryBlackboard()


@pytest.fixture
def feed(board: MemoryBlackboard) -> Feed:
    return Feed(board, "ads/v1.0")


def test_an_invalidation_whose_manifest_cannot_be_written_changes_nothing(feed: Feed, board: MemoryBlackboard) -> None:
    publish(staged(feed), now=NOW)
    before = board.objects()
    with pytest.raises(UnavailableError, match="_SUCCESS: Permission denied"):
        invalidate(replace(feed, blackboard=refusing(board, "_SUCCESS")), DAY, NAME, reason="a", author="b", now=NOW)
    assert board.objects() == before
    assert state(feed) == ("published", True)
    assert verify(feed, now=NOW) == []


@pytest.mark.parametrize("made_by", ["the library", "another program"])
def test_an_invalidation_whose_record_cannot_be_written_is_in_force_and_the_next_call_records_its_reason(
    feed: Feed, board: MemoryBlackboard, made_by: str
) -> None:
    if made_by == "the library":
        publish(staged(feed), now=NOW)
    else:
        plain.publish(board, feed.prefix(DAY), NAME)
    told = r"is out of force, and its record does not say why yet\. .*Permission denied.* Then invalidate it again\."
    with pytest.raises(UnavailableError, match=told):
        invalidate(replace(feed, blackboard=refusing(board, "/records/")), DAY, NAME, reason="a", author="b", now=NOW)
    assert not state(feed)[1]
    (status,) = history(feed, DAY, now=NOW)
    assert status.state == "invalidated"
    if made_by == "the library":
        assert status.why == "its record does not say why: invalidate it again"
        (finding,) = verify(feed, now=NOW)
        assert (finding.kind, finding.update) == ("invalidated", NAME)
        assert "its record does not say why" in finding.message

    invalidate(feed, DAY, NAME, reason="wrong prices", author="me", now=NOW)

    assert state(feed) == ("invalidated", False)
    assert [each.why for each in history(feed, DAY, now=NOW)] == ["wrong prices (me)"]
    assert verify(feed, now=NOW) == []


@pytest.mark.parametrize("refused", ["_SUCCESS", "/records/"])
def test_a_rejection_that_fails_half_way_leaves_nothing_that_its_publisher_can_bring_in_force_against_its_record(
    feed: Feed, board: MemoryBlackboard, refused: str
) -> None:
    waiting = staged(feed)
    with pytest.raises(UnavailableError):
        publish(on(refusing(board, "_SUCCESS"), waiting), now=NOW)
    found = find_staged(feed, DAY, root_run_id="run")
    assert found is not None
    assert found.record.state == "publishing"

    with pytest.raises(UnavailableError, match="Permission denied"):
        reject(on(refusing(board, refused), found), reason="no", now=NOW)

    with_manifest = refused == "/records/"
    assert state(feed) == ("publishing", False)
    if with_manifest:
        with pytest.raises(FeedError, match="was taken out of force before it was published"):
            publish(waiting, now=NOW)
    else:
        publish(waiting, now=NOW)
    assert state(feed) == (("publishing", False) if with_manifest else ("published", True))


def agree(reached: Reached) -> None:
    left = Feed(MemoryBlackboard(dict(reached.objects)), "ads/v1.0")
    recorded, valid = state(left)
    assert not (valid and recorded in {"invalidated", "rejected"}), f"the record says {recorded}, and it is valid"


def invalidates(board: Blackboard) -> str:
    invalidate(Feed(board, "ads/v1.0"), DAY, NAME, reason="wrong", author="me", now=NOW)
    return "invalidated"


def rejects(board: Blackboard) -> str | None:
    found = find_staged(Feed(board, "ads/v1.0"), DAY, root_run_id="run")
    return reject(found, reason="no", now=NOW).state if found else None


def publishes(board: Blackboard) -> str | None:
    found = find_staged(Feed(board, "ads/v1.0"), DAY, root_run_id="run")
    return publish(found, now=NOW).name if found else None


@pytest.mark.parametrize("start", ["staged", "publishing", "published"])
@pytest.mark.parametrize(
    ("one", "other"),
    [(invalidates, publishes), (rejects, publishes), (invalidates, rejects)],
    ids=["invalidated while published", "rejected while published", "invalidated while rejected"],
)
def test_at_no_step_of_killed_programs_does_the_record_say_that_a_valid_update_is_out_of_force(
    feed: Feed, board: MemoryBlackboard, start: str, one: Callable[..., object], other: Callable[..., object]
) -> None:
    waiting = staged(feed)
    if start != "staged":
        publish(waiting, now=NOW)
    objects: Mapping[str, bytes] = board.objects()
    if start == "publishing":  # as a crash before the manifest leaves it
        objects = {
            key: data.replace(b',{"at":"2018-05-21T16:00:00+00:00","author":"me","reason":"","state":"published"}', b"")
            for key, data in objects.items()
            if not key.endswith("/_SUCCESS") and "/changes/" not in key
        }
        assert state(Feed(MemoryBlackboard(dict(objects)), "ads/v1.0")) == ("publishing", False)
    actors = (
        Actor("one", one, may_crash=True, lost_answers=1),
        Actor("other", other, may_crash=True, lost_answers=1),
    )
    explored = explore(dict(objects), actors, check=agree, expected=FAILURES)
    assert list(explored.ends())


def test_a_removal_that_meets_an_update_it_may_not_write_restores_the_others_that_it_has_taken_over(
    feed: Feed, board: MemoryBlackboard
) -> None:
    for hour in range(5):
        publish_files(feed, DAY, [], now=NOW + timedelta(hours=hour), owner="me")
    later = NOW + timedelta(days=90)
    policy = Policy(1, timedelta(days=1), timedelta(days=1))
    before, removals = board.objects(), plan(feed, policy, now=later)
    assert [each.update for each in removals] == [f"20180521.{hour}0000" for hour in (16, 17, 18, 19)]
    mine = replace(feed, blackboard=refusing(board, "20180521.180000/_SUCCESS"))

    with pytest.raises(UnavailableError, match="Permission denied"):
        carry_out(mine, removals, now=later)

    assert board.objects() == before
    assert verify(feed, now=later) == []
    assert all(outcome.removed for outcome in carry_out(feed, plan(feed, policy, now=later), now=later))
