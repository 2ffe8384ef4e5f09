"""`feed-assets backfill`: many days in one process.

Here: the command. Not here: the order of the runs (`feed_assets.backfill`).
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

import click

from feed_assets.cli.errors import FAILED
from feed_assets.cli.installation import dagster_home, load_installation
from feed_assets.cli.output import json_option, print_json, progress, say
from feed_assets.file_feed.wording import counted

DAY = click.DateTime(["%Y-%m-%d"])


@click.command()
@click.option("--from", "first", required=True, type=DAY, metavar="DATE", help="The first day.")
@click.option("--to", "last", required=True, type=DAY, metavar="DATE", help="The last day, included.")
@json_option
@click.pass_context
def backfill(ctx: click.Context, first: datetime, last: datetime, *, as_json: bool) -> None:
    """Compute every day from --from to --to: one process, one Spark, Dagster runs on this instance.

    All days of the cleaned feeds come before the first day of what is made of them. A day that fails is left out of the
    stages after it, the others go on; then the exit code is 1, and the failed days are listed.
    """
    if last < first:
        message = f"{last:%Y-%m-%d} is before {first:%Y-%m-%d}."
        raise click.BadParameter(message, param_hint="--to")
    from feed_assets import backfill as runs  # noqa: PLC0415 - loads Dagster
    from feed_assets.partitions import days_between  # noqa: PLC0415 - as above

    installation = load_installation()
    days = days_between(first.date(), last.date())
    partitions = runs.known_partitions(installation.definitions)
    if unknown := [day for day in days if day not in partitions]:
        message = f"There is no partition {unknown[0]}: partitions go from {partitions[0]} to {partitions[-1]}."
        raise click.BadParameter(message, param_hint="--from/--to")
    results = []
    stages = runs.stages(installation.definitions)
    with (
        runs.instance_at(dagster_home(), runs.UNCAPTURED) as instance,
        progress("runs", len(days) * len(stages)) as advance,
    ):
        for result in runs.backfill(
            installation.definitions, instance, days, run_config=installation.settings.run_config
        ):
            results.append(result)
            advance(None if as_json else _line(result))
    if as_json:
        print_json([asdict(result) for result in results])
    failed = sorted({result.partition for result in results if not result.success})
    if failed:
        say(f"{len(failed)} of {counted(len(days), 'day')} failed: {', '.join(failed)}")
        ctx.exit(FAILED)


def _line(result: object) -> str:
    from feed_assets.backfill import PartitionResult  # noqa: PLC0415 - loads Dagster

    if not isinstance(result, PartitionResult):
        raise TypeError(result)
    what = ", ".join(f"{asset} {update}" for asset, update in result.updates) or ", ".join(result.assets)
    if result.success:
        return f"{result.partition}  ok      {what}"
    return f"{result.partition}  {'skipped' if result.skipped else 'failed '} {'; '.join(result.failures) or what}"
