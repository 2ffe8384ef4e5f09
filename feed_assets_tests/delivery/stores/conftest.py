"""Both kinds of stores. Not here: what they must do (`model`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from feed_assets.delivery.stores.address import KEEP_SECONDS
from feed_assets.delivery.stores.port import Store
from feed_assets_tests.delivery.stores.writing import opened


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store, which other tests may use, too; the environment has its password."""
    return "sqlite" if request.param == "sqlite" else request.getfixturevalue("redis_server").given(monkeypatch)


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[Store]:
    """A store."""
    with opened(url, tmp_path) as found:
        yield found


@pytest.fixture
def space() -> str:
    """A space that nobody has used."""
    return uuid4().hex


@pytest.fixture
def forget(request: pytest.FixtureRequest, url: str, store: Store) -> Callable[[str], int]:
    """Lets a store forget the tombstones and ended values of a space, as when the time to keep them has passed."""

    def forget_in_sqlite(space: str) -> int:
        return store.sweep(before=time.time() + 1)

    def forget_in_redis(space: str) -> int:
        with request.getfixturevalue("redis_server").client() as client:
            keys = [key for key in client.scan_iter(f"{space}:*", 1000) if 0 <= client.pttl(key) <= KEEP_SECONDS * 1000]
            return client.delete(*keys) if keys else 0

    return forget_in_sqlite if url == "sqlite" else forget_in_redis
