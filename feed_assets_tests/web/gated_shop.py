"""A shop whose assets have triggers, as the service is to show it; and the service of the command line over it.

Here: data in all states, without Spark. Not here: any expectation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from feed_assets_tests.harness import AS_OF, Installation
from feed_assets_tests.listening import free_port

DAYS = [f"2019-11-{day}" for day in range(21, 28)]
WAITING = "2019-11-27"
"""The day of which the clicks are missing, so that the effectiveness waits."""
AGAIN = "2019-11-25"
"""The day of which an hour was reopened."""


def fill(desk: Installation) -> Installation:
    """Days of raw data and of feeds: complete, reopened, waiting."""
    shop = replace(desk, settings=replace(desk.settings, gate=True), _definitions=None)
    for day in DAYS:
        shop.raw_bytes(day, {"x": 1000})
        shop.process(day)
        if day != WAITING:
            shop.raw_bytes(day, {"x": 1000}, "clicks/shop_clicks")
            shop.process(day, kind="clicks")
    early = shop.at(datetime(2019, 11, 28, 12, tzinfo=UTC))
    for each in (early, shop):
        each.tick("new_manifests")
        each.tick("starts")
    for day in DAYS[1:-3]:
        shop.relate(day)
    shop.tick("new_manifests")
    shop.raw_bytes(AGAIN, {"late": 50}, hour="15")
    shop.tick("starts")
    return shop


def environment(base: Path, home: Path | None = None) -> dict[str, str]:
    """The variables of such a shop, whose sources are beside its base."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("FEED_ASSETS", "DAGSTER"))}
    return variables | {
        "FEED_ASSETS_BASE": str(base),
        "FEED_ASSETS_SOURCES": str(base.parent / "sources"),
        "FEED_ASSETS_FIRST_DAY": "2019-11-20",
        "FEED_ASSETS_AS_OF": AS_OF.isoformat(),
        "FEED_ASSETS_GATE": "1",
        **({"DAGSTER_HOME": str(home)} if home else {}),
    }


@contextmanager
def serving(variables: Mapping[str, str], directory: Path, *options: str) -> Iterator[str]:
    """The URL of the service of the command line; it is killed at the end."""
    command = [sys.executable, "-m", "feed_assets.cli", "serve", "--port", str(free_port()), "--json", *options]
    log = directory / "service.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command, cwd=directory, env=dict(variables), stdout=subprocess.PIPE, stderr=errors, process_group=0
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise AssertionError(log.read_text(encoding="utf-8"))
        yield json.loads(line)["url"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
