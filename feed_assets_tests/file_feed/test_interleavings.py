"""Writers, readers, operators and retention in every order, on small cases: nobody ever reads a mixture."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from feed_assets.blackboard import memory
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, BlackboardError, UnavailableError
from feed_assets.file_feed import (
    ClaimLostError,
    Facts,
    Feed,
    FeedError,
    NoValidUpdateError,
    Update,
    claim,
    find_staged,
    invalidate,
    latest,
    pin,
    publish,
    publish_files,
    read_file,
    read_record,
    read_resolved,
    reject,
    stage,
    staged_files,
)
from feed_assets.file_feed.reading import list_updates
from feed_assets.file_feed.record import CheckOutcome
from feed_assets.file_feed.recovery import recover
from feed_assets.file_feed.removal import carry_out
from feed_assets.file_feed.retention import Policy, plan
from feed_assets_tests.blackboard.interleavings import Actor, Reached, ViolationError, explore
from feed_assets_tests.blackboard.replay import Failed
from feed_assets_tests.file_feed import plain_reader

LOCATION = "clean-ads/v1.0"
PARTITION = "2018-05-20"
PREFIX = f"{LOCATION}/{PARTITION}/"
NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
EXPECTED = (FeedError, BlackboardError)
PASSED = (CheckOutcome("rows", passed=True, severity="ERROR"),)

Program = Callable[[Blackboard], Hashable]
Contents = tuple[bytes, ...]


@pytest.fixture(autouse=True)
def _tokens_that_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    # Programs are run again from their start for every request: what they draw must be the same each time.
    def token() -> SimpleNamespace:
        return SimpleNamespace(hex=f"token-{_running[-1]}", int=int.from_bytes(_running[-1].encode()))

    monkeypatch.setattr("feed_assets.file_feed.claims.uuid4", token)
    monkeypatch.setattr("feed_assets.file_feed.removal.uuid4", token)
    # For the same reason a process remembers no manifest that it has read.
    monkeypatch.setattr("feed_assets.file_feed.reading.TICK", timedelta(days=36500))
    # The change log comes after each act, and no program here reads it: each further request multiplies the states.
    for module in ("publishing", "withdrawal", "removal"):
        monkeypatch.setattr(f"feed_assets.file_feed.{module}.log_act", lambda *_, **__: None)


@pytest.fixture(params=[True, False], ids=["tags tell the content", "tags as on a disk"])
def content_tags(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(params=[1000, 2], ids=["one page", "pages of two"])
def page_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(memory, "PAGE_SIZE", request.param)
    return request.param


_running: list[str] = ["nobody"]


def actor(name: str, program: Program, **what_may_happen: int) -> Actor:
    def run(board: Blackboard) -> Hashable:
        _running[:] = [name]
        return program(board)

    return Actor(name, run, **what_may_happen)


# --- programs ---------------------------------------------------------------------------------------------------------


def contents(author: str, files: int = 2) -> Contents:
    return tuple(f"{author} {number}".encode() for number in range(files))


def write(author: str, *, files: int = 2, now: datetime = NOW, attempts: int = 3) -> Program:
    """Publishes an update through the library, and asks again where an answer was lost."""

    def program(board: Blackboard) -> Hashable:
        feed = Feed(board, LOCATION)
        claimed = claim(feed, PARTITION, now=now, owner=author)
        for number, data in enumerate(contents(author, files)):
            board.create(f"{claimed.prefix}part-{number}", data)
        staged = stage(claimed, staged_files(claimed, files), Facts(), now=now)
        for attempt in itertools.count(1):
            try:
                return publish(staged, now=now).name
            except UnavailableError:
                if attempt == attempts:
                    raise
        return None

    return program


def hand_over(author: str) -> Program:
    """Publishes an update without files as other programs do: what is on record first is what is there at last."""

    def program(board: Blackboard) -> Hashable:
        return publish_files(Feed(board, LOCATION), PARTITION, [], now=NOW, owner=author).name

    return program


def read(board: Blackboard) -> Hashable:
    """Resolves the latest update and reads its files one by one."""

    def consume(update: Update) -> tuple[str, Contents]:
        return update.name, tuple(read_file(update, file) for file in update.files)

    return read_resolved(Feed(board, LOCATION), PARTITION, consume, now=NOW, attempts=2)


def resolve(board: Blackboard) -> Hashable:
    update = latest(Feed(board, LOCATION), PARTITION, now=NOW)
    return update.name if update else None


def invalidate_update(name: str) -> Program:
    def program(board: Blackboard) -> Hashable:
        invalidate(Feed(board, LOCATION), PARTITION, name, reason="wrong", author="operator", now=NOW)
        return name

    return program


def invalidate_latest(board: Blackboard) -> Hashable:
    name = resolve(board)
    return invalidate_update(name)(board) if isinstance(name, str) else None


LATER = NOW + timedelta(hours=2)
KEEP_ONE = Policy(keep=1, younger_than=timedelta(0), longest_write=timedelta(hours=1))


def remove_old(board: Blackboard) -> Hashable:
    feed = Feed(board, LOCATION)
    return tuple(outcome.removed for outcome in carry_out(feed, plan(feed, KEEP_ONE, now=LATER), now=LATER))


def remove_as_planned(objects: dict[str, bytes]) -> Program:
    """Retention that made its plan long before."""
    removals = plan(Feed(MemoryBlackboard(objects), LOCATION), KEEP_ONE, now=LATER)
    assert removals

    def program(board: Blackboard) -> Hashable:
        return tuple(outcome.removed for outcome in carry_out(Feed(board, LOCATION), removals, now=LATER))

    return program


def before(*published: tuple[str, int], now: datetime = NOW - timedelta(days=3)) -> dict[str, bytes]:
    """What is in storage after these authors have published their number of files, a second after each other."""
    board = MemoryBlackboard()
    for author, files in published:
        _running[:] = [author]
        write(author, files=files, now=now)(board)
    return board.objects()


# --- what must hold ---------------------------------------------------------------------------------------------------


def reading(objects: Mapping[str, bytes]) -> tuple[str, Contents] | None:
    found = plain_reader.latest(objects, PREFIX)
    return (found[0], tuple(data for _, data in found[1])) if found else None


def only_whole_updates(*authors: tuple[str, int]) -> Callable[[Reached], None]:
    """A plain reader sees an update of exactly one author, or none, and the library agrees with it."""
    whole = {contents(author, files) for author, files in authors}

    @cache
    def look(stored: tuple[tuple[str, bytes], ...]) -> None:
        objects = dict(stored)
        seen = reading(objects)
        assert seen is None or seen[1] in whole, f"a plain reader sees {seen}"
        for content_tags in (True, False):
            update = latest(Feed(MemoryBlackboard(objects, content_tags=content_tags), LOCATION), PARTITION, now=NOW)
            assert (update and update.name) == (seen and seen[0]), f"the library sees {update}, a plain reader {seen}"

    def check(reached: Reached) -> None:
        look(tuple(reached.objects.items()))

    return check


def reads_what_was_in_force(reached: Reached, reader: str = "reader") -> None:
    """What a reader returns, a plain reader would have seen at some moment while it ran."""
    if reader in reached.results:
        result = reached.results[reader]
        seen = reached.witnessed[reader]
        names = {each and each[0] for each in seen}
        if isinstance(result, Failed):
            assert None in seen, f"{reader} failed ({result}) and there was always something: {seen}"
        else:
            assert result in seen or result in names, f"{reader} saw {result} where there was {seen}"


OLDER, OLD, NEWEST = "20180518.160000", "20180518.160001", "20180521.160000"


def invalidated_for_good(reached: Reached) -> None:
    """Once an operator has taken an update out of force, it never is in force again."""
    name = reached.results.get("operator")
    assert not isinstance(name, str) or name not in plain_reader.updates(reached.objects, PREFIX), f"{name} is back"


def all_of(*checks: Callable[[Reached], None]) -> Callable[[Reached], None]:
    def check(reached: Reached) -> None:
        for each in checks:
            each(reached)

    return check


# --- the library ------------------------------------------------------------------------------------------------------


def test_two_writers_of_one_second_never_share_an_update() -> None:
    old = before(("old", 1))
    writers = (actor("a", write("a")), actor("b", write("b", files=1)))
    explored = explore(old, writers, check=only_whole_updates(("old", 1), ("a", 2), ("b", 1)), expected=EXPECTED)
    for end in explored.ends():
        assert len(plain_reader.updates(end.objects, PREFIX)) == 3
        assert end.results["a"] != end.results["b"]


def test_a_writer_may_stop_anywhere_or_lose_an_answer_beside_another() -> None:
    old = before(("old", 1))
    writers = (
        actor("a", write("a"), may_crash=True, lost_answers=1),
        actor("b", write("b", files=1), lost_answers=1),
    )
    check = only_whole_updates(("old", 1), ("a", 2), ("b", 1))
    explored = explore(old, writers, check=check, expected=EXPECTED)
    for end in explored.ends():
        assert reading(end.objects) is not None
        valid = plain_reader.updates(end.objects, PREFIX)
        assert all(name in valid for name in end.results.values() if isinstance(name, str))


@pytest.mark.slow
@pytest.mark.usefixtures("page_size")
def test_a_reader_beside_a_writer_reads_the_update_before_or_the_new_one(content_tags: bool) -> None:
    check = all_of(only_whole_updates(("old", 2), ("new", 2)), reads_what_was_in_force)
    actors = (actor("writer", write("new"), may_crash=True), actor("reader", read, witness=True))
    explored = explore(
        before(("old", 2)), actors, check=check, observe=reading, expected=EXPECTED, content_tags=content_tags
    )
    read_at_last = {end.results["reader"][1] for end in explored.ends() if "reader" in end.results}
    assert read_at_last == {contents("old"), contents("new")}


def test_a_reader_beside_a_writer_and_an_operator_reads_what_was_in_force(content_tags: bool) -> None:
    check = all_of(only_whole_updates(("old", 1), ("new", 1)), reads_what_was_in_force)
    actors = (
        actor("writer", write("new", files=1)),
        actor("operator", invalidate_latest),
        actor("reader", read, witness=True),
    )
    explore(before(("old", 1)), actors, check=check, observe=reading, expected=EXPECTED, content_tags=content_tags)


def test_two_writers_an_operator_and_a_reader() -> None:
    authors = (("old", 1), ("a", 1), ("b", 1))
    actors = (
        actor("a", write("a", files=1)),
        actor("b", write("b", files=1)),
        actor("operator", invalidate_update("20180518.160000")),
        actor("reader", resolve, witness=True),
    )
    check = all_of(only_whole_updates(*authors), reads_what_was_in_force)
    explore(before(("old", 1)), actors, check=check, observe=reading, expected=EXPECTED)


@pytest.mark.parametrize("files", [0, 2])
def test_what_was_invalidated_is_not_published_again_by_a_writer_whose_answer_was_lost(files: int) -> None:
    actors = (
        actor("writer", write("new", files=files), lost_answers=2),
        actor("operator", invalidate_latest, may_crash=True, lost_answers=1),
    )
    check = all_of(only_whole_updates(("old", 1), ("new", files)), invalidated_for_good)
    explored = explore(before(("old", 1)), actors, check=check, expected=EXPECTED)
    invalidated = {end.results.get("operator") for end in explored.ends()}
    assert {"20180518.160000", "20180521.160000"} <= invalidated


def test_what_was_invalidated_is_not_published_again_by_another_who_was_at_it_too() -> None:
    def publish_it(board: Blackboard) -> Hashable:
        staged = find_staged(Feed(board, LOCATION), PARTITION)
        return publish(staged, now=NOW).name if staged else None

    actors = (
        actor("one", publish_it),
        actor("other", publish_it),
        actor("operator", invalidate_latest, may_crash=True),
    )
    explored = explore(_staged_only(), actors, check=invalidated_for_good, expected=EXPECTED)
    assert "20180521.160000" in {end.results.get("operator") for end in explored.ends()}


def test_what_was_taken_out_of_force_by_hand_stays_so_beside_another_auditor_and_when_it_is_invalidated_too() -> None:
    objects = _published_without_manifest()

    def another_run(board: Blackboard) -> Hashable:
        staged = find_staged(Feed(board, LOCATION), PARTITION)
        return publish(staged, now=NOW, checks=PASSED).name if staged else None

    actors = (actor("auditor", another_run), actor("operator", invalidate_update("20180521.160000"), may_crash=True))
    explored = explore(objects, actors, check=lambda reached: _nothing_read(reached.objects), expected=EXPECTED)
    assert "20180521.160000" in {end.results.get("operator") for end in explored.ends()}


def test_what_was_invalidated_before_its_manifest_was_there_is_not_published_by_the_run_that_goes_on() -> None:
    objects = _published_without_manifest()

    def same_run(board: Blackboard) -> Hashable:
        staged = find_staged(Feed(board, LOCATION), PARTITION, root_run_id="")
        return publish(staged, now=NOW, checks=PASSED).name if staged else None

    def invalidate_twice(board: Blackboard) -> Hashable:
        with suppress(UnavailableError):
            invalidate_update("20180521.160000")(board)
        return invalidate_update("20180521.160000")(board)

    actors = (
        actor("publisher", same_run, lost_answers=1),
        actor("operator", invalidate_twice, may_crash=True, lost_answers=1),
    )
    explored = explore(objects, actors, check=invalidated_for_good, expected=EXPECTED)
    assert {"20180521.160000"} <= {end.results.get("operator") for end in explored.ends()}


def _published_without_manifest() -> dict[str, bytes]:
    """As a crash before the manifest leaves it, and as somebody does who removes the manifest."""
    board = MemoryBlackboard(_staged_only())
    staged = find_staged(Feed(board, LOCATION), PARTITION)
    assert staged is not None
    publish(staged, now=NOW, checks=PASSED)
    return {key: data for key, data in board.objects().items() if not key.endswith("/_SUCCESS")}


def _nothing_read(objects: Mapping[str, bytes]) -> None:
    assert reading(objects) is None


def test_what_a_run_began_to_publish_runs_of_the_same_root_complete_whoever_of_them_stops() -> None:
    def publish_it(board: Blackboard) -> Hashable:
        staged = find_staged(Feed(board, LOCATION), PARTITION, root_run_id="")
        return publish(staged, now=NOW, checks=PASSED).name if staged else None

    actors = (
        actor("first", publish_it, may_crash=True, lost_answers=2),
        actor("again", publish_it),
    )
    explored = explore(_staged_only(), actors, check=only_whole_updates(("new", 2)), expected=EXPECTED)
    for end in explored.ends():
        assert reading(end.objects) == (NEWEST, contents("new"))
        record = read_record(Feed(MemoryBlackboard(dict(end.objects)), LOCATION), PARTITION, NEWEST)
        assert record is not None
        assert record.state in {"publishing", "published"}
        assert not any(isinstance(result, Failed) for result in end.results.values())


@pytest.mark.parametrize("checks", [PASSED, ()], ids=["with outcomes of checks", "without"])
def test_two_auditors_never_leave_an_update_both_rejected_and_in_force(checks: tuple[CheckOutcome, ...]) -> None:
    objects = _staged_only()

    def publish_it(board: Blackboard) -> Hashable:
        staged = find_staged(Feed(board, LOCATION), PARTITION)
        return publish(staged, now=NOW, checks=checks).name if staged else None

    def reject_it(board: Blackboard) -> Hashable:
        staged = find_staged(Feed(board, LOCATION), PARTITION)
        return reject(staged, reason="no", now=NOW).state if staged else None

    def one_or_the_other(reached: Reached) -> None:
        if reached.results.get("rejecting") == "rejected":
            assert reading(reached.objects) is None
            record = read_record(Feed(MemoryBlackboard(dict(reached.objects)), LOCATION), PARTITION, "20180521.160000")
            assert record is not None
            assert record.state == "rejected"

    actors = (
        actor("publishing", publish_it, may_crash=True, lost_answers=1),
        actor("rejecting", reject_it, lost_answers=1),
    )
    explored = explore(objects, actors, check=one_or_the_other, expected=EXPECTED)
    assert {reading(end.objects) for end in explored.ends()} == {None, ("20180521.160000", contents("new"))}


def _staged_only() -> dict[str, bytes]:
    board = MemoryBlackboard()
    claimed = claim(Feed(board, LOCATION), PARTITION, now=NOW, owner="new")
    for number, data in enumerate(contents("new", 2)):
        board.create(f"{claimed.prefix}part-{number}", data)
    stage(claimed, staged_files(claimed, 2), Facts(), now=NOW)
    return board.objects()


# --- with retention ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("files", "readers"), [(0, 1), (1, 1), (2, 0)])
def test_a_writer_that_was_given_up_never_publishes_half_an_update(files: int, readers: int) -> None:
    authors = (("old", 1), ("zombie", files))
    actors = (
        actor("zombie", write("zombie", files=files, now=NOW)),
        actor("retention", remove_old),
        *[actor("reader", resolve, witness=True)] * readers,
    )
    check = all_of(only_whole_updates(*authors), reads_what_was_in_force)
    explored = explore(before(("old", 1)), actors, check=check, observe=reading, expected=EXPECTED)
    ways = {_kind(end.results["zombie"]) for end in explored.ends()}
    assert {str, ClaimLostError} <= ways


def valid_names(objects: Mapping[str, bytes]) -> frozenset[str]:
    return frozenset(plain_reader.updates(objects, PREFIX))


@pytest.mark.parametrize("audited", [True, False])
@pytest.mark.parametrize("files", [0, 1])
def test_a_writer_that_wakes_too_late_is_told_the_truth_and_leaves_no_stray_manifest(audited: bool, files: int) -> None:
    def hand_over_files(board: Blackboard) -> Hashable:
        sources = [Uploaded(f"part-{number}", data) for number, data in enumerate(contents("late", files))]
        return publish_files(Feed(board, LOCATION), PARTITION, sources, now=NOW, owner="late").name  # type: ignore[arg-type] # what an upload needs of a path

    def told_the_truth(reached: Reached) -> None:
        result = reached.results.get("late")
        if isinstance(result, str):
            assert any(result in names for names in reached.witnessed["late"]), f"{result} was never valid"
        elif result is not None:
            assert NEWEST not in valid_names(reached.objects), f"{result}, and it is in force"

    actors = (
        actor("late", write("late", files=files) if audited else hand_over_files, witness=True),
        actor("retention", remove_old, may_crash=True),
    )
    check = all_of(only_whole_updates(("old", 1), ("late", files)), told_the_truth)
    explored = explore(before(("old", 1)), actors, check=check, observe=valid_names, expected=EXPECTED)
    for end in explored.ends():
        stated = end.objects.get(f"{PREFIX}{NEWEST}/_SUCCESS", b"-1")
        assert stated.startswith(b"-1") or NEWEST in valid_names(end.objects), "a stray manifest is left"
    assert {str, ClaimLostError} <= {_kind(end.results["late"]) for end in explored.ends()}


@dataclass(frozen=True)
class Uploaded:
    """As much of a local file as an upload needs."""

    name: str
    data: bytes

    def read_bytes(self) -> bytes:
        return self.data


def _kind(result: Hashable) -> type:
    return result.kind if isinstance(result, Failed) else type(result)


@pytest.mark.usefixtures("page_size")
def test_removing_an_update_that_a_reader_reads_makes_it_read_another_whole_one(content_tags: bool) -> None:
    check = all_of(only_whole_updates(("older", 2), ("old", 2)), reads_what_was_in_force, always_something)
    actors = (actor("retention", remove_old, may_crash=True), actor("reader", read, witness=True))
    explore(
        before(("older", 2), ("old", 2)),
        actors,
        check=check,
        observe=reading,
        expected=EXPECTED,
        content_tags=content_tags,
    )


@pytest.mark.usefixtures("page_size")
def test_an_update_with_an_extra_file_is_not_torn_while_it_is_removed() -> None:
    extra = {f"{PREFIX}20180518.160001/part-z": b""}
    check = all_of(only_whole_updates(("older", 2), ("old", 1)), reads_what_was_in_force, always_something)
    actors = (actor("retention", remove_old, may_crash=True), actor("reader", read, witness=True))
    explore(before(("older", 2), ("old", 1)) | extra, actors, check=check, observe=reading, expected=EXPECTED)


def test_an_operator_and_a_reader_beside_retention_that_removes_what_comes_back_in_force(content_tags: bool) -> None:
    objects = before(("older", 1), ("old", 1))
    actors = (
        actor("operator", invalidate_update(OLD), lost_answers=1),
        actor("retention", remove_as_planned(objects)),
        actor("reader", resolve, witness=True),
    )
    check = all_of(only_whole_updates(("older", 1), ("old", 1)), reads_what_was_in_force, invalidated_for_good)
    explored = explore(objects, actors, check=check, observe=reading, expected=EXPECTED, content_tags=content_tags)
    assert {end.results["retention"] for end in explored.ends()} == {(True,), (False,)}


@pytest.mark.parametrize("name", [OLDER, OLD])
def test_what_is_invalidated_while_retention_removes_it_is_not_given_back(name: str) -> None:
    objects = before(("older", 1), ("old", 1))
    actors = (
        actor("operator", invalidate_update(name), may_crash=True),
        actor("other", invalidate_update(OLD)),
        actor("retention", remove_as_planned(objects), may_crash=True),
    )
    check = all_of(only_whole_updates(("older", 1), ("old", 1)), invalidated_for_good)
    explore(objects, actors, check=check, expected=EXPECTED)


def test_a_writer_an_operator_retention_and_a_reader() -> None:
    objects = before(("older", 1), ("old", 1))
    actors = (
        actor("writer", write("new", files=1)),
        actor("operator", invalidate_update(OLD)),
        actor("retention", remove_as_planned(objects)),
        actor("reader", resolve, witness=True),
    )
    check = all_of(
        only_whole_updates(("older", 1), ("old", 1), ("new", 1)), reads_what_was_in_force, invalidated_for_good
    )
    explore(objects, actors, check=check, observe=reading, expected=EXPECTED)


@pytest.mark.slow
def test_two_writers_an_operator_and_retention() -> None:
    """As few steps as they can take. A plain reader and the library look at every state."""
    objects = before(("older", 1), ("old", 1))
    actors = (
        actor("a", hand_over("a")),
        actor("b", hand_over("b")),
        actor("operator", invalidate_update(OLD)),
        actor("retention", remove_as_planned(objects)),
    )
    authors = (("older", 1), ("old", 1), ("a", 0), ("b", 0))
    check = all_of(only_whole_updates(*authors), invalidated_for_good)
    explore(objects, actors, check=check, expected=EXPECTED)


def two_retentions(objects: dict[str, bytes]) -> tuple[Actor, Actor]:
    """One that plans now, may stop anywhere, and one that planned long before."""
    return actor("gc", remove_old, may_crash=True), actor("other gc", remove_as_planned(objects))


def test_two_retentions_never_make_an_invalidated_update_valid_and_torn() -> None:
    invalidated_by_hand = {f"{PREFIX}{OLD}/part-z": b""}
    objects = before(("older", 1), ("old", 2)) | invalidated_by_hand
    check = all_of(only_whole_updates(("older", 1), ("old", 2)), always_something)
    explored = explore(objects, two_retentions(objects), check=check, expected=EXPECTED)
    assert (True,) in {end.results.get("gc") for end in explored.ends()}


@pytest.mark.parametrize("files", [0, 2])
def test_a_pin_that_is_set_beside_two_retentions_either_fails_or_keeps_the_update(files: int) -> None:
    objects = before(("older", files), ("old", 0))
    whole = (OLDER, contents("older", files))

    def kept(reached: Reached) -> None:
        if reached.results.get("pinning") == OLDER:
            there = tuple(data for key, data in reached.objects.items() if key.startswith(f"{PREFIX}{OLDER}/part"))
            assert there == whole[1], f"pinned without an error, and {there} is left"

    def as_it_was(end: Reached) -> bool:
        return OLDER in plain_reader.updates(end.objects, PREFIX)

    actors = (actor("gc", remove_old), actor("other gc", remove_as_planned(objects)), actor("pinning", pin_older))
    explored = explore(objects, actors, check=all_of(kept, always_something), expected=EXPECTED)
    ends = {(_kind(end.results["pinning"]), as_it_was(end)) for end in explored.ends()}
    assert {(str, True), (NoValidUpdateError, False)} <= ends
    assert (str, False) not in ends


def test_a_pin_and_an_operator_beside_retention_that_recovers_what_another_was_interrupted_at() -> None:
    objects = before(("older", 1), ("old", 0))

    def recover_it(board: Blackboard) -> Hashable:
        recover(Feed(board, LOCATION), PARTITION, list_updates(Feed(board, LOCATION), PARTITION))
        return None

    def kept(reached: Reached) -> None:
        if reached.results.get("pinning") == OLDER:
            assert f"{PREFIX}{OLDER}/part-0" in reached.objects, "pinned without an error, and gone"

    actors = (
        actor("gc", remove_as_planned(objects), may_crash=True),
        actor("recovering", recover_it),
        actor("operator", invalidate_update(OLDER)),
        actor("pinning", pin_older),
    )
    check = all_of(only_whole_updates(("older", 1), ("old", 0)), invalidated_for_good, kept, always_something)
    explore(objects, actors, check=check, expected=EXPECTED)


def pin_older(board: Blackboard) -> Hashable:
    pin(Feed(board, LOCATION), PARTITION, OLDER, until=LATER + timedelta(hours=1), holder="reader")
    return OLDER


def always_something(reached: Reached) -> None:
    assert reading(reached.objects) is not None, "nothing is in force"


# --- the explorer finds what is wrong ---------------------------------------------------------------------------------


FOLDER = f"{PREFIX}20180521.160000/"
Step = Callable[[dict[str, bytes]], None]


def put(key: str, data: Callable[[dict[str, bytes]], bytes]) -> Step:
    def step(stored: dict[str, bytes]) -> None:
        stored[f"{FOLDER}{key}"] = data(stored)

    return step


def same_second(*writers: list[Step]) -> tuple[int, int, int]:
    """In how many orders writers that claim nothing can take their steps, how many of these are torn at some moment,
    and how many leave nothing valid."""
    orders = set(itertools.permutations([at for at, steps in enumerate(writers) for _ in steps]))
    torn = useless = 0
    for order in orders:
        stored: dict[str, bytes] = {}
        steps = [iter(each) for each in writers]
        seen = []
        for at in order:
            next(steps[at])(stored)
            seen.append(reading(stored))
        torn += any(each and len({data.split()[0] for data in each[1]}) > 1 for each in seen)
        useless += seen[-1] is None
    return len(orders), torn, useless


def steps_of(author: str, files: int, *, names: str, counted: bool) -> list[Step]:
    parts = [put(f"{names}-{number}", lambda _, data=data: data) for number, data in enumerate(contents(author, files))]
    there = lambda stored: str(sum(key.startswith(f"{FOLDER}p") for key in stored)).encode()  # noqa: E731
    return [*parts, put("_SUCCESS", there if counted else lambda _: str(files).encode())]


@pytest.mark.parametrize(
    ("policy", "orders", "torn", "useless"),
    [
        ({"own_names": True, "files": (2, 3), "counted": False}, 35, 0, 35),
        ({"own_names": True, "files": (2, 3), "counted": True}, 35, 35, 0),
        ({"own_names": False, "files": (3, 3), "counted": False}, 70, 50, 0),
    ],
    ids=["own names and own count", "own names and the count of a listing", "the same names"],
)
def test_what_becomes_of_two_writers_that_share_an_update(
    policy: dict[str, Any], orders: int, torn: int, useless: int
) -> None:
    writers = [
        steps_of(author, files, names=f"part-{author}" if policy["own_names"] else "part", counted=policy["counted"])
        for author, files in zip("ab", policy["files"], strict=True)
    ]
    assert same_second(*writers) == (orders, torn, useless)


def share(author: str, *, names: str, counted: bool) -> Program:
    """A writer of the same update as others, through the port."""

    def program(board: Blackboard) -> Hashable:
        for number, data in enumerate(contents(author)):
            with suppress(AlreadyExistsError):
                board.create(f"{FOLDER}{names}-{number}", data)
        count = len(board.page(FOLDER).entries) if counted else 2
        with suppress(AlreadyExistsError):
            board.create(f"{FOLDER}_SUCCESS", str(count).encode())
        return None

    return program


@pytest.mark.parametrize(("names", "counted"), [("part-{}", True), ("part", False)])
def test_a_policy_that_tears_is_found_torn(names: str, counted: bool) -> None:
    actors = tuple(actor(author, share(author, names=names.format(author), counted=counted)) for author in "ab")
    with pytest.raises(ViolationError, match=r"a plain reader sees(.|\n)*after these requests:(.|\n)*_SUCCESS"):
        explore({}, actors, check=only_whole_updates(("a", 2), ("b", 2)), expected=EXPECTED)


def test_an_invalidation_that_only_removes_the_manifest_is_found_undone() -> None:
    def remove_manifest(board: Blackboard) -> Hashable:
        board.read(f"{FOLDER}_SUCCESS")
        board.delete(f"{FOLDER}_SUCCESS")
        return "20180521.160000"

    actors = (actor("writer", write("new", files=1), lost_answers=1), actor("operator", remove_manifest))
    with pytest.raises(ViolationError, match="its answer lost"):
        explore(before(("new", 0), now=NOW - timedelta(days=3)), actors, check=invalidated_for_good, expected=EXPECTED)


def test_retention_that_removes_files_before_the_manifest_is_found_torn() -> None:
    def remove(board: Blackboard) -> Hashable:
        board.delete(f"{PREFIX}{OLD}/part-0", f"{PREFIX}{OLD}/_SUCCESS")
        return None

    extra = {f"{PREFIX}{OLD}/part-z": b""}
    with pytest.raises(ViolationError, match="a plain reader sees"):
        explore(
            before(("older", 1), ("old", 1)) | extra,
            (actor("retention", remove),),
            check=only_whole_updates(("older", 1), ("old", 1)),
            expected=EXPECTED,
        )
