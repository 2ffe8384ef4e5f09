"""The explorer itself: that it misses no order, no crash and no lost answer."""

from __future__ import annotations

from collections.abc import Hashable
from math import comb

import pytest

from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, UnavailableError
from feed_assets_tests.blackboard.interleavings import Actor, Reached, ViolationError, explore
from feed_assets_tests.blackboard.replay import Failed


def writer(name: str, keys: int) -> Actor:
    def program(board: Blackboard) -> Hashable:
        for number in range(keys):
            board.create(f"{name}/{number}", b"")
        return name

    return Actor(name, program)


def take(board: Blackboard) -> Hashable:
    board.create("taken", b"")
    return "won"


@pytest.mark.parametrize(("one", "other"), [(3, 4), (4, 4), (1, 1), (5, 2)])
def test_all_orders_are_gone_through_and_each_state_once(one: int, other: int) -> None:
    explored = explore({}, (writer("a", one), writer("b", other)))
    assert explored.schedules() == comb(one + other, one)
    assert len(explored) == (one + 1) * (other + 1)
    assert [end.results for end in explored.ends()] == [{"a": "a", "b": "b"}]


def test_schedules_that_avoid_a_state_are_counted() -> None:
    def b_is_ahead(reached: Reached) -> bool:
        return sum(key < "b" for key in reached.objects) < sum(key >= "b" for key in reached.objects)

    ballots = explore({}, (writer("a", 4), writer("b", 4))).schedules(avoiding=b_is_ahead)
    assert ballots == comb(8, 4) // 5  # the fourth Catalan number


def test_of_two_that_take_the_same_thing_either_may_win() -> None:
    explored = explore({}, (Actor("a", take), Actor("b", take)))
    winners = {name for end in explored.ends() for name, result in end.results.items() if result == "won"}
    losers = {result.kind for end in explored.ends() for result in end.results.values() if isinstance(result, Failed)}
    assert winners == {"a", "b"}
    assert losers == {AlreadyExistsError}


def test_a_program_may_stop_before_each_of_its_requests() -> None:
    crashing = Actor("a", writer("a", 3).program, may_crash=True)
    left = sorted(len(end.objects) for end in explore({}, (crashing,)).ends())
    assert left == [0, 1, 2, 3]


def test_a_write_may_land_although_its_answer_is_lost() -> None:
    (answered, lost) = sorted(
        explore({}, (Actor("a", take, lost_answers=1),)).ends(), key=lambda end: isinstance(end.results["a"], Failed)
    )
    assert answered.results == {"a": "won"}
    failed = lost.results["a"]
    assert isinstance(failed, Failed)
    assert failed.kind is UnavailableError
    assert answered.objects == lost.objects == {"taken": b""}


def test_no_more_answers_are_lost_than_may_be() -> None:
    def stubborn(board: Blackboard) -> Hashable:
        lost = 0
        for number in range(3):
            try:
                board.create(str(number), b"")
            except UnavailableError:
                lost += 1
        return lost

    ends = explore({}, (Actor("a", stubborn, lost_answers=2),)).ends()
    assert {end.results["a"] for end in ends} == {0, 1, 2}


def test_what_is_observed_while_a_program_runs_is_kept_from_its_first_request_on() -> None:
    def look_twice(board: Blackboard) -> Hashable:
        return len(board.page("").entries), len(board.page("").entries)

    explored = explore({}, (writer("a", 3), Actor("reader", look_twice, witness=True)), observe=len)
    for end in explored.ends():
        first, second = end.results["reader"]
        assert end.witnessed["reader"] == frozenset(range(first, second + 1))


def test_deleting_several_objects_is_as_many_steps() -> None:
    def delete(board: Blackboard) -> Hashable:
        board.delete("a", "b")
        return None

    explored = explore({"a": b"", "b": b""}, (Actor("a", delete),))
    assert {tuple(reached.objects) for reached in explored.states()} == {("a", "b"), ("b",), ()}


def test_a_violation_tells_a_shortest_way_to_it() -> None:
    def check(reached: Reached) -> None:
        assert "b/0" not in reached.objects, "b was there"

    with pytest.raises(ViolationError) as caught:
        explore({}, (writer("a", 3), writer("b", 3)), check=check)
    message = str(caught.value)
    assert message.startswith("b was there")
    assert message.endswith("after these requests:\nb: create b/0\nwith this in storage:\nb/0 b''")


def test_an_error_that_is_not_expected_of_a_program_ends_the_exploration() -> None:
    def wrong(board: Blackboard) -> Hashable:
        raise ZeroDivisionError(board.uri(""))

    with pytest.raises(ZeroDivisionError):
        explore({}, (Actor("a", wrong),))
