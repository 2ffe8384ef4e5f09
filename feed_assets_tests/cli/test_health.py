"""`feed-assets health`: a line for each series, warnings first."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from feed_assets.run_history.executions import Execution
from feed_assets.run_history.remembered import Remembered
from feed_assets.run_history.tables import record, remember
from feed_assets_tests.harness import Installation

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@pytest.fixture
def there(desk: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An installation, for commands."""
    for name, value in {"BASE": str(desk.base), "FIRST_DAY": "2019-11-20", "STATE": desk.settings.state}.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", value)
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(desk.settings.sources_directory))
    return desk


def keep(there: Installation, series: str, minutes: float) -> None:
    """Four days of hourly runs that take so long."""
    found = []
    for ago in range(24 * 4, 0, -1):
        wanted = TODAY - timedelta(hours=ago)
        ended = wanted + timedelta(minutes=minutes)
        found.append(Execution(series, f"run-{ago}", None, wanted, wanted, ended, succeeded=True))
    record(there.store, there.board.uri(""), found, now=datetime.now(UTC))


def test_warnings_come_first_and_end_with_exit_code_1(there, run) -> None:
    keep(there, "schedule a", 12)
    keep(there, "schedule b", 54)

    shown = run("health", code=1)

    figures = "95 of 100 runs start within 0 s and take up to"
    assert shown.stdout.splitlines() == [
        f"WARNING  schedule b: {figures} 54 min, together 90 % of the 1 h between runs.",
        f"schedule a: {figures} 12 min, together 20 % of the 1 h between runs.",
    ]
    assert shown.stderr == "With warnings: schedule b.\n"
    assert run("health", "schedule a").stderr == ""


def test_programs_get_the_figures_in_seconds(there, run) -> None:
    keep(there, "asset clean_ads", 54)

    (found,) = json.loads(run("health", "--json").stdout)

    figures = "95 of 100 runs start within 0 s and take up to 54 min, together 90 % of the 1 h between runs."
    days = [str((TODAY - timedelta(days=ago)).date()) for ago in (4, 3, 2, 1)]
    assert found == {
        "series": "asset clean_ads",
        "executions": 96,
        "warnings": {},  # an asset has no interval of its own
        "sentences": [f"asset clean_ads: {figures}"],
        "waiting": [],
        "overlap": {
            "interval": 3600.0, "delay": 0.0, "duration": 3240.0, "share": 0.9, "limit": 0.8,
            "days": dict.fromkeys(days, 0.9),
        },
        "deadline": None,
        "tasks": None,
    }  # fmt: skip


def test_ticks_that_wait_for_a_run_are_shown(there, run) -> None:
    for day in ("2026-03-03", "2026-03-04"):
        remember(
            there.store,
            there.board.uri(""),
            Remembered("process_yesterday", day, datetime.fromisoformat(f"{day}T00:15Z")),
        )

    assert run("health").stdout.splitlines() == [
        "schedule process_yesterday: too few runs for figures.",
        "schedule process_yesterday: remembered until its run has ended: 2026-03-03, 2026-03-04.",
    ]
    (found,) = json.loads(run("health", "--json").stdout)
    assert found["waiting"] == ["2026-03-03", "2026-03-04"]


def test_plots_are_written_for_each_series(there, run, tmp_path) -> None:
    keep(there, "schedule a", 12)

    shown = run("health", "--pictures", tmp_path)

    picture = tmp_path / "schedule-a-overlap.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert shown.stderr == f"Written: {picture}\n"


def test_without_history_the_command_says_what_fills_it(there, run) -> None:
    shown = run("health")
    assert shown.stdout == ""
    assert shown.stderr.startswith("No run is known yet: the sensor run_history")


def test_a_series_that_is_not_there_is_refused_with_those_that_are(there, run) -> None:
    keep(there, "schedule a", 12)
    shown = run("health", "schedule b", code=2)
    assert "There is no series schedule b. There are: schedule a." in shown.stderr


def grow(there: Installation) -> None:
    """A month of daily runs at 04:00 UTC that take 12 % longer each week, from 70 minutes on."""
    found = []
    for day in range(30):
        wanted = TODAY - timedelta(days=30 - day) + timedelta(hours=4)
        ended = wanted + timedelta(minutes=70 * (1 + 0.12 * day / 7))
        found.append(Execution("asset prices", f"run-{day}", str(wanted.date()), wanted, wanted, ended, succeeded=True))
    record(there.store, there.board.uri(""), found, now=datetime.now(UTC))


def test_a_deadline_is_in_health_and_explain(there, run, monkeypatch) -> None:
    monkeypatch.setenv("FEED_ASSETS_MODULE", "feed_assets_tests.cli.timed_project")
    assert "needs 22 days with a successful run" in run("health").stdout

    grow(there)

    sentence = run("health", code=1).stdout.strip().removeprefix("WARNING  ")
    assert sentence.startswith("asset prices will miss its deadline 06:00 UTC from ")
    assert f"  deadline: {sentence}" in run("explain", "2019-11-25").stdout.splitlines()
    (story,) = json.loads(run("explain", "2019-11-25", "--json").stdout)
    assert story["deadline"] == sentence
    (found,) = json.loads(run("health", "--json", code=1).stdout)
    assert found["deadline"]["time"] == "06:00"
    deadline = found["deadline"]
    assert deadline["weekly_growth"] == pytest.approx(0.084, abs=0.006)
    assert (deadline["limit"], len(deadline["taken"]), len(deadline["expected"])) == (7200.0, 27, 90)
    expected, low, high = deadline["expected"][deadline["missed_on"]]
    assert low < 7200 < expected < high
