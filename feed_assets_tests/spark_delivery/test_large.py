"""The short version of `make chaos` for large deliveries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from feed_assets_tests import ROOT
from feed_assets_tests.waiting import HANGS

pytestmark = pytest.mark.slow


def test_a_large_delivery_under_faults_and_kills_loses_nothing_up_to_the_store() -> None:
    options = ["--rows", "200000", "--shards", "64", "--kills", "1", "--consumer-kills", "0", "--seed", "1"]
    command = [sys.executable, "-m", "feed_assets_tests.spark_delivery.large", *options]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=HANGS)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "the driver was killed 1 times. 0 rows are missing" in ran.stdout
    assert "Every row arrived, and the store has them all." in ran.stdout
