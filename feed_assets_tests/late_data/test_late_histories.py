"""Random histories of late data: no run without a cause, none missing, and each output as if recomputed in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.late_data.late_histories import MISTAKES, WrongError, histories, mistaken

HISTORIES = 200
"""Run `late_histories` for 10,000."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(sqlite_url(tmp_path / "state.db"))


@pytest.mark.slow
def test_when_all_is_quiet_each_day_is_what_a_full_recompute_gives_and_no_run_was_without_cause(store: Store) -> None:
    assert sum(histories(store, HISTORIES)) > HISTORIES


@pytest.mark.slow
def test_days_with_a_trigger_have_the_same_runs_as_days_without(store: Store) -> None:
    without = list(histories(store, HISTORIES // 4))
    assert list(histories(store, HISTORIES // 4, gated=True)) == without


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_monitor_with_a_mistake_is_found(store: Store, mistake: str) -> None:
    with mistaken(mistake), pytest.raises(WrongError):
        list(histories(store, HISTORIES))
