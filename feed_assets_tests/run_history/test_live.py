"""Steps that run, and those without success, are kept in place of what was known before, and within bounds."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from feed_assets.engine.progress import Progress, bytes_in_words
from feed_assets.run_history import tables
from feed_assets.run_history.answers import step_says
from feed_assets.run_history.live import LiveStep
from feed_assets.run_history.tables import forget_live, keep_live, live_steps, running_now
from feed_assets.run_history.watching import Watch
from feed_assets.state.store import Store
from feed_assets_tests.waiting import until

NOW = datetime(2026, 5, 1, 6, tzinfo=UTC)
BASE = "file:///data"
MADE = Progress(1, 3, 118, 200, 41_200_000, 3_100_000_000, 7_200, 812)


def step(number: int = 1, *, seen: datetime = NOW, progress: Progress | None = MADE) -> LiveStep:
    started = seen - timedelta(minutes=3)
    return LiveStep(
        run=f"run-{number}",
        step="clean_ads",
        feeds=("clean-ads/v1.0", "rejected-ads/v1.0"),
        first="2026-04-01",
        last="2026-04-30",
        partitions=30,
        process="host, process 7",
        started=started,
        seen=seen,
        changed=seen,
        progress=progress,
    )


def test_a_step_is_kept_in_place_of_what_was_known_before(database: str):
    store = Store(database)
    assert live_steps(store, BASE) == []
    first, other = step(progress=None), step(2)
    later = replace(step(), seen=NOW + timedelta(seconds=5))

    for each in (first, other, later):
        keep_live(store, BASE, each)

    assert live_steps(store, BASE) == [later, other]
    assert live_steps(store, "file:///other") == []
    forget_live(store, BASE, "run-1", "clean_ads")
    assert live_steps(store, BASE) == [other]


def test_old_steps_and_those_beyond_a_number_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "LIVE_ROWS", 3)
    store = Store(f"sqlite:///{tmp_path}/state.db")
    keep_live(store, BASE, step(0, seen=NOW - timedelta(days=61)))
    for number in (1, 2, 3, 4):
        keep_live(store, BASE, step(number, seen=NOW + timedelta(minutes=number)))

    assert [each.run for each in live_steps(store, BASE)] == ["run-2", "run-3", "run-4"]


def test_a_step_runs_until_it_ends_or_has_given_no_sign_for_a_minute(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/state.db")
    alive, failed, killed = step(1), replace(step(2), ended=NOW), step(3, seen=NOW - timedelta(minutes=2))
    for each in (alive, failed, killed):
        keep_live(store, BASE, each)

    assert running_now(store, BASE, NOW + timedelta(seconds=5)) == [alive]
    figures = "3 min: stage 2 of 3, 118 of 200 tasks, 41.2 million rows and 3.1 GB read, 7,200 rows and 812 bytes"
    title = "clean_ads 2026-04-01 to 2026-04-30 (30 partitions)"
    assert alive.sentence(NOW) == f"{title} has run for {figures} written."
    assert replace(alive, changed=NOW - timedelta(minutes=2)).sentence(NOW).endswith("written, unchanged for 2 min.")
    assert failed.sentence(NOW) == f"{title} failed after {figures} written."
    assert killed.sentence(NOW) == (
        f"{title} has given no sign since 2026-05-01 05:58:00, after {figures} written. Its process (host, process 7) "
        "was probably killed."
    )
    assert [step_says(each, NOW).state for each in (alive, failed, killed)] == ["running", "failed", "silent"]
    assert replace(alive, progress=None, first=None, last=None).sentence(NOW) == "clean_ads has run for 3 min."


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (10**18, "1000.0 PB"),
    ],
)
def test_sizes_are_in_units_of_thousands(number, words):
    assert bytes_in_words(number) == words


def watch(store: Store, *, again: bool = False, every: timedelta = timedelta(0)) -> Watch:
    return Watch(step(), lambda: store, BASE, logging.getLogger("feed_assets_tests"), again=again, every=every)


def test_a_second_attempt_that_succeeds_at_once_leaves_nothing_of_the_first(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/state.db")
    assert watch(store).end(succeeded=False) is not None
    assert [each.state(NOW) for each in live_steps(store, BASE)] == ["failed"]

    assert watch(store, again=True, every=timedelta(days=9999)).end(succeeded=True) is None

    assert live_steps(store, BASE) == []


def test_a_database_that_cannot_be_used_is_named_once_and_fails_no_step(tmp_path, caplog):
    (tmp_path / "file").write_text("x")
    store = Store(f"sqlite:///{tmp_path}/file/state.db")
    watched = watch(store, every=timedelta(milliseconds=20))
    first = datetime.now(UTC)

    with caplog.at_level(logging.INFO):
        watched.begin()
        until(lambda: watched.step.seen > first + 3 * watched.every)
        last = watched.end(succeeded=False)

    assert last is not None
    assert sum("is not kept for others to see" in each.getMessage() for each in caplog.records) == 1


def test_the_log_gets_new_figures_ever_more_rarely_and_old_ones_every_five_minutes(tmp_path):
    """A step of an hour, whose tasks end in its first half only."""
    said = Watch(step(progress=None), lambda: Store("sqlite:///x"), BASE, logging.getLogger("feed_assets_tests"))
    begun, lines = said.step.started, []
    for seconds in range(5, 3600, 5):
        progress = replace(MADE, tasks_done=min(seconds, 1800)) if seconds > 10 else None
        seen = begun + timedelta(seconds=seconds)
        said.step = replace(said.step, seen=seen, progress=progress)
        if said._is_news():
            said._said = said.step
            lines.append(seconds)

    assert lines[:8] == [15, 25, 40, 60, 90, 135, 205, 310]
    assert [later - earlier for earlier, later in pairwise(lines[10:])] == [300] * (len(lines) - 11)
    assert len(lines) == 19
