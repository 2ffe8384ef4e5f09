"""`feed-assets sources`: list the partners' sources, and check their expressions with Spark.

Here: the commands. Not here: what a source is (`feed_assets.sources`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import click

from feed_assets.cli.exit_codes import FAILED
from feed_assets.cli.installation import load_installation
from feed_assets.cli.output import complain, json_option, print_json, print_table, progress, say

if TYPE_CHECKING:
    from feed_assets.sources import Source


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def sources(ctx: click.Context, *, as_json: bool) -> None:
    """List the sources: format, rules for late data, and the days with raw data."""
    if ctx.invoked_subcommand is not None:
        return
    from feed_assets.sources import raw_days  # noqa: PLC0415 - loads pydantic

    installation = load_installation()
    settings, known, board = installation.settings, installation.sources, installation.blackboard
    days: dict[str, list[date]] = defaultdict(list)
    for source, day in raw_days(board, [each.key for each in known], date.min, date.max):
        days[source].append(day)
    rows = [_row(source, sorted(days[source.key])) for source in known]
    if as_json:
        print_json(rows)
        return
    names = ("source", "format", "lookback_days", "buffer_hours", "threshold", "days", "first_day", "last_day")
    shown = [
        {**row, "threshold": f"{row['growth_threshold_percent']:g} %{', or by cost' if row['growth_costs'] else ''}"}
        for row in rows
    ]
    print_table(
        [name.replace("_", " ") for name in names],
        [[row[name] for name in names] for row in shown],
        empty=f"There is no source in {settings.sources_directory}. FEED_ASSETS_SOURCES names another directory.",
        keep=("source", "days"),
    )


@sources.command("check")
@click.argument("names", metavar="[SOURCE]...", nargs=-1)
@click.pass_context
def check(ctx: click.Context, names: Sequence[str]) -> None:
    """Check the expressions of each SOURCE, or of all, with Spark. No data is read. Exit code 1 if one is wrong."""
    from feed_assets.engine.session import compile_quickly  # noqa: PLC0415 - loads Dagster and Spark
    from feed_assets.resources import SparkResource  # noqa: PLC0415 - as above
    from feed_assets.sources import SpecError  # noqa: PLC0415 - as above
    from feed_assets.sources.expressions import check_expressions  # noqa: PLC0415 - as above

    installation = load_installation()
    settings, known = installation.settings, installation.sources
    wanted = [each for each in known if not names or {each.name, each.key} & set(names)]
    if unknown := [name for name in names if not any(name in {each.name, each.key} for each in known)]:
        raise click.BadParameter(
            f"There is no source {unknown[0]!r}. Known are: {', '.join(each.key for each in known) or 'none'}.",
            param_hint="SOURCE",
        )
    refused = 0
    with progress("checking", len(wanted)) as bar:
        bar.under_way("starting Spark")
        compile_quickly()  # there is nothing but planning
        spark = SparkResource.on(settings.spark_master, settings.base).spark_session
        for source in wanted:
            bar.under_way(source.key)
            try:
                check_expressions(spark, source)
            except SpecError as error:
                refused += 1
                bar()
                complain(f"Error: {error}")
            else:
                bar(f"{source.key}: Spark takes all expressions.")
    if not wanted:
        say(f"There is no source in {settings.sources_directory}.")
    if refused:
        ctx.exit(FAILED)


def _row(source: Source, days: Sequence[date]) -> dict[str, Any]:
    return {
        "source": source.key,
        "kind": source.kind,
        "format": source.format.type,
        "lookback_days": source.lookback_days,
        "buffer_hours": source.buffer_hours,
        "growth_threshold_percent": float(source.growth_threshold_percent),
        "growth_costs": None if source.growth_threshold is None else source.growth_threshold.model_dump(),
        "days": len(days),
        "first_day": str(days[0]) if days else None,
        "last_day": str(days[-1]) if days else None,
    }
