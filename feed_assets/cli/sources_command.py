"""`feed-assets sources`: list the partners' sources, check their expressions with Spark, and try them on a file.

Here: the commands, but for `status` (`source_status`). Not here: what a source is (`feed_assets.sources`), and a trial
(`feed_assets.operations.trial`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from feed_assets.cli.installation import load_installation
from feed_assets.cli.output import complain, file_size, json_option, print_json, print_table, progress, say
from feed_assets.cli.source_names import source_named, sources_named
from feed_assets.cli.source_status import status
from feed_assets.errors import FAILED
from feed_assets.file_feed.wording import counted, shortened

if TYPE_CHECKING:
    from feed_assets.operations.trial import Trial
    from feed_assets.sources.ledger import Landing
    from feed_assets.sources.spec import Source

LONGEST_EXAMPLE = 300
"""Characters of a record that a remark shows."""


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def sources(ctx: click.Context, *, as_json: bool) -> None:
    """List the sources: format, rules for late data, and the days with raw data."""
    if ctx.invoked_subcommand is not None:
        return
    from feed_assets.sources.raw import raw_days  # noqa: PLC0415 - loads pydantic

    installation = load_installation()
    settings, known, board = installation.settings, installation.sources, installation.blackboard
    known = tuple(source for source in known if not source.problems)
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


sources.add_command(status)


@sources.command("check")
@click.argument("names", metavar="[SOURCE]...", nargs=-1)
@click.pass_context
def check(ctx: click.Context, names: Sequence[str]) -> None:
    """Check the expressions of each SOURCE, or of all, with Spark. No data is read. Exit code 1 if one is wrong.

    It warns of functions that raise an error for some values, and names a spelling that does not; and of expressions
    that drop the zone of a time: `sources try` counts the records that this changes.
    """
    from feed_assets.engine.session import compile_quickly  # noqa: PLC0415 - loads Dagster and Spark
    from feed_assets.sources.dropped_zones import zone_warning, zones_dropped  # noqa: PLC0415 - as above
    from feed_assets.sources.expressions import check_constants, check_expressions  # noqa: PLC0415 - as above
    from feed_assets.sources.raising import raising_functions  # noqa: PLC0415 - as above
    from feed_assets.sources.spec import SpecError  # noqa: PLC0415 - as above

    os.environ.setdefault("FEED_ASSETS_SPARK_LOG_LEVEL", "off")  # the command itself prints what is wrong
    installation = load_installation()
    settings, wanted = installation.settings, sources_named(installation, names)
    refused = 0
    with progress("checking", len(wanted)) as bar:
        bar.under_way("starting Spark")
        compile_quickly()  # there is nothing but planning
        spark = settings.spark.spark_session
        for source in wanted:
            bar.under_way(source.key)
            try:
                check_expressions(spark, source)
                check_constants(spark, source)
            except SpecError as error:
                refused += 1
                bar()
                complain(f"Error: {error}")
            else:
                bar(f"{source.key}: Spark takes all expressions.")
                for warning in raising_functions(source):
                    complain(f"Warning: {warning}")
                for location, part in zones_dropped(spark, source).items():
                    complain(f"Warning: {source.problem(location, zone_warning(part, source))}.")
    refused += sum(bool(source.problems) for source in installation.sources) if not names else 0
    if not installation.sources:
        say(f"There is no source in {settings.sources_directory}.")
    if refused:
        ctx.exit(FAILED)


@sources.command("try")
@click.argument("name", metavar="SOURCE")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def try_(name: str, file: Path, *, as_json: bool) -> None:
    """Show what SOURCE makes of FILE; nothing lands.

    For each column, it counts the records that have a value, that have none, and whose value cannot be read. The rules
    of your project are not applied: they judge records when a day is processed.
    """
    from feed_assets.operations.java_compiler import compile_for_delivery  # noqa: PLC0415 - loads Dagster and Spark
    from feed_assets.operations.trial import try_source  # noqa: PLC0415 - as above
    from feed_assets.resources.spark import SparkResource  # noqa: PLC0415 - as above
    from feed_assets.sources.partner_file import check_path  # noqa: PLC0415 - as above
    from feed_assets.sources.raising import raising_functions  # noqa: PLC0415 - as above

    os.environ.setdefault("FEED_ASSETS_SPARK_LOG_LEVEL", "off")  # the command itself prints why it failed
    installation = load_installation()
    wanted = source_named(installation, name)
    check_path(file, wanted)
    with progress("trying", 1) as bar:
        bar.under_way(f"{file.name}{file_size(file)}")
        compile_for_delivery([file])
        # On this machine, whatever the master of the installation: the file is here.
        trial = try_source(
            SparkResource.on("local[*]").spark_session, wanted, file, now=installation.settings.clock.now()
        )
        bar()
    if as_json:
        from feed_assets.sources.ledger import landing_json  # noqa: PLC0415 - loads the blackboard

        print_json({**asdict(trial), "landing": landing_json(trial.landing)})
        return
    rows = [
        (each.name, each.type, each.filled, each.empty, each.unparsable, each.first or "") for each in trial.columns
    ]
    print_table(["column", "type", "filled", "empty", "unparsable", "first value"], rows, empty="", keep=("column",))
    for line in _remarks(trial, wanted):
        say(line)
    for warning in raising_functions(wanted):
        complain(f"Warning: {warning}")


def _remarks(trial: Trial, source: Source) -> Iterator[str]:
    """Details of a trial that the table does not show."""
    landing = trial.landing
    yield from _of_hours(landing, source)
    if landing.filtered:
        yield f"The filter leaves out {counted(landing.filtered, 'record')}."
    for group in trial.not_landed:
        records = counted(group.records, "record")
        example = shortened(group.example, LONGEST_EXAMPLE)
        parts = [f"{reason} {count:,}" for reason, count in trial.reasons.items() if reason not in landing.quarantined]
        why = group.reason if group.reason in trial.reasons else f"{group.reason} ({', '.join(parts)})"
        yield f"Landing would quarantine {records}: {why}. Line {group.line}: {example}"
    if landing.malformed and trial.first_malformed is not None:
        first = trial.first_malformed
        yield (
            f"{counted(landing.malformed, 'malformed record')} would land, as the event time is readable. "
            f"Line {first.line}: {shortened(first.record, LONGEST_EXAMPLE)}"
        )
    yield from _of_columns(trial)


def _of_hours(landing: Landing, source: Source) -> Iterator[str]:
    """How many records would land, and where; and how the file was read."""
    hours = landing.partitions
    where = f", in {counted(len(hours), 'hour')} from {_hour(min(hours))} to {_hour(max(hours))} UTC" if hours else ""
    yield f"{landing.file}: {counted(landing.read, 'record')} read; {landing.landed:,} would land{where}."
    for hint in landing.hints:
        yield f"{landing.file}: {hint}."
    if len(hours) > source.most_hours:
        yield (
            f"Warning: `feed-assets land` takes this file only with `--any-hours`, as {source.key} takes "
            f"{source.most_hours:,} hours of one file (`most_hours`). Are the times right?"
        )


def _of_columns(trial: Trial) -> Iterator[str]:
    """Values that cannot be read, zones that are lost, and equal ids."""
    for column in trial.columns:
        if (wrong := column.first_unparsable) is not None:
            yield f"{column.name} cannot be read in line {wrong.line}: {shortened(wrong.record, LONGEST_EXAMPLE)}"
    for zone in trial.dropped_zones:
        first = zone.first
        yield (
            f"Warning: {zone.field} drops the zone of {counted(zone.records, 'record')}: they are taken for wall time. "
            f"Use to_timestamp(...) and time_zone: UTC. Line {first.line}: {shortened(first.record, LONGEST_EXAMPLE)}"
        )
    if trial.redelivered:
        yield (
            f"{counted(trial.redelivered, 'record')} with the id of another record of this file: "
            "of each id, a day keeps the earliest record."
        )


def _hour(partition: str) -> str:
    return f"{partition.replace('/', ' ')}:00"


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
