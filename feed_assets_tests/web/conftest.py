"""A browser for the pages, and a shop to look at, once for all tests here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from feed_assets_tests.harness import SHOP_ADS, SHOP_CLICKS, Installation, settings_below, write_sources
from feed_assets_tests.servers.chromium import chromium
from feed_assets_tests.servers.server import MissingServerError
from feed_assets_tests.web.gated_shop import environment, fill, serving


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Chromium under Playwright. Skipped where it cannot be had; with CI set that is an error.

    For a module: while Playwright works, other tests of this process could not run an event loop.
    """
    try:
        found = chromium()
    except MissingServerError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"No Chromium: {reason}")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - starts a process of its own

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(found.program),
            env=dict(found.environment),
            args=["--no-sandbox"],  # root has no sandbox, and the page is ours
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shop_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base of a shop whose assets have triggers; its Dagster home is beside it."""
    directory = tmp_path_factory.mktemp("gated-shop")
    sources = write_sources(directory / "sources", SHOP_ADS, SHOP_CLICKS)
    home = directory / "home"
    home.mkdir()
    with dg.instance_for_test(temp_dir=str(home)) as instance:
        fill(Installation(settings_below(directory / "base", sources), instance))
    return directory / "base"


@pytest.fixture(scope="session")
def shop_url(shop_base: Path) -> Iterator[str]:
    """The address of the service of the command line over this shop."""
    directory = shop_base.parent
    with serving(environment(shop_base, directory / "home"), directory) as url:
        yield url
