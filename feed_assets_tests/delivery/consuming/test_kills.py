"""The short version of `make chaos` for consumers: it finds nothing, and rules that are switched off."""

from __future__ import annotations

import subprocess
import sys

import pytest

from feed_assets_tests import ROOT
from feed_assets_tests.waiting import HANGS

pytestmark = pytest.mark.slow


def kills(*options: str) -> tuple[int, str]:
    """Exit code and output, in a process of its own: the consumers are its forks, and it has no threads."""
    command = [sys.executable, "-m", "feed_assets_tests.delivery.consuming.kills", "--seed", "1", *options]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=HANGS)
    assert ran.returncode in {0, 1}, ran.stderr
    return ran.returncode, ran.stdout


@pytest.mark.usefixtures("redis_server")
def test_consumers_that_are_killed_and_stopped_at_any_step_settle_every_row_and_the_stores_end_right():
    code, said = kills("--rounds", "12")
    assert said.count("The stores have what is in force, and every row was settled.") == 2, said
    assert code == 0


@pytest.mark.parametrize("rule", ["checkpoint first", "parts overwritten"])
def test_a_rule_that_is_switched_off_is_found(rule: str):
    code, said = kills("--rounds", "240", "--kind", "sqlite", "--broken", rule)
    assert code == 1, said
