"""A clock that is fixed at either end of what it takes: answers, or a message that says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import Result

from feed_assets.blackboard.location import open_blackboard
from feed_assets.file_feed import Facts, Feed, publish_files
from feed_assets_tests.cli.conftest import NOON
from feed_assets_tests.harness import SHOP_ADS, SHOP_CLICKS, write_sources

Run = Callable[..., Result]
Written = Callable[[str, str], Path]


@pytest.mark.parametrize("time", ["1970-01-01", "9998-12-31T23:59:59"])
@pytest.mark.parametrize(
    "command",
    [
        ["feeds"],
        ["sources"],
        ["quarantine"],
        ["explain"],
        ["explain", "2019-11-24"],
        ["feed", "ls", "FEED"],
        ["feed", "latest", "FEED", "-p", "2019-11-24"],
        ["feed", "verify", "FEED"],
        ["feed", "gc", "FEED", "--keep", "1", "--younger-than", "30d"],
        ["feed", "pin", "FEED", "-p", "2019-11-24", "--update", "20191201.120000", "--holder", "me", "--until", "30d"],
        ["feed", "publish", "FEED", "-p", "2019-11-24", __file__],
        ["feed", "invalidate", "FEED", "-p", "2019-11-24", "--reason", "wrong"],
    ],
    ids=" ".join,
)
def test_a_command_works_at_both_ends_of_the_years_that_a_clock_can_be_fixed_to(
    run: Run, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: str, command: list[str]
):
    monkeypatch.chdir(tmp_path)
    base = tmp_path / "base"
    monkeypatch.setenv("FEED_ASSETS_BASE", str(base))
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS)))
    feed = Feed(open_blackboard(str(base)), "clean-ads/v1.0")
    now = datetime.fromisoformat(f"{NOON}+00:00")
    publish_files(feed, "2019-11-24", [written("a.csv", "x\n")], now=now, owner="t", facts=Facts())
    monkeypatch.setenv("FEED_ASSETS_AS_OF", time)

    run(*(str(base / "clean-ads/v1.0") if word == "FEED" else word for word in command))
