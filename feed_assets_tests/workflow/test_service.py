"""What a real master answers by HTTP: who may ask, which parameters it takes, and clients that hang up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from feed_assets.serving.tables import remove_token
from feed_assets.serving.tokens import add_token
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.waiting import until
from feed_assets_tests.web.windows_service import NOW, Client
from feed_assets_tests.web.workflow_service import NAME, mastering


@dataclass
class Served:
    """A master, where it answers, and where its tokens are."""

    base: str
    url: str
    store: Store


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    base, database = str(tmp_path / "base"), sqlite_url(tmp_path / "state.db")
    (tmp_path / "base").mkdir()
    with mastering(base, database) as url:
        yield Served(base, url, Store(database))


def test_a_master_takes_tokens_that_are_added_while_it_reigns_and_no_revoked_ones(served: Served) -> None:
    def status(token: str) -> int:
        return Client(served.url, token).ask("/v1/stats").status

    def added(owner: str) -> str:
        return add_token(served.store, owner, [f"read:{NAME}"], now=NOW, expires=None)

    assert status("") == 200  # without tokens, this machine may ask
    ada, bob = added("ada"), added("bob")
    until(lambda: status("") == 401)
    until(lambda: status(bob) == 200)
    with served.store.writing() as transaction:
        remove_token(transaction, ada.split("_")[1], now=NOW)
    until(lambda: status(ada) == 401)
    assert status(bob) == 200
