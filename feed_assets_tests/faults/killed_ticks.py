"""Ticks of Dagster's sensor daemon in processes of their own that are killed at a named point. Not here: any test."""

from __future__ import annotations

import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import dagster as dg

from feed_assets.resources.settings import Settings
from feed_assets.starts.requests import Requests
from feed_assets_tests.faults.processes import die, run_until_killed
from feed_assets_tests.sensors.daemon import Daemon

QUEUE = {"run_coordinator": {"module": "dagster", "class": "QueuedRunCoordinator"}}
"""Settings of an instance that queues runs. Nothing takes them from the queue."""


def after(owner: Any, name: str) -> None:
    """Have this process killed right after the first call of a function that returns no empty list."""
    answer: Callable[..., Any] = getattr(owner, name)

    def last(*arguments: Any, **more: Any) -> Any:
        answered = answer(*arguments, **more)
        if answered != []:
            die()
        return answered

    setattr(owner, name, last)


POINTS: dict[str, Callable[[], Any]] = {
    "after its requests are on record": lambda: after(Requests, "put_on_record"),
    "after Dagster stored a run": lambda: {"late_growth": {"RUN_CREATED": signal.SIGKILL}},
    "after a run was submitted": lambda: {"late_growth": {"RUN_LAUNCHED": signal.SIGKILL}},
    "in the change log": lambda: after(import_module("feed_assets.sensors.new_manifests"), "log_page"),
    "after an event": lambda: after(dg.DagsterInstance, "report_runless_asset_event"),
}


def kill_a_tick(settings: Settings, home: Path, point: str) -> None:
    """Tick all sensors in a process that is killed at this one of POINTS."""
    run_until_killed(_tick, settings, home, point)


def _tick(settings: Settings, home: Path, point: str) -> None:
    Daemon(settings, home, QUEUE).tick(POINTS[point]())
