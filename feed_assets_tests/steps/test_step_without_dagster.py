"""Whole steps in a Python that cannot import Dagster: claim, read, transform, write, audit, publish or reject."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from feed_assets_tests.harness import SHOP_ADS, write_sources
from feed_assets_tests.waiting import HANGS

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "without_dagster.py"
RUN = """
import runpy, sys
sys.modules.update(dict.fromkeys(["dagster", "dagster_aws", "dagster_pyspark"]))  # None: importing it fails
runpy.run_path(sys.argv[1])
"""


def test_steps_run_from_landing_to_audit_where_dagster_cannot_be_imported(tmp_path):
    (description,) = write_sources(tmp_path / "sources", SHOP_ADS).iterdir()
    arguments = [sys.executable, "-c", RUN, PROGRAM, tmp_path, description]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=HANGS)

    assert done.returncode == 0, done.stderr
    rejected = "rejected (in_range_cost: rows 3, rows not as expected 1, for example 7.500000)"
    cleaned = "clean-ads/v1.0 2019-11-24 update"
    assert done.stdout.splitlines() == [
        "clean-ads/v1.0 has no valid update of 2019-11-24",
        f"read 3, published 2, quarantined 1. {cleaned} 20191125.010000: all blocking checks hold; published.",
        "readers count 2 ads",
        f"read 4, published 3, quarantined 1. {cleaned} 20191125.030000: {rejected}. Readers keep what they had.",
        "readers count 2 ads",
    ]
