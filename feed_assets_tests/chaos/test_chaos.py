"""The short version of `make chaos`: it finds nothing with the library's writers, and each of the broken ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from feed_assets_tests import ROOT
from feed_assets_tests.chaos.bases import on_server
from feed_assets_tests.chaos.broken import BROKEN
from feed_assets_tests.chaos.run import Chaos
from feed_assets_tests.servers.ceph import Ceph
from feed_assets_tests.servers.fault_proxy import CONTRACT
from feed_assets_tests.servers.versitygw import Versitygw
from feed_assets_tests.waiting import HANGS

pytestmark = pytest.mark.slow

KILLS = 24


def chaos(*options: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and runs, in a process of its own: the workers are its forks, and it has no threads."""
    command = [sys.executable, "-m", "feed_assets_tests.chaos", "--json", "--life", "1", "--seed", "1", *options]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=HANGS)
    assert ran.returncode in {0, 1}, ran.stderr
    return ran.returncode, json.loads(ran.stdout)["runs"]


@pytest.mark.usefixtures("versitygw")
def test_workers_that_are_killed_and_stopped_at_any_step_break_no_guarantee_on_a_disk_and_on_s3_with_faults():
    code, runs = chaos("--kills", str(2 * KILLS), "--base", "disk", "versitygw")
    assert [run["violations"] for run in runs] == [[], []]
    assert code == 0
    for run in runs:
        assert run["kills"] >= KILLS
        assert {"publish", "read", "remove", "invalidate", "land", "watch"} <= run["acknowledged"].keys()
    assert sum(run["stops"] for run in runs)
    assert runs[1]["faults"]


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_broken_writer_is_caught(mistake: str):
    code, (run,) = chaos("--kills", "500", "--base", "disk", "--broken", mistake)
    assert code == 1
    assert {"whole", "staged"} & {violation["guarantee"] for violation in run["violations"]}


PAUSING = ("slow_down", "internal_error", "cut_before", "cut_after")
"""After these, boto3 pauses for about half a second."""


MOST_ROUNDS = 50


def act_until_a_fault(chaos: Chaos) -> None:
    for _ in range(MOST_ROUNDS):
        chaos.act_alone()
        if chaos.base.faults():
            return
    pytest.fail(f"no fault in {MOST_ROUNDS} rounds")


def test_each_fault_alone_breaks_no_guarantee(versitygw: Versitygw, tmp_path: Path):
    with on_server(versitygw, tmp_path, seed=3) as base:
        assert base.proxy
        chaos = Chaos(base, tmp_path / "run", seed=3)
        for kind in (*CONTRACT, "repeated_keys"):
            base.proxy.inject(**{kind: 0.03 if kind in PAUSING else 0.3})
            act_until_a_fault(chaos)
        result = chaos.judged()
    assert result.violations == ()
    assert result.acknowledged["publish"] >= len(CONTRACT)


def test_all_faults_together_break_no_guarantee_on_a_store_that_departs_from_s3(ceph: Ceph, tmp_path: Path):
    with on_server(ceph, tmp_path, seed=3, rates=dict.fromkeys(CONTRACT, 0.03)) as base:
        chaos = Chaos(base, tmp_path / "run", seed=3)
        chaos.act_alone()
        assert base.faults()
        assert chaos.judged().violations == ()


def test_listings_that_s3_never_shows_may_delay_and_undo_updates_but_no_reader_sees_half_of_one(
    versitygw: Versitygw, tmp_path: Path
):
    """Since 2020 a listing shows every write that was acknowledged; what is latest cannot be known without that."""
    with on_server(versitygw, tmp_path, seed=3) as base:
        assert base.proxy
        chaos = Chaos(base, tmp_path / "run", seed=3)
        for kind in ("lagging_listing", "torn_listing"):
            base.proxy.inject(**{kind: 0.3})
            act_until_a_fault(chaos)
        result = chaos.judged()
    assert not [each for each in result.violations if each.guarantee in {"whole", "answered"}]
