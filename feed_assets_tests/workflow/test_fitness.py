"""A store that does not decide between writers is refused before a master serves on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import AlreadyExistsError, NotFoundError, UnavailableError
from feed_assets.workflow.errors import UnfitStoreError
from feed_assets.workflow.fitness import WRITERS, check_store
from feed_assets.workflow.places import open_board
from feed_assets_tests.harness import Interposed
from feed_assets_tests.servers.fault_proxy import CONTRACT, FaultProxy
from feed_assets_tests.servers.versitygw import Versitygw


class Careless:
    """A store that looks before it writes, if at all: `meet` lets its writers look at the same moment."""

    def __init__(self, inner: LocalBlackboard, meet: Callable[[], object], *, looks: bool = True) -> None:
        self._inner, self._meet, self._looks = inner, meet, looks

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._inner, operation)

    def create(self, key: str, data: bytes) -> Any:
        """See `Blackboard.create`."""
        try:
            found = self._inner.read(key)
        except NotFoundError:
            found = None
        self._meet()
        if found is None:
            with suppress(AlreadyExistsError):  # another writer was quicker; it says yes to both
                return self._inner.create(key, data)
            return self._inner.read(key).entry
        return self._inner.create(key, data) if self._looks else self._inner.read(key).entry


@pytest.mark.parametrize("looks", [True, False])
def test_a_store_that_tells_two_writers_that_they_have_created_an_object_is_refused(tmp_path: Path, *, looks: bool):
    board = LocalBlackboard(tmp_path)
    barrier = Barrier(WRITERS)
    with pytest.raises(UnfitStoreError, match=r"told \d writers .*If-None-Match"):
        check_store(Careless(board, barrier.wait if looks else lambda: None, looks=looks))
    assert list(list_all(board, "")) == []


def test_a_disk_is_fit(tmp_path: Path):
    board = LocalBlackboard(tmp_path)
    check_store(board)
    assert list(list_all(board, "")) == []


def test_a_store_that_is_away_is_not_called_unfit(tmp_path: Path):
    def away(operation: str, _: str) -> None:
        if operation == "create":
            raise UnavailableError("no answer")

    with pytest.raises(UnavailableError, match="no answer"):
        check_store(Interposed(LocalBlackboard(tmp_path), away))


@pytest.mark.slow
def test_a_bucket_whose_requests_go_wrong_now_and_then_is_fit(versitygw: Versitygw, tmp_path: Path):
    bucket = f"fitness-{uuid4().hex}"
    versitygw.client().create_bucket(Bucket=bucket)
    proxy = FaultProxy(tmp_path / "proxy", versitygw, seed=1)
    proxy.start()
    try:
        with patch.dict(os.environ, proxy.environment):
            board = open_board(f"s3://{bucket}/base")
            proxy.inject(**dict.fromkeys(CONTRACT, 0.01))
            for _ in range(3):
                check_store(board)
    finally:
        proxy.kill()
