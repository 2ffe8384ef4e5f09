"""`feed-assets land`: put a partner's logs into the raw partitions.

Here: the command. Not here: landing itself (`sources.landing`).
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from feed_assets.cli.errors import FAILED, exit_code
from feed_assets.cli.installation import load_settings, ready_to_compute
from feed_assets.cli.output import complain, json_option, print_json, print_table, progress


@click.command()
@click.argument("source")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
@click.pass_context
def land(ctx: click.Context, source: str, files: tuple[Path, ...], *, as_json: bool) -> None:
    """Put each FILE into the hourly raw partitions of SOURCE, by event time, whatever its order and age.

    SOURCE is a source's name, or <kind>/<name>. A file that has landed before adds nothing. A file that cannot be
    landed leaves nothing behind; the others are landed all the same, and the exit code is 1.
    """
    from feed_assets.resources import BlackboardResource, SparkResource  # noqa: PLC0415 - loads Dagster and Spark
    from feed_assets.sources import load_sources  # noqa: PLC0415 - as above
    from feed_assets.sources.landing import land as land_file  # noqa: PLC0415 - as above

    settings = load_settings()
    ready_to_compute(settings)
    known = load_sources(settings.sources_directory)
    wanted = [each for each in known if source in {each.name, each.key}]
    if len(wanted) != 1:
        names = ", ".join(each.key for each in known) or f"none in {settings.sources_directory}"
        message = f"There is no single source {source!r}. Known are: {names}."
        raise click.BadParameter(message, param_hint="SOURCE")
    board = BlackboardResource.at(settings.base).blackboard
    spark = SparkResource.on(settings.spark_master).spark_session
    landings, failures = [], []
    with progress("landing", len(files)) as advance:
        for file in files:
            try:
                landings.append(land_file(spark, board, wanted[0], file, now=settings.clock.now()))
            except Exception as error:
                if exit_code(error) is None:
                    raise
                failures.append(f"{file}: {error}")
            advance()
    if as_json:
        print_json([asdict(landing) for landing in landings])
    else:
        print_table(
            ["file", "read", "landed", "filtered out", "quarantined", "hours", "note"],
            [
                (
                    landing.file,
                    landing.read,
                    landing.landed,
                    landing.filtered,
                    sum(landing.quarantined.values()),
                    len(landing.partitions),
                    "landed before, nothing added" if landing.already_landed else "",
                )
                for landing in landings
            ],
            empty="Nothing landed.",
        )
    for failure in failures:
        complain(f"Error: {failure}")
    if failures:
        ctx.exit(FAILED)
