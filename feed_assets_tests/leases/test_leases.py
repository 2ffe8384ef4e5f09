"""A lease has one holder at a time, in both places; who lost it is told so, and a killed holder is missed soon."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import AlreadyExistsError, Entry
from feed_assets.leases.holding import Holding
from feed_assets.leases.in_database import DatabaseLeases
from feed_assets.leases.on_blackboard import BlackboardLeases
from feed_assets.leases.port import Lease, Leases
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.state.server import new_database

NOW = datetime(2020, 3, 1, tzinfo=UTC)
LENGTH = timedelta(minutes=2)
NAME = "raw/.polled/shop/ads/2020-03-01/a.csv/claim"


@pytest.fixture(params=["sqlite", "postgresql", "blackboard"])
def leases(request: pytest.FixtureRequest, tmp_path: Path) -> Leases:
    if request.param == "blackboard":
        return BlackboardLeases(MemoryBlackboard())
    if request.param == "sqlite":
        return DatabaseLeases(Store(sqlite_url(tmp_path / "state.db")))
    return DatabaseLeases(Store(new_database(request.getfixturevalue("server"))))


def test_one_holder_at_a_time_and_the_next_has_a_higher_number(leases: Leases) -> None:
    first = leases.take(NAME, LENGTH, now=NOW)
    assert first is not None
    assert (first.number, first.until) == (1, NOW + LENGTH)
    assert leases.take(NAME, LENGTH, now=NOW + LENGTH - timedelta(seconds=1)) is None
    assert leases.take("another", LENGTH, now=NOW) is not None

    second = leases.take(NAME, LENGTH, now=NOW + LENGTH)
    assert second is not None
    assert (second.number, second.holder != first.holder) == (2, True)
    assert leases.renew(first, LENGTH, now=NOW + LENGTH) is None
    leases.release(first)  # it is somebody else's now
    assert leases.take(NAME, LENGTH, now=NOW + LENGTH) is None


def test_a_renewed_lease_lasts_and_one_that_ended_unnoticed_goes_on(leases: Leases) -> None:
    lease = leases.take(NAME, LENGTH, now=NOW)
    assert lease is not None
    renewed = leases.renew(lease, LENGTH, now=NOW + LENGTH / 2)
    assert renewed is not None
    assert leases.take(NAME, LENGTH, now=NOW + LENGTH) is None

    assert leases.renew(renewed, LENGTH, now=NOW + 5 * LENGTH) is not None


def test_a_released_lease_is_free_and_a_clock_that_was_ahead_holds_nobody_up(leases: Leases) -> None:
    lease = leases.take(NAME, LENGTH, now=NOW)
    assert lease is not None
    leases.release(lease)
    leases.release(lease)
    assert leases.renew(lease, LENGTH, now=NOW) is None

    assert leases.take(NAME, LENGTH, now=NOW + timedelta(days=1)) is not None
    assert leases.take(NAME, LENGTH, now=NOW) is not None


def test_of_many_who_take_a_lease_at_once_one_has_it(leases: Leases) -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: leases.take(NAME, LENGTH, now=NOW), range(16)))

    assert len([each for each in taken if each]) == 1


class LosesAnswers(MemoryBlackboard):
    """Writes succeed, but their answers are lost; the client sends them again, and finds its own object."""

    def create(self, key: str, data: bytes) -> Entry:
        super().create(key, data)
        raise AlreadyExistsError(key)


def test_a_lost_answer_is_found_out() -> None:
    board = LosesAnswers()

    lease = BlackboardLeases(board).take(NAME, LENGTH, now=NOW)

    assert lease is not None
    assert BlackboardLeases(board).take(NAME, LENGTH, now=NOW) is None


@pytest.mark.parametrize("content", [b"", b"[]", b'{"token": "x", "until": "2020-03-01T01:00:00+00:00"}'])
def test_an_object_that_is_no_lease_counts_as_ended(content: bytes) -> None:
    board = MemoryBlackboard()
    board.create(NAME, content)

    assert BlackboardLeases(board).take(NAME, LENGTH, now=NOW) is not None


STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "renew", "release"]), st.integers(0, 2), st.integers(0, 180)), max_size=30
)


@given(STEPS)
def test_in_any_history_a_lease_that_has_not_ended_has_one_holder(steps: list[tuple[str, int, int]]) -> None:
    leases, now = BlackboardLeases(MemoryBlackboard()), NOW
    held: dict[int, Lease] = {}
    for what, who, seconds in steps:
        now += timedelta(seconds=seconds)
        if what == "take" and who not in held:
            lease = leases.take(NAME, LENGTH, now=now)
            if lease is not None:
                held[who] = lease
        elif who in held and what == "renew":
            lease = leases.renew(held.pop(who), LENGTH, now=now)
            if lease is not None:
                held[who] = lease
        elif who in held:
            leases.release(held.pop(who))
        assert len([each for each in held.values() if each.until > now]) <= 1


class RenewedAtOnce(timedelta):
    """A length whose renewals come without a pause."""

    def total_seconds(self) -> float:
        return 0.01


def test_a_lease_is_renewed_until_the_work_ends() -> None:
    board, clock = MemoryBlackboard(), [NOW]
    renewed = threading.Event()

    class Watched(BlackboardLeases):
        def renew(self, lease: Lease, length: timedelta, *, now: datetime) -> Lease | None:
            answer = super().renew(lease, length, now=now)
            if now > NOW:
                renewed.set()
            return answer

    with Holding(Watched(board), RenewedAtOnce(minutes=2), clock=lambda: clock[0]) as holding:
        assert holding.take(NAME)
        assert not holding.take(NAME)
        clock[0] = NOW + timedelta(minutes=90)
        assert renewed.wait(10)
        assert BlackboardLeases(board).take(NAME, LENGTH, now=clock[0]) is None

    assert BlackboardLeases(board).take(NAME, LENGTH, now=clock[0]) is not None


def test_a_lease_that_was_taken_before_is_renewed_and_kept_for_another_process() -> None:
    board, clock = MemoryBlackboard(), [NOW]
    leases = BlackboardLeases(board)
    lease = leases.take(NAME, LENGTH, now=NOW)
    assert lease is not None
    renewed = threading.Event()

    class Watched(BlackboardLeases):
        def renew(self, lease: Lease, length: timedelta, *, now: datetime) -> Lease | None:
            answer = super().renew(lease, length, now=now)
            renewed.set()
            return answer

    length = RenewedAtOnce(minutes=2)
    with Holding(Watched(board), length, clock=lambda: clock[0], renewals=9) as holding:
        holding.hold(lease)
        clock[0] = NOW + timedelta(seconds=100)
        renewed.clear()
        assert renewed.wait(10)
        holding.let_go(NAME)

    assert leases.take(NAME, LENGTH, now=NOW + LENGTH) is None
    assert leases.take(NAME, LENGTH, now=clock[0] + LENGTH) is not None
