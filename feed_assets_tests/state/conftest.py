"""The databases that a store works on, each new and empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from feed_assets.state.address import sqlite_url
from feed_assets_tests.state.server import new_database


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that nobody has used."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "a directory" / "state.db")
    return new_database(request.getfixturevalue("server"))
