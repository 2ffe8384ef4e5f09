"""`pytest --quick` starts neither Spark nor a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = """
import pytest
from feed_assets.engine.java import JavaError
from feed_assets.resources.spark import SparkResource
from feed_assets_tests.servers.dynalite import Dynalite
from feed_assets_tests.state.server import postgresql

@pytest.fixture
def spark(slow_start): raise AssertionError("started")
@pytest.fixture
def server(slow_start): raise AssertionError("started")
@pytest.fixture(params=["server", "a disk", "server again"])
def store(request): return request.param == "a disk" or request.getfixturevalue("server")

def test_quick(): pass
def test_with_spark(spark): pass
def test_with_a_server(server): pass
def test_with_each_store(store): pass
@pytest.mark.slow
def test_slow(): raise AssertionError("run")

def test_of_its_own_servers(tmp_path):
    with pytest.raises(RuntimeError, match="mark it `slow`"), postgresql():
        pass
    with pytest.raises(RuntimeError, match="mark it `slow`"):
        Dynalite(tmp_path / "data")._run(["true"], {})

def test_of_its_own_spark():
    with pytest.raises(JavaError):
        SparkResource.on("local[1]").spark_session
"""


@pytest.fixture
def quick(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--quick",
        "-p",
        "feed_assets_tests.quick",
        "-p",
        "no:cacheprovider",
        "-rs",
    ]
    return subprocess.run([*command, "--rootdir", tmp_path, tmp_path], capture_output=True, text=True, check=False)


def test_what_would_start_spark_or_a_server_is_left_out_skipped_or_fails(quick: subprocess.CompletedProcess[str]):
    assert "4 passed, 2 skipped, 3 deselected" in quick.stdout, quick.stdout
    assert "--quick starts neither Spark nor a server" in quick.stdout
