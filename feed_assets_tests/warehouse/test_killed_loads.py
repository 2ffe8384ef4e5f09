"""A loader that is killed at any statement leaves the old rows or the new ones, and the next load completes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from feed_assets_tests.faults.memory import folder_in_memory
from feed_assets_tests.state.server import new_database

pytestmark = pytest.mark.slow

KILLS = 30
"""At each statement of a load, of which it has 10 or 12, and as often at any time. Run `killing` for more."""


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_memory() as path:
        yield path


@pytest.fixture(params=["duckdb", "postgresql"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "duckdb":
        return f"duckdb:///{folder}/warehouse.db"
    return new_database(request.getfixturevalue("server"))


def faults(folder: Path, url: str, *more: str) -> list[str]:
    command = [sys.executable, "-m", "feed_assets_tests.warehouse.killing", str(folder / "base"), url, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["faults"])


def test_readers_see_the_old_rows_or_the_new_ones_and_the_next_load_completes(url: str, folder: Path) -> None:
    assert faults(folder, url, str(KILLS)) == []


def test_a_loader_without_a_transaction_is_found(server: str, folder: Path) -> None:
    found = faults(folder, new_database(server), str(KILLS // 2), "--broken")

    assert any("readers see {}" in each for each in found)
