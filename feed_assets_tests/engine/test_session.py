"""The memory of Spark's driver follows the machine, and the user."""

from __future__ import annotations

import os

import pytest

from feed_assets.engine.session import ensure_driver_memory


@pytest.fixture(autouse=True)
def _no_memory_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "")
    monkeypatch.delenv("SPARK_DRIVER_MEMORY")


def test_on_a_single_machine_the_driver_takes_at_least_2_gb_and_at_most_a_quarter_of_more():
    ensure_driver_memory("local[2]")

    megabytes = int(os.environ["SPARK_DRIVER_MEMORY"].removesuffix("m"))
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 2048 <= megabytes <= max(2048, physical // 4 // 2**20)


def test_the_users_own_memory_goes_first(monkeypatch):
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "3g")

    ensure_driver_memory("local[*]")

    assert os.environ["SPARK_DRIVER_MEMORY"] == "3g"


def test_on_a_cluster_the_drivers_memory_is_left_to_its_configuration():
    ensure_driver_memory("spark://127.0.0.1:7077")

    assert "SPARK_DRIVER_MEMORY" not in os.environ
