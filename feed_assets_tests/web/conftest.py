"""A browser for the pages, and a shop to look at, once for all tests here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture
def screen(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page on a screen, and waits for an element. It raises no error, and asks its own service alone."""
    contexts, problems = list[Any](), list[str]()

    def open_(url: str, *, path: str, ready: str, width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        context.set_default_timeout(120_000)
        page = context.new_page()
        requested = list[str]()
        page.on("request", lambda request: requested.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if "Content Security" in said.text else None)
        page.goto(f"{url}{path}")
        page.wait_for_selector(ready)
        assert all(each.startswith(url) for each in requested), requested
        return page

    yield open_
    for each in contexts:
        each.close()
    assert problems == []
