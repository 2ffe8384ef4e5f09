"""A source that takes events, and a store, for tests without a server."""

from __future__ import annotations

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.sources.loading import load_source
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.receiving.serving import EVENTS


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "shop_ads.yaml"
    path.write_text(EVENTS, encoding="utf-8")
    return load_source(path, KINDS)


@pytest.fixture
def store(tmp_path):
    return Store(sqlite_url(tmp_path / "state.db"))
