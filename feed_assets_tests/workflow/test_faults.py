"""Real masters and workers that are killed, stopped and cut off: each unit is committed once, nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from feed_assets_tests.waiting import until
from feed_assets_tests.workflow.judged import account_of, faults
from feed_assets_tests.workflow.started import Stage, staged

pytestmark = pytest.mark.slow


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Stage]:
    """A workflow on a disk, without any process."""
    with staged(str(tmp_path / "base")) as stage:
        yield stage


def test_w4_the_unit_of_a_worker_that_is_killed_comes_back_and_is_committed_once(orders: Stage):
    orders.master()
    orders.configure()
    orders.insert(1, 2)
    first = orders.worker("--lease", "0.5", "--pause", "60")
    until(lambda: [each for each in orders.tasks("convert") if each["status"] == "leased"])
    first.send(signal.SIGKILL)
    orders.worker()
    orders.drained()
    assert list(faults(orders.place, [1, 2])) == []
    assert account_of(orders.place).retries == 1
