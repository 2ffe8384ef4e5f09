"""`feed-assets backfill`: many days with one Spark.

Here: the command. Not here: the order of the runs (`operations.day_runs`), and their processes (`side_by_side`).
"""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

import click

from feed_assets.cli.clock import DayParameter, check_order
from feed_assets.cli.disk import no_space_left
from feed_assets.cli.installation import (
    BASE,
    chosen_module,
    dagster_home,
    load_definitions,
    load_installation,
    ready_to_compute,
)
from feed_assets.cli.output import complain, json_option, print_json, progress
from feed_assets.datasets.days import days_between
from feed_assets.errors import FAILED, NO_SPACE
from feed_assets.file_feed.wording import counted
from feed_assets.processes.fork_server import start_loading

if TYPE_CHECKING:
    from feed_assets.operations.day_runs import PartitionResult
    from feed_assets.resources.settings import Settings

MOST_AT_ONCE, RUNS_EACH = 4, 3
"""Each process takes the memory of another Python, and some seconds to start: it needs some runs to be worth it."""


@click.command()
@click.option("--from", "first", required=True, type=DayParameter(), metavar="DATE", help="The first day.")
@click.option("--to", "last", required=True, type=DayParameter(), metavar="DATE", help="The last day, included.")
@click.option("--select", "selection", metavar="ASSETS", help="As in the UI: `clean_ads,clean_clicks` or `clean_ads+`.")
@click.option(
    "--at-once",
    type=click.IntRange(min=1),
    metavar="N",
    help="Days at once, each in a process of its own. Default: one for each core, at most 4, if each gets a few days.",
)
@json_option
@click.pass_context
def backfill(
    ctx: click.Context, first: date, last: date, selection: str | None, at_once: int | None, *, as_json: bool
) -> None:
    """Compute every day from --from to --to with one Spark. Its runs are in the Dagster UI.

    Hours and longer partitions belong to the day on which they begin. Of partitions with another dimension, all names
    are computed; assets whose partitions are only names are left out. Assets run in stages: all days of an asset before
    the first day of the assets that read it. If an asset fails on a day, the assets that depend on it leave that day
    out, and everything else goes on. The failed days are listed at the end, and the exit code is 1.
    """
    check_order(first, last)
    days = days_between(first, last)
    start_loading(os.environ.get(BASE, ""), _at_once(at_once, len(days)))
    from feed_assets.operations import day_runs as runs  # noqa: PLC0415 - loads Dagster
    from feed_assets.operations.java_compiler import compile_for_days  # noqa: PLC0415 - loads Spark's Python side
    from feed_assets.operations.side_by_side import execution  # noqa: PLC0415 - as above
    from feed_assets.sources.raw import has_raw_data  # noqa: PLC0415 - as above

    installation = load_installation()
    ready_to_compute(installation.settings)
    try:
        stages = runs.stages(installation.definitions, selection)
    except runs.SelectionError as error:
        raise click.BadParameter(str(error), param_hint="--select") from error
    _require_partitions(runs.known_days(installation.definitions, selection), first, last, installation.settings)
    definitions, run_config = installation.definitions, dict(installation.settings.run_config)
    count = _at_once(at_once, runs.most_runs_of_a_stage(definitions, stages, days))
    compile_for_days(installation.blackboard, installation.sources, first, last)
    spark, load = (definitions.resources or {}).get("spark"), partial(load_definitions, chosen_module())
    results = []
    with (
        runs.instance_at(dagster_home(installation.settings.base), runs.UNCAPTURED) as instance,
        execution(count, spark, load, instance, run_config) as execute,
        progress("partitions", runs.count_partitions(definitions, stages, days)) as bar,
    ):
        for result in runs.backfill(
            definitions,
            instance,
            days,
            run_config=run_config,
            selection=selection,
            starting=lambda day, assets: bar.under_way(f"{day} {', '.join(assets)}"),
            execute=execute,
        ):
            results.append(result)
            bar(None if as_json else _lines(result), steps=len(result.assets))
    if as_json:
        print_json([asdict(result) for result in results])
    failed = sorted({result.day for result in results if not result.success})
    if any(NO_SPACE in reason for result in results for reason in result.failures):
        complain(no_space_left(installation, failed))
    if failed:
        complain(f"{len(failed)} of {counted(len(days), 'day')} failed: {', '.join(failed)}")
        if installation.sources and not has_raw_data(installation.blackboard):
            complain(
                f"There is no raw data in {installation.blackboard.uri('')}: `feed-assets land` puts it there. "
                "If it is elsewhere, set FEED_ASSETS_BASE."
            )
        ctx.exit(FAILED)


def _at_once(wanted: int | None, runs: int) -> int:
    """How many runs are executed at once. `runs` is the number of runs of the largest stage."""
    return wanted or max(1, min(os.cpu_count() or 1, MOST_AT_ONCE, runs // RUNS_EACH))


def _require_partitions(known: tuple[date, date] | None, first: date, last: date, settings: Settings) -> None:
    """Raise BadParameter unless both days have partitions, as all from the first to the last of `known` have."""
    if known is None:
        there_are = f"the first day is {settings.first_day}, and today is {settings.clock.now():%Y-%m-%d}"
    elif first < known[0] or last > known[1]:
        there_are = f"partitions go from {known[0]} to {known[1]}"
    else:
        return
    unknown = last if known and first >= known[0] else first
    raise click.BadParameter(f"There is no partition {unknown}: {there_are}.", param_hint="--from/--to")


def _lines(result: PartitionResult) -> str:
    """A line for the assets that were made, and one for those that failed or were skipped."""
    updates = dict(result.updates)
    made = [f"{asset} {updates.get(asset, '')}".strip() for asset in result.assets if asset not in result.failed]
    lines = [f"{result.partition}  ok       {', '.join(made)}"] if made else []
    if result.failed:
        state, reasons = "skipped" if result.skipped else "failed ", "; ".join(result.failures) or "no reason known"
        lines.append(f"{result.partition}  {state}  {', '.join(result.failed)}: {reasons}")
    return "\n".join(lines)
