"""The warehouses, each new and empty: two real ones, and an emulator of Snowflake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from feed_assets.warehouse.address import open_warehouse
from feed_assets.warehouse.port import Warehouse
from feed_assets_tests.state.server import new_database

SNOWFLAKE = "snowflake://loader:s3cr3t@account/db{number}/marts?warehouse=small"


@pytest.fixture
def postgresql(server: str) -> Warehouse:
    return open_warehouse(new_database(server))


@pytest.fixture
def duckdb(tmp_path: Path) -> Warehouse:
    return open_warehouse(f"duckdb:///{tmp_path}/a directory/warehouse.db")


@pytest.fixture
def snowflake() -> Iterator[Warehouse]:
    import fakesnow  # noqa: PLC0415 - slow to load, and few tests need it

    with ExitStack() as stack:
        stack.enter_context(fakesnow.patch())
        yield open_warehouse(SNOWFLAKE.format(number=1))


@pytest.fixture(params=["duckdb", "postgresql", "snowflake"])
def warehouse(request: pytest.FixtureRequest) -> Warehouse:
    return request.getfixturevalue(request.param)
