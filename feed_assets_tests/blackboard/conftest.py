"""Every store behind the port, empty, for tests that hold for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from feed_assets.blackboard import Blackboard, LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.s3 import S3Blackboard

NewBlackboard = Callable[[], Blackboard]

_buckets = (f"blackboard-{number}" for number in itertools.count())


@pytest.fixture(params=["memory", "memory with tags as on a disk", "local", "s3"], scope="module")
def new_blackboard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NewBlackboard:
    """Makes one more empty blackboard, of each kind in turn."""

    def now() -> datetime:
        return datetime.now(UTC)

    def in_bucket() -> Blackboard:
        client = request.getfixturevalue("s3_client")
        bucket = next(_buckets)
        client.create_bucket(Bucket=bucket)
        return S3Blackboard(client, bucket, "some/base")

    stores: dict[str, NewBlackboard] = {
        "memory": lambda: MemoryBlackboard(clock=now),
        "memory with tags as on a disk": lambda: MemoryBlackboard(content_tags=False, clock=now),
        "local": lambda: LocalBlackboard(tmp_path_factory.mktemp("blackboard") / "not-yet-there"),
        "s3": in_bucket,
    }
    return stores[request.param]


@pytest.fixture
def blackboard(new_blackboard: NewBlackboard) -> Blackboard:
    """An empty blackboard of each kind in turn."""
    return new_blackboard()
