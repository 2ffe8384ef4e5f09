"""The command: `python -m feed_assets_tests.benchmarks [--only NAME] [--quick]`.

Here: which benchmarks there are. Not here: what they do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console

from feed_assets.engine.session import compile_quickly
from feed_assets_tests.benchmarks import (
    backfills,
    clicks,
    cold_starts,
    commands,
    deliveries,
    failovers,
    landings,
    latest_update,
    lookups,
    pipelines,
    polling,
    reads,
    receiving,
    sensor_ticks,
    sizes,
    slots,
    storages,
    task_queues,
    warehouse,
)
from feed_assets_tests.benchmarks.results import Report, show, write

Benchmark = Callable[..., Report]

# Those of a bucket first: the session of all is started with the jars for S3.
BENCHMARKS: dict[str, Benchmark] = {
    "reads": reads.measure,
    "publishing": storages.measure_publishing,
    "places": storages.measure_places,
    "landing": landings.measure,
    "receiver": receiving.measure,
    "polling": polling.measure,
    "tasks": task_queues.measure,
    "cold-start": cold_starts.measure,
    "failover": failovers.measure,
    "pipelines": pipelines.measure,
    "backfill": backfills.measure,
    "clicks": clicks.measure,
    "reprocess": clicks.measure_reprocess,
    "latest": latest_update.measure,
    "ticks": sensor_ticks.measure,
    "sizes": sizes.measure,
    "slots": slots.measure,
    "warehouse": warehouse.measure,
    "deliveries": deliveries.measure,
    "lookups": lookups.measure,
    "demo": commands.measure_demo,
    "test": commands.measure_tests,
}
OUTPUT = "benchmarks.json"
WIDTH = 130
"""Columns where there is no terminal, so that a table in a file keeps a line a row."""


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(BENCHMARKS)), help="Only this one; may be repeated.")
@click.option("--quick", is_flag=True, help="Small sizes: to see that it works, not how fast.")
def main(only: tuple[str, ...], *, quick: bool) -> None:
    """Measure the project beside what else one would do; prints tables, writes benchmarks.json."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    reports = []
    if quick:
        compile_quickly()
    for name in only or BENCHMARKS:
        click.echo(f"{datetime.now(UTC):%H:%M:%S} {name} ...", err=True)
        with TemporaryDirectory(prefix=f"benchmark-{name}-") as scratch:
            reports.append(BENCHMARKS[name](Path(scratch), quick=quick))
        show(reports[-1], console)
        # After each, so that who stops the long ones keeps what there is.
        write(reports, Path(OUTPUT), started=started, quick=quick)
    console.print(f"Written to {OUTPUT}.")


if __name__ == "__main__":
    main()
