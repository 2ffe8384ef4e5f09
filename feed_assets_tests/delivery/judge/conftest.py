"""A judge and a client for the tests of the judge."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from botocore.config import Config

from feed_assets_tests.delivery.judge.running import JudgeServer, judging


@pytest.fixture(scope="module")
def shared(slow_start, tmp_path_factory) -> Iterator[JudgeServer]:
    """A judge for tests that look at streams of their own only."""
    with judging(tmp_path_factory.mktemp("judge")) as started:
        started.set(calls_limited=False)
        yield started


@pytest.fixture
def client(shared: JudgeServer):
    """Sends also what boto3 would refuse."""
    return shared.client(config=Config(parameter_validation=False, retries={"max_attempts": 0}))


@pytest.fixture
def stream(shared: JudgeServer, request: pytest.FixtureRequest) -> str:
    """A new stream with two shards."""
    return shared.create(f"stream-{hashlib.md5(request.node.nodeid.encode()).hexdigest()}", shards=2)
