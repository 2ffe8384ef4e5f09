"""The short version of `make chaos` for workflows: it finds nothing, and each rule that is switched off."""

from __future__ import annotations

import subprocess
import sys

import pytest

from feed_assets_tests import ROOT
from feed_assets_tests.waiting import HANGS

pytestmark = pytest.mark.slow


def kills(*options: str) -> tuple[int, str]:
    """Exit code and output, in a process of its own: the workers are its forks, and it has no threads."""
    command = [sys.executable, "-m", "feed_assets_tests.workflow.kills", "--seed", "1", *options]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=HANGS)
    assert ran.returncode in {0, 1}, ran.stderr
    return ran.returncode, ran.stdout


@pytest.mark.usefixtures("versitygw")
def test_masters_and_workers_that_are_killed_and_stopped_commit_each_unit_once_on_a_disk_and_on_s3_with_faults():
    code, said = kills("--rounds", "5")
    assert said.count("Each unit was committed once, and nothing was lost.") == 2, said
    assert code == 0


# `make chaos` tries "no lease check": a worker must be stopped in its work, which takes a minute to happen for sure.
@pytest.mark.parametrize(
    ("rule", "sign"),
    [
        ("repeat executed", "was inserted"),
        # Either an acknowledged order is lost, or a master's journal does not follow from the one before.
        ("refusal taken for a loss", "life-"),
    ],
)
def test_a_rule_that_is_switched_off_is_found(rule: str, sign: str):
    code, said = kills("--rounds", "200", "--base", "disk", "--broken", rule)
    assert sign in said
    assert code == 1
