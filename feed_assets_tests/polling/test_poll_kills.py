"""Polls that are killed between any two of their steps lose and double nothing, and claim nothing that has not landed.

`python -m feed_assets_tests.polling.poll_kills` has 2,000. It is a process, as it forks itself.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def attack(*options: str) -> str:
    command = [sys.executable, "-m", "feed_assets_tests.polling.poll_kills", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_a_partner_has_lands_once_however_often_polls_are_killed_and_files_replaced():
    summary = re.search(r"polls: (\d+) kills, 0 broken promises", attack("--kills", "200"))
    assert summary is not None
    assert int(summary[1]) >= 200  # two polls of the last round may be killed


def test_polls_with_a_mistake_are_found():
    assert attack("--kills", "10", "--prove").count("broken promises") == 6
