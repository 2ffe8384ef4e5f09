"""The history is kept once and within bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from feed_assets.run_history import tables
from feed_assets.run_history.executions import Execution
from feed_assets.run_history.remembered import Remembered
from feed_assets.run_history.tables import (
    executions_of,
    forget,
    record,
    remember,
    remembered,
)
from feed_assets.state.store import Store

NOW = datetime(2026, 5, 1, 6, tzinfo=UTC)
BASE = "file:///data"


def execution(number: int, *, ago: timedelta = timedelta(hours=1), series: str = "schedule prices") -> Execution:
    wanted = NOW - ago
    started, ended = wanted + timedelta(seconds=3), wanted + timedelta(minutes=20)
    return Execution(series, f"run-{number}", "2026-04-30", wanted, started, ended, True, rows=5, bytes=3_000_000_000)


def test_an_execution_is_kept_once_as_it_was_told_last(database: str):
    store = Store(database)
    first = execution(1)
    again = replace(first, succeeded=False, rows=None, bytes=None, partition=None)

    record(store, BASE, [first, first], now=NOW)
    assert executions_of(store, BASE) == {"schedule prices": [first]}

    record(store, BASE, [again, execution(2, series="asset prices")], now=NOW)
    assert executions_of(store, BASE) == {
        "asset prices": [execution(2, series="asset prices")],
        "schedule prices": [again],
    }
    assert executions_of(store, "file:///other") == {}


def test_old_executions_are_forgotten(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/state.db")
    long_ago = timedelta(days=59)
    record(store, BASE, [execution(1, ago=long_ago), execution(2, ago=timedelta(days=61))], now=NOW)
    assert [each.run for each in executions_of(store, BASE)["schedule prices"]] == ["run-1"]

    record(store, BASE, [execution(3, series="another")], now=NOW + timedelta(days=2))
    assert list(executions_of(store, BASE)) == ["another"]


def test_a_series_has_a_fixed_number_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS", 10)
    store = Store(f"sqlite:///{tmp_path}/state.db")
    for start in (0, 15):
        found = [execution(number, ago=timedelta(hours=100 - number)) for number in range(start, start + 15)]
        record(store, BASE, [*found, execution(start, series="another")], now=NOW)

    known = executions_of(store, BASE)
    assert [each.run for each in known["schedule prices"]] == [f"run-{number}" for number in range(20, 30)]
    assert len(known["another"]) == 2


def test_a_tick_is_remembered_once_until_it_is_forgotten(database: str):
    store = Store(database)
    first, later = Remembered("daily", "2026-04-30", NOW), Remembered("daily", "2026-05-01", NOW + timedelta(days=1))
    for tick in (later, first, replace(first, wanted=NOW + timedelta(hours=1))):
        remember(store, BASE, tick)
    assert remembered(store, BASE) == [first, later]
    assert remembered(store, "file:///other") == []

    forget(store, BASE, first)
    assert remembered(store, BASE) == [later]


def test_a_database_that_is_not_there_has_no_history_and_is_not_made_for_nothing(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/state.db")
    assert executions_of(store, BASE) == {}
    assert remembered(store, BASE) == []
    record(store, BASE, [], now=NOW)
    assert not store.exists()
