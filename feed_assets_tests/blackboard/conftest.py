"""Every store behind the port, empty, for tests that hold for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.blackboard.s3 import S3Blackboard

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

NewBlackboard = Callable[[], Blackboard]

BUCKET = "blackboards"
STORES = ["memory", "memory with tags as on a disk", "local", "s3", "versitygw", "ceph"]

_numbers = itertools.count()


@pytest.fixture(params=STORES, scope="module")
def new_blackboard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NewBlackboard:
    """Makes one more empty blackboard, of each kind in turn."""

    def now() -> datetime:
        return datetime.now(UTC)

    def in_bucket_of(client: S3Client) -> NewBlackboard:
        if BUCKET not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=BUCKET)
        return lambda: S3Blackboard(client, BUCKET, f"{next(_numbers)}/base")

    match request.param:
        case "memory":
            return lambda: MemoryBlackboard(clock=now)
        case "memory with tags as on a disk":
            return lambda: MemoryBlackboard(content_tags=False, clock=now)
        case "local":
            return lambda: LocalBlackboard(tmp_path_factory.mktemp("blackboard") / "not-yet-there")
        case "s3":
            return in_bucket_of(request.getfixturevalue("s3_client"))
        case server:
            return in_bucket_of(request.getfixturevalue(server).client())


@pytest.fixture
def blackboard(new_blackboard: NewBlackboard) -> Blackboard:
    """An empty blackboard of each kind in turn."""
    return new_blackboard()


@pytest.fixture(params=["moto", "versitygw", "ceph"], scope="module")
def server(request: pytest.FixtureRequest) -> str:
    """The name of each server in turn."""
    return request.param


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest, server: str) -> S3Client:
    """A client of the server."""
    return request.getfixturevalue("s3_client") if server == "moto" else request.getfixturevalue(server).client()
