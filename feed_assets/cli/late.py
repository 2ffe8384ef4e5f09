"""`feed-assets late`: a calendar of late data. Here: the command. Not here: the rows (`operations.late_calendar`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from feed_assets.cli.feed_place import with_what_is_near
from feed_assets.cli.installation import load_installation
from feed_assets.cli.output import OutputPath, json_option, print_json, print_table, say, write_output
from feed_assets.cli.source_names import sources_named


@click.command()
@click.option(
    "--days", metavar="N", type=click.IntRange(min=1), help="Days up to today. Default: the longest lookback."
)
@click.option("--source", "names", metavar="NAME", multiple=True, help="Only this source; repeatable.")
@click.option(
    "--picture",
    metavar="FILE",
    type=OutputPath(".png"),
    help="Also write a heat map (.png).",
)
@json_option
def late(days: int | None, names: Sequence[str], picture: Path | None, *, as_json: bool) -> None:
    """Show for each day and source: sent data, its part in the update in force, growth, decision, last re-run.

    Sizes are records, or bytes (B) where a file does not tell its records. `feed-assets explain DATE` tells more.
    """
    from feed_assets.operations import late_calendar as calendar  # noqa: PLC0415 - loads pydantic

    installation = load_installation()
    board = installation.blackboard
    rows = calendar.late_calendar(
        board,
        installation.feeds,
        installation.sources,
        now=installation.settings.clock.now(),
        days=days,
        shown=sources_named(installation, names, parameter="--source"),
    )
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        print_table(
            ["day", "source", "growth", "decision", "sent", "baseline", "re-run", "in force"],
            [
                (
                    row.day,
                    row.source,
                    None if row.growth_percent is None else f"{row.growth_percent:+g} %",
                    row.decision.replace("below threshold", "below").replace("never processed", "new"),
                    _size(row.sent_records, row.sent_bytes),
                    _size(row.baseline_records, row.baseline_bytes),
                    row.rerun,
                    row.update,
                )
                for row in rows
            ],
            empty="" if rows else with_what_is_near("No data was sent for these days, and none was processed.", board),
            keep=("day", "source", "growth"),
            numbers=("sent", "baseline"),
        )
    if picture is not None and rows:
        write_output(picture, calendar.picture(rows))
    if picture is not None:
        say(f"Written: {picture}" if rows else f"{picture} is not written: there is nothing to show.")


def _size(records: int | None, size: int) -> str:
    return f"{size:,} B" if records is None else f"{records:,}"
