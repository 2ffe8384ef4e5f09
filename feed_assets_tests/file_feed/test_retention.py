"""Retention: what it takes, what it never takes, and that no reader sees a torn update at any step of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import AlreadyExistsError, Entry
from feed_assets.file_feed import (
    ClaimLostError,
    Facts,
    Feed,
    FeedError,
    MixedFeedError,
    NoValidUpdateError,
    Policy,
    Removal,
    begun,
    carry_out,
    claim,
    drop_ended_pins,
    is_update_name,
    latest_of_all,
    pin,
    pins,
    plan,
    publish,
    publish_files,
    stage,
    staged_files,
    tag,
    update_name,
)
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.file_feed import plain, plain_reader
from feed_assets_tests.file_feed.stepping import SteppingBlackboard

NOW = datetime(2018, 6, 21, 16, tzinfo=UTC)
LOCATION = "clean-ads/v1.0"
PARTITION = "2018-05-20"
DAY = f"{LOCATION}/{PARTITION}/"
POLICY = Policy(keep=1, younger_than=timedelta(days=7), longest_write=timedelta(days=1))
OLD = [f"2018052{day}.100000" for day in range(5)]


@pytest.fixture
def board() -> SteppingBlackboard:
    return SteppingBlackboard()


@pytest.fixture
def feed(board: SteppingBlackboard) -> Feed:
    return Feed(board, LOCATION)


def planned(feed: Feed, policy: Policy = POLICY) -> list[str]:
    return [removal.update for removal in plan(feed, policy, now=NOW)]


def keys_left(board: MemoryBlackboard, update: str = "") -> list[str]:
    """What is left that belongs to an update, save what the change log says of it."""
    return [key for key in board.objects() if update in key and "/.feed/changes/" not in key]


def names_left(board: MemoryBlackboard) -> set[str]:
    return {key.removeprefix(DAY).split("/")[0] for key in board.objects() if key.startswith(DAY)}


def test_the_newest_valid_updates_are_kept_and_older_ones_go_with_all_that_belongs_to_them(
    board: SteppingBlackboard, feed: Feed, tmp_path: Path
) -> None:
    (tmp_path / "part").write_bytes(b"data")
    for day in range(3):
        begun = datetime(2018, 5, 20 + day, 10, tzinfo=UTC)
        publish_files(feed, PARTITION, [tmp_path / "part"], now=begun, owner="test")
    outcomes = carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
    assert [(outcome.removal.update, outcome.removed) for outcome in outcomes] == [(OLD[0], True), (OLD[1], True)]
    assert outcomes[0].removal.reason == "outdated by 2 valid updates"
    assert outcomes[0].removal.bytes == 4
    assert keys_left(board, OLD[0]) == keys_left(board, OLD[1]) == []
    assert plain.latest_name(board.objects(), DAY) == OLD[2]


def test_planning_changes_nothing(board: SteppingBlackboard, feed: Feed) -> None:
    for name in OLD:
        plain.publish(board, DAY, name)
    before = board.objects()
    assert planned(feed) == OLD[:-1]
    assert board.objects() == before


def test_as_many_valid_updates_stay_as_the_policy_says(board: SteppingBlackboard, feed: Feed) -> None:
    for name in OLD:
        plain.publish(board, DAY, name)
    plain.invalidate(board, DAY, OLD[-1])
    assert planned(feed, Policy(2, timedelta(0), timedelta(days=60))) == OLD[:2]


def test_what_is_younger_than_the_age_stays(board: SteppingBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, update_name(NOW - timedelta(days=6)))
    plain.publish(board, DAY, update_name(NOW - timedelta(days=5)))
    assert planned(feed) == []


def test_what_is_not_valid_stays_for_the_longest_write(board: SteppingBlackboard, feed: Feed) -> None:
    plain.write(board, DAY, OLD[0])
    assert planned(feed, Policy(1, timedelta(0), timedelta(days=60))) == []
    assert planned(feed) == [OLD[0]]


def test_the_latest_valid_update_stays_whatever_its_age(board: SteppingBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, OLD[0])
    plain.write(board, DAY, OLD[1])
    assert planned(feed) == [OLD[1]]


def test_a_claim_without_files_goes_after_the_longest_write(board: SteppingBlackboard, feed: Feed) -> None:
    claim(feed, PARTITION, now=datetime(2018, 5, 20, 10, tzinfo=UTC), owner="crashed")
    claim(feed, PARTITION, now=NOW, owner="at work")
    removals = plan(feed, POLICY, now=NOW)
    assert [removal.update for removal in removals] == [OLD[0]]
    assert carry_out(feed, removals, now=NOW)[0].removed
    assert keys_left(board, OLD[0]) == []
    assert len(keys_left(board)) == 1


@pytest.mark.parametrize(("claimed", "updates_in"), [(None, PARTITION), (PARTITION, None)])
@pytest.mark.parametrize("keep", [1, 9])
def test_a_claim_at_the_other_level_goes_without_mixing_the_levels_at_any_step(
    board: SteppingBlackboard, feed: Feed, claimed: str | None, updates_in: str | None, keep: int
) -> None:
    for name in OLD:
        plain.publish(board, feed.prefix(updates_in), name)
    claim(feed, claimed, now=datetime(2018, 5, 20, 9, tzinfo=UTC), owner="named the wrong level")
    policy = Policy(keep, POLICY.younger_than, POLICY.longest_write)

    board.after = lambda: latest_of_all(feed, now=NOW)
    outcomes = carry_out(feed, plan(feed, policy, now=NOW, recovering=True), now=NOW)
    board.after = None

    assert (claimed, "20180520.090000") in {(each.removal.partition, each.removal.update) for each in outcomes}
    assert all(outcome.removed for outcome in outcomes)
    assert keys_left(board, "20180520.090000") == []
    assert {name for name in OLD if keys_left(board, name)} == set(OLD[-keep:])
    assert plan(feed, policy, now=NOW) == ()


@pytest.mark.parametrize(("claimed", "updates_in"), [(None, PARTITION), (PARTITION, None)])
def test_a_feed_whose_levels_an_earlier_version_mixed_by_removing_a_claim_heals(
    board: SteppingBlackboard, feed: Feed, claimed: str | None, updates_in: str | None
) -> None:
    for name in OLD[1:]:
        plain.publish(board, feed.prefix(updates_in), name)
    left = claim(feed, claimed, now=datetime(2018, 5, 20, 9, tzinfo=UTC), owner="named the wrong level")
    board.put(f"{left.prefix}_SUCCESS", b"-112345678")
    board.put(f"{feed.prefix(updates_in)}{OLD[1]}/_SUCCESS", b"-1123456781")
    with pytest.raises(MixedFeedError):
        latest_of_all(feed, now=NOW)

    assert (claimed, left.name) in {(each.partition, each.update) for each in plan(feed, POLICY, now=NOW)}
    removals = plan(feed, POLICY, now=NOW, recovering=True)
    assert all(outcome.removed for outcome in carry_out(feed, removals, now=NOW))

    assert keys_left(board, left.name) == []
    assert {partition: each.name for partition, each in latest_of_all(feed, now=NOW).items()} == {
        updates_in or "": OLD[-1]
    }


def test_updates_at_both_levels_stay_an_error_and_nothing_of_them_is_planned(
    board: SteppingBlackboard, feed: Feed
) -> None:
    plain.publish(board, DAY, OLD[0])
    plain.publish(board, f"{LOCATION}/", OLD[1], files=0)
    for recovering in (False, True):
        with pytest.raises(MixedFeedError):
            plan(feed, POLICY, now=NOW, recovering=recovering)


def test_the_empty_folders_that_a_killed_writer_left_go_with_its_update(tmp_path: Path) -> None:
    feed = Feed(LocalBlackboard(tmp_path), "ads")
    claimed = claim(feed, PARTITION, now=datetime(2018, 5, 20, 10, tzinfo=UTC), owner="killed")
    (tmp_path / claimed.prefix / "_temporary" / "0" / "task").mkdir(parents=True)
    (outcome,) = carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
    assert outcome.removed
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{claimed.name}.removed"]
    assert [path.name for path in (tmp_path / "ads").iterdir()] == [".feed"]


def test_pins_that_have_ended_are_dropped_and_those_that_hold_stay(board: SteppingBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, OLD[0])
    ended = pin(feed, PARTITION, OLD[0], until=NOW, holder="killed")
    holding = pin(feed, PARTITION, OLD[0], until=NOW + timedelta(hours=1), holder="reader")
    assert drop_ended_pins(feed, now=NOW) == 1
    assert pins(feed, now=ended.until - timedelta(days=1)) == [holding]
    assert drop_ended_pins(feed, now=NOW) == 0


def test_what_is_tagged_or_pinned_stays_until_the_pin_ends(board: SteppingBlackboard, feed: Feed) -> None:
    for name in OLD:
        plain.publish(board, DAY, name)
    tag(feed, PARTITION, OLD[0], "release-1")
    pin(feed, PARTITION, OLD[1], until=NOW + timedelta(hours=1), holder="reader")
    pin(feed, PARTITION, OLD[2], until=NOW - timedelta(hours=1), holder="reader")
    assert planned(feed) == [OLD[2], OLD[3]]
    carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
    assert names_left(board) == {OLD[0], OLD[1], OLD[4]}
    assert keys_left(board, OLD[2]) == []


def test_what_was_held_since_the_plan_stays(board: SteppingBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, OLD[0])
    plain.publish(board, DAY, OLD[1])
    removals = plan(feed, POLICY, now=NOW)
    tag(feed, PARTITION, OLD[0], "release-1")
    (outcome,) = carry_out(feed, removals, now=NOW)
    assert (outcome.removed, outcome.why) == (False, "tagged release-1")
    assert set(plain_reader.updates(board.objects(), DAY)) == {OLD[0], OLD[1]}


def test_what_was_published_since_the_plan_stays(board: SteppingBlackboard, feed: Feed) -> None:
    plain.write(board, DAY, OLD[0])
    removals = plan(feed, POLICY, now=NOW)
    plain.publish(board, DAY, OLD[0])
    (outcome,) = carry_out(feed, removals, now=NOW)
    assert (outcome.removed, outcome.why) == (False, "its manifest has changed since this was planned")
    assert plain.latest_name(board.objects(), DAY) == OLD[0]


def test_what_was_restored_since_the_plan_stays(board: SteppingBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, OLD[0])
    board.put(f"{DAY}{OLD[0]}/invalid", b"")
    removals = plan(feed, POLICY, now=NOW)
    board.delete(f"{DAY}{OLD[0]}/invalid")
    (outcome,) = carry_out(feed, removals, now=NOW)
    assert (outcome.removed, outcome.why) == (False, "it has become valid since this was planned")
    assert plain.latest_name(board.objects(), DAY) == OLD[0]


def test_what_came_back_in_force_since_the_plan_stays(board: SteppingBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, OLD[0])
    plain.publish(board, DAY, OLD[1])
    removals = plan(feed, POLICY, now=NOW)
    plain.invalidate(board, DAY, OLD[1])
    (outcome,) = carry_out(feed, removals, now=NOW)
    assert (outcome.removed, outcome.why) == (False, "it has become the latest since this was planned")
    assert plain.latest_name(board.objects(), DAY) == OLD[0]


def test_an_update_invalidated_by_an_added_file_is_never_valid_on_its_way_out(
    board: SteppingBlackboard, feed: Feed
) -> None:
    plain.publish(board, DAY, OLD[0], files=3)
    board.put(f"{DAY}{OLD[0]}/invalid", b"")
    plain.publish(board, DAY, OLD[1])
    removals = plan(feed, POLICY, now=NOW)
    seen = []
    board.after = lambda: seen.append(OLD[0] in plain_reader.updates(board.objects(), DAY))
    carry_out(feed, removals, now=NOW)
    board.after = None
    assert seen
    assert not any(seen)
    assert names_left(board) == {OLD[1]}


def test_a_late_publisher_learns_that_its_update_was_given_up(board: SteppingBlackboard, feed: Feed) -> None:
    claimed = claim(feed, PARTITION, now=datetime(2018, 5, 20, 10, tzinfo=UTC), owner="slow")
    board.put(f"{claimed.prefix}part", b"data")
    staged = stage(claimed, staged_files(claimed, 1), Facts(), now=NOW)
    carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
    with pytest.raises(ClaimLostError):
        publish(staged, now=NOW)
    assert keys_left(board) == []


@pytest.mark.parametrize(("times", "left"), [(2, ""), (3, "a writer keeps adding files")])
def test_what_a_writer_adds_during_a_removal_goes_with_it_unless_it_never_ends(
    board: SteppingBlackboard, feed: Feed, monkeypatch: pytest.MonkeyPatch, times: int, left: str
) -> None:
    for name in OLD[:2]:
        plain.publish(board, DAY, name)
    delete, added = board.delete, []

    def delete_and_add(*keys: str) -> None:
        delete(*keys)
        if len(added) < times:
            added.append(f"{DAY}{OLD[0]}/late-{len(added)}")
            board.put(added[-1], b"data")

    removals = plan(feed, POLICY, now=NOW)
    monkeypatch.setattr(board, "delete", delete_and_add)
    (outcome,) = carry_out(feed, removals, now=NOW)

    assert (outcome.removed, outcome.why.partition(";")[0]) == (not left, left)
    assert plain.latest_name(board.objects(), DAY) == OLD[1]
    assert names_left(board) == ({OLD[1]} if not left else {*OLD[:2]})


def test_other_partitions_and_odd_names_are_left_alone(board: SteppingBlackboard, feed: Feed) -> None:
    plain.publish(board, DAY, OLD[0])
    plain.publish(board, DAY, OLD[1])
    board.put(f"{DAY}20180230.000000/part", b"")
    board.put(f"{DAY}notes/part", b"")
    plain.publish(board, f"{LOCATION}-beta/{PARTITION}/", OLD[0])
    before = board.objects()
    carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
    assert before.keys() - board.objects().keys() == {f"{DAY}{OLD[0]}/part-0", f"{DAY}{OLD[0]}/_SUCCESS"}


@pytest.mark.parametrize("page_size", [1, 3, 1000])
@pytest.mark.parametrize("partitions", [["a", "a.b", "a-b", "ab", "ä", "2018-05-20"], [None]], ids=["odd", "none"])
def test_what_is_removed_together_leaves_nothing_and_nothing_else_goes(
    board: SteppingBlackboard,
    feed: Feed,
    monkeypatch: pytest.MonkeyPatch,
    partitions: list[str | None],
    page_size: int,
) -> None:
    for partition in partitions:
        for at in [OLD[0], OLD[0], *OLD[1:]] if partition == partitions[-1] else OLD:
            publish_files(feed, partition, [], now=begun(at), owner="run")
        pin(feed, partition, OLD[0], until=begun(OLD[1]), holder="ended")
    tag(feed, partitions[-1], "20180520.100001", "golden")
    monkeypatch.setattr("feed_assets.blackboard.memory.PAGE_SIZE", page_size)
    monkeypatch.setattr("feed_assets.file_feed.removal.TOGETHER", 5)
    removals = plan(feed, POLICY, now=NOW)
    assert len(removals) == len(partitions) * 4
    assert all(outcome.removed for outcome in carry_out(feed, removals, now=NOW))
    for partition in partitions:
        kept = {OLD[4], "20180520.100001"} if partition == partitions[-1] else {OLD[4]}
        for folder in (feed.control("claims", partition), feed.control("records", partition), feed.prefix(partition)):
            names = {key.removeprefix(folder)[:15] for key in board.objects() if key.startswith(folder)}
            assert {name for name in names if is_update_name(name)} == kept
    assert not [key for key in board.objects() if "/pins/" in key]


def test_a_retention_that_is_stopped_has_removed_the_oldest_updates_and_leaves_no_gap(
    board: SteppingBlackboard, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(removals: Iterable[Removal]) -> Iterator[Removal]:
        yield from islice(removals, 2)
        raise KeyboardInterrupt

    for name in OLD:
        plain.publish(board, DAY, name)
    monkeypatch.setattr("feed_assets.file_feed.removal.TOGETHER", 1)

    with pytest.raises(KeyboardInterrupt):
        carry_out(feed, stopped(plan(feed, POLICY, now=NOW)), now=NOW)

    assert names_left(board) == set(OLD[2:])


def test_one_partition_is_planned_recovered_and_cleared_without_a_look_at_the_others(
    board: SteppingBlackboard, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [f"2018-05-{day:02}" for day in range(1, 31)]
    for day in days:
        for name in OLD:
            plain.publish(board, f"{LOCATION}/{day}/", name)
    pin(feed, days[3], OLD[0], until=NOW - timedelta(days=1), holder="gone")
    monkeypatch.setattr("feed_assets.blackboard.memory.PAGE_SIZE", 50)
    recording = RecordingBlackboard(board)
    one = Feed(recording, LOCATION)

    assert drop_ended_pins(one, now=NOW, within=PARTITION) == 0
    removals = plan(one, POLICY, now=NOW, within=PARTITION, recovering=True)

    assert [(each.partition, each.update) for each in removals] == [(PARTITION, name) for name in OLD[:-1]]
    # The partition as it is; its tags, pins (once more for the ended ones), claims and records.
    assert [each.operation for each in recording.requests] == ["page"] * 6
    assert removals == tuple(each for each in plan(feed, POLICY, now=NOW) if each.partition == PARTITION)


def test_a_feed_without_partitions_is_kept_in_bounds_too(board: SteppingBlackboard, feed: Feed) -> None:
    plain.publish(board, f"{LOCATION}/", OLD[0])
    plain.publish(board, f"{LOCATION}/", OLD[1])
    carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
    assert set(plain_reader.updates(board.objects(), f"{LOCATION}/")) == {OLD[1]}


def test_nothing_is_planned_where_a_partition_has_a_control_area_of_its_own(
    board: SteppingBlackboard, feed: Feed
) -> None:
    for name in OLD:
        plain.publish(board, DAY, name)
        plain.publish(board, f"{LOCATION}/2018-05-19/", name)
    tag(Feed(board, DAY.removesuffix("/")), None, OLD[0], "golden")
    with pytest.raises(FeedError, match=f"{PARTITION}/.feed is a control area inside the partition {PARTITION}"):
        plan(feed, POLICY, now=NOW)


@pytest.mark.parametrize("policy", [(0, 1, 1), (1, -1, 1), (1, 1, -1)])
def test_a_policy_that_could_take_everything_is_refused(policy: tuple[int, int, int]) -> None:
    keep, younger_than, longest_write = policy
    with pytest.raises(ValueError, match="keep at least 1"):
        Policy(keep, timedelta(younger_than), timedelta(longest_write))


def test_a_pin_set_at_any_moment_either_fails_or_keeps_the_update() -> None:
    outcomes = set()
    for moment in range(1, 40):
        board = SteppingBlackboard()
        feed = Feed(board, LOCATION)
        plain.publish(board, DAY, OLD[0], files=2)
        plain.publish(board, DAY, OLD[1])
        countdown = iter([False] * (moment - 1) + [True])
        pinned: list[bool] = []

        def reader_pins(feed: Feed = feed, countdown=countdown, pinned=pinned) -> None:
            if next(countdown, False):
                try:
                    pin(feed, PARTITION, OLD[0], until=NOW + timedelta(hours=1), holder="reader")
                    pinned.append(True)
                except NoValidUpdateError:
                    pinned.append(False)

        board.before = reader_pins
        carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
        board.before = None
        if pinned:
            assert (OLD[0] in plain_reader.updates(board.objects(), DAY)) == pinned[0]
            outcomes.add(pinned[0])
    assert outcomes == {True, False}


class AbandonedError(Exception):
    """The process that ran retention was killed."""


@pytest.mark.parametrize("files", [0, 3])
def test_what_is_held_after_an_interrupted_removal_gets_its_manifest_back(
    board: SteppingBlackboard, feed: Feed, files: int
) -> None:
    plain.publish(board, DAY, OLD[0], files=files)
    plain.publish(board, DAY, OLD[1])
    before = board.objects()

    def reader_pins() -> None:
        pin(feed, PARTITION, OLD[0], until=NOW + timedelta(hours=1), holder="reader")

    removals = plan(feed, POLICY, now=NOW)
    steps = iter(range(100))
    board.before = lambda: reader_pins() if next(steps) == 3 else None
    board.after = lambda: interrupt(board)
    with pytest.raises(AbandonedError):
        carry_out(feed, removals, now=NOW)
    board.before = board.after = None
    assert set(plain_reader.updates(board.objects(), DAY)) == {OLD[1]}
    plan(feed, POLICY, now=NOW, recovering=True)
    assert before.items() <= board.objects().items()
    assert planned(feed) == []


def test_what_comes_back_in_force_after_an_interrupted_removal_gets_its_manifest_back(
    board: SteppingBlackboard, feed: Feed
) -> None:
    plain.publish(board, DAY, OLD[0])
    plain.publish(board, DAY, OLD[1])
    board.after = lambda: interrupt(board)
    with pytest.raises(AbandonedError):
        carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
    board.after = None
    plain.invalidate(board, DAY, OLD[1])
    (outcome,) = carry_out(feed, [each for each in plan(feed, POLICY, now=NOW) if each.update == OLD[0]], now=NOW)
    why = "another retention is removing it, or was interrupted"
    assert (outcome.removed, outcome.why.partition(":")[0]) == (False, why)
    plan(feed, POLICY, now=NOW, recovering=True)
    assert plain.latest_name(board.objects(), DAY) == OLD[0]


def test_what_was_given_up_is_not_given_back_though_it_has_as_many_files_again(
    board: SteppingBlackboard, feed: Feed
) -> None:
    plain.publish(board, DAY, OLD[0], files=2)
    plain.publish(board, DAY, OLD[1])
    board.after = lambda: interrupt(board, files=1)
    with pytest.raises(AbandonedError):
        carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
    board.after = None
    board.put(f"{DAY}{OLD[0]}/invalid", b"")
    plan(feed, POLICY, now=NOW, recovering=True)
    assert set(plain_reader.updates(board.objects(), DAY)) == {OLD[1]}
    carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
    assert names_left(board) == {OLD[1]}


def interrupt(board: SteppingBlackboard, *, files: int | None = None) -> None:
    """Kill retention once the oldest update is not valid any more, and has so many files left."""
    left = sum(f"{DAY}{OLD[0]}/part" in key for key in board.objects())
    if OLD[0] not in plain_reader.updates(board.objects(), DAY) and files in {None, left}:
        raise AbandonedError


def test_recovering_costs_a_read_for_what_was_taken_over_and_the_listings_of_its_partition(
    board: SteppingBlackboard,
) -> None:
    recording = RecordingBlackboard(board)
    feed = Feed(recording, LOCATION)
    for name in OLD:
        plain.publish(board, DAY, name)
    plain.invalidate(board, DAY, OLD[1])
    board.put(f"{DAY}{OLD[2]}/_SUCCESS", b"-1")
    board.put(f"{DAY}{OLD[3]}/_SUCCESS", b"-1000000001")
    plan(feed, POLICY, now=NOW, recovering=True)
    # Tags and pins; files, claims and records, once more for the one partition; and a manifest whose tag says nothing.
    assert recording.counts() == {"page": 2 + 3 + 3, "read": 1 + 1, "replace": 1}
    assert set(plain_reader.updates(board.objects(), DAY)) == {OLD[0], OLD[3], OLD[4]}


class SendsTwice(MemoryBlackboard):
    """Loses the answer to each write of a manifest and sends it again, as clients of S3 do: it meets its own."""

    def create(self, key: str, data: bytes) -> Entry:
        if key.endswith("/_SUCCESS"):
            super().create(key, data)
        return super().create(key, data)

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        if key.endswith("/_SUCCESS"):
            super().replace(key, data, tag=tag)
        return super().replace(key, data, tag=tag)


@pytest.mark.parametrize("manifest", [True, False])
def test_an_update_is_removed_where_every_answer_is_lost_once(manifest: bool) -> None:
    board = SendsTwice()
    feed = Feed(board, LOCATION)
    plain.publish(board, DAY, OLD[0], files=2)
    plain.publish(board, DAY, OLD[1])
    if not manifest:
        plain.invalidate(board, DAY, OLD[0])
    (outcome,) = carry_out(feed, plan(feed, POLICY, now=NOW), now=NOW)
    assert (outcome.removed, outcome.why) == (True, "")
    assert names_left(board) == {OLD[1]}


STATES = ["published", "published", "no manifest", "file added", "file missing", "empty manifest", "-1", "-2"]
UPDATES = st.lists(
    st.tuples(
        st.integers(0, 3),  # files
        st.sampled_from(STATES),
        st.sampled_from(["free", "free", "tagged", "pinned"]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150)
@given(updates=UPDATES, zombies=st.sets(st.integers(0, 4)), zombie_at=st.integers(1, 80), killed_at=st.integers(1, 120))
def test_at_no_step_is_an_update_torn_or_the_latest_gone(updates, zombies, zombie_at, killed_at) -> None:
    """A reader that knows the plain protocol looks after every request of retention, which is killed at one of them and
    run again; from some request on, late publishers try to create their manifests ahead of every request."""
    board = SteppingBlackboard()
    feed = Feed(board, LOCATION)
    for name, (files, state, hold) in zip(OLD, updates, strict=False):
        prepare(board, feed, name, files=files, state=state, hold=hold)
    counts = {name: files for name, (files, _, _) in zip(OLD, updates, strict=False)}
    valid = plain_reader.updates(board.objects(), DAY)
    kept = {name for name, (_, _, hold) in zip(OLD, updates, strict=False) if hold != "free"}
    held = kept & valid.keys()
    steps, newest = 0, max(valid, default="")

    def zombies_publish() -> None:
        nonlocal steps
        steps += 1
        if steps == killed_at:
            raise AbandonedError
        for name in (OLD[number] for number in zombies if steps >= zombie_at and OLD[number] in counts):
            with contextlib.suppress(AlreadyExistsError):
                board.create(f"{DAY}{name}/_SUCCESS", str(counts[name]).encode())

    def reader_looks() -> None:
        nonlocal newest
        valid = plain_reader.updates(board.objects(), DAY)
        whole = {name: {f"part-{part}" for part in range(counts[name])} for name in valid}
        assert {name: {path for path, _ in files} for name, files in valid.items()} == whole, "an update is torn"
        assert held <= valid.keys(), "a held update is gone"
        assert max(valid, default="") >= newest, "the latest update is gone"
        newest = max(valid, default="")

    board.before, board.after = zombies_publish, reader_looks
    for _ in range(3):
        with contextlib.suppress(AbandonedError):
            carry_out(feed, plan(feed, POLICY, now=NOW, recovering=True), now=NOW)
    board.before = None
    carry_out(feed, plan(feed, POLICY, now=NOW, recovering=True), now=NOW)
    assert plan(feed, POLICY, now=NOW) == ()
    assert names_left(board) <= {newest, *kept}


def prepare(board: MemoryBlackboard, feed: Feed, name: str, *, files: int, state: str, hold: str) -> None:
    """An old update, held while it was valid or not, and then in some state."""
    plain.publish(board, DAY, name, files=files)
    if hold == "tagged":
        tag(feed, PARTITION, name, f"tag-{name}")
    if hold == "pinned":
        pin(feed, PARTITION, name, until=NOW + timedelta(hours=1), holder="reader")
    manifest = f"{DAY}{name}/_SUCCESS"
    match state:
        case "no manifest":
            plain.invalidate(board, DAY, name)
        case "file added":
            board.put(f"{DAY}{name}/invalid", b"")
        case "file missing":
            board.delete(f"{DAY}{name}/part-0")
        case "empty manifest":
            board.put(manifest, b"")
        case "-1" | "-2":
            board.put(manifest, state.encode())
