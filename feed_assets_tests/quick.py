"""`pytest --quick`: the tests that start neither Spark nor a server, for the development loop.

Here: which tests these are, and a guard so that none of them starts Spark or a server. Not here: the fixtures.
"""

from __future__ import annotations

import os

import pytest

SLOW = "slow: starts Spark or servers in processes of its own, or takes more than 5 seconds"

_VARIABLE = "FEED_ASSETS_TESTS_QUICK"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Give pytest `--quick`."""
    parser.addoption("--quick", action="store_true", help="Run no tests that start Spark or a server, or are slow.")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker. Under `--quick`, let servers and Spark refuse to start, also in processes of tests."""
    config.addinivalue_line("markers", SLOW)
    if config.option.quick:
        os.environ[_VARIABLE] = "1"
        os.environ["SPARK_LAUNCHER_OPTS"] = "-XX:+SparkDoesNotStartUnderQuick"  # no Java knows it, so none starts


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under `--quick`, leave out the tests with a fixture that uses `slow_start`, and those marked `slow`."""
    if config.option.quick:
        config.hook.pytest_deselected(items=[item for item in items if not _is_quick(item)])
        items[:] = filter(_is_quick, items)


@pytest.fixture(scope="session")
def slow_start(request: pytest.FixtureRequest) -> None:
    """For fixtures that start Spark or a server. A test that asks for one while it runs is skipped under `--quick`."""
    if request.config.option.quick:
        pytest.skip("--quick starts neither Spark nor a server")


def forbid_under_quick(server: str) -> None:
    """Raise RuntimeError under `--quick`. To be called before a server starts."""
    if _VARIABLE in os.environ:
        raise RuntimeError(f"--quick starts no server, and this test starts {server}: mark it `slow`.")


def _is_quick(item: pytest.Item) -> bool:
    return "slow_start" not in getattr(item, "fixturenames", ()) and item.get_closest_marker("slow") is None
