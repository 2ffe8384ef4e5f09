"""A view that follows a log is what the tables say, whatever was written, deleted or lost meanwhile."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy
from sqlalchemy.engine import Connection

from feed_assets.state.address import sqlite_url
from feed_assets.state.event_log import EVENTS, EVENTS_KEPT, Event, NewEvent
from feed_assets.state.followed import AT_ONCE, Followed
from feed_assets.state.store import Store

NOW = datetime(2020, 3, 1, tzinfo=UTC)


class Numbers:
    """A view of all numbers of a log, loaded from the log itself."""

    def __init__(self, store: Store, log: str = "main") -> None:
        self.loads = 0
        self.log = log
        self.followed: Followed[list[int]] = Followed(store, self._load, self._apply, list, log)

    def _load(self, connection: Connection) -> list[int]:
        self.loads += 1
        query = sqlalchemy.select(EVENTS.c.sequence).filter_by(log=self.log).order_by(EVENTS.c.sequence)
        return list(connection.execute(query).scalars())

    @staticmethod
    def _apply(view: list[int], event: Event) -> list[int]:
        return [*view, event.sequence]


def write(store: Store, many: int = 1, at: datetime = NOW, log: str = "main") -> None:
    with store.writing(log) as transaction:
        transaction.append_many([NewEvent("tested", at, {"n": n}) for n in range(many)])


def test_a_view_has_each_event_once_and_is_loaded_once(database: str) -> None:
    store = Store(database)
    write(store)
    view = Numbers(store)
    assert (view.followed.current(), view.followed.cursor) == ([1], 1)

    write(Store(database), 3)
    assert view.followed.current() == [1, 2, 3, 4]
    write(Store(database), 2 * AT_ONCE)

    assert view.followed.current() == list(range(1, 2 * AT_ONCE + 5))
    assert view.followed.cursor == 2 * AT_ONCE + 4
    assert view.loads == 1


def test_a_view_is_loaded_anew_after_an_event_that_does_not_tell_it(database: str) -> None:
    store = Store(database)
    loads = []

    def load(connection: Connection) -> int:
        loads.append(len(store.events()))
        return loads[-1]

    view = Followed(store, load, lambda known, event: None if event.details["n"] == 1 else known, int)
    assert view.current() == 0
    write(store, 1)
    assert (view.current(), view.cursor) == (loads[0], 1)
    write(store, 3)
    write(store, 1)

    assert (view.current(), view.current(), view.cursor) == (5, 5, 5)
    assert len(loads) == 2


def test_logs_have_numbers_of_their_own(database: str) -> None:
    store = Store(database)
    write(store, 2)
    write(store, 3, log="another")

    assert Numbers(store).followed.current() == [1, 2]
    assert Numbers(store, "another").followed.current() == [1, 2, 3]
    assert [each.sequence for each in store.events(2, log="another")] == [3]


def test_a_view_that_comes_back_after_its_events_were_deleted_is_loaded_anew(database: str) -> None:
    store = Store(database)
    view = Numbers(store)
    write(store, 2)
    assert view.followed.current() == [1, 2]

    write(store, 2)
    write(store, 1, at=NOW + EVENTS_KEPT + timedelta(days=1))

    assert (view.followed.current(), view.loads) == ([5], 2)


def test_a_view_of_a_database_that_was_lost_begins_anew(tmp_path: Path) -> None:
    store = Store(sqlite_url(tmp_path / "state.db"))
    view = Numbers(store)
    write(store, 5)
    assert len(view.followed.current()) == 5

    for each in tmp_path.iterdir():
        each.unlink()
    assert view.followed.current() == []
    write(Store(sqlite_url(tmp_path / "state.db")), 2)

    assert (view.followed.current(), view.followed.cursor) == ([1, 2], 2)


def test_a_waiter_wakes_when_an_event_comes_and_gives_up_when_none_does(database: str) -> None:
    store = Store(database)
    view = Numbers(store).followed
    assert not view.wait(0, seconds=0)
    write(store)
    assert view.wait(0, seconds=0)
    assert not view.wait(1, seconds=0.01)

    seen: list[bool] = []
    waiter = threading.Thread(target=lambda: seen.append(view.wait(1, seconds=60)))
    waiter.start()
    write(store)
    view.wake()
    waiter.join(30)

    assert seen == [True]


def test_a_view_of_a_log_that_many_write_misses_no_event_and_repeats_none(database: str) -> None:
    view = Numbers(Store(database)).followed

    def write_often() -> None:
        for _ in range(20):
            write(Store(database), 3)

    writers = [threading.Thread(target=write_often) for _ in range(3)]
    for each in writers:
        each.start()
    while any(each.is_alive() for each in writers):
        seen = view.current()
        assert seen == list(range(1, len(seen) + 1))
    assert view.current() == list(range(1, 181))
