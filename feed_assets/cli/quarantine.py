"""`feed-assets quarantine`: the records that were set aside.

Here: the command. Not here: finding and counting them (`feed_assets.quarantine`).
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import date

import click

from feed_assets.cli.clock import Day
from feed_assets.cli.installation import load_settings
from feed_assets.cli.output import json_option, print_json, print_table


@click.command()
@click.argument("day", metavar="[DATE]", required=False, type=Day())
@click.option("--feed", metavar="NAME", help="Only this feed's, such as clean-ads, or `landing` for what never landed.")
@json_option
def quarantine(day: date | None, feed: str | None, *, as_json: bool) -> None:
    """Show which records were set aside, on DATE or ever: how many by reason, each with an example.

    Records that landing set aside have no usable time, so they are of no day, and shown without DATE only.
    """
    from feed_assets.quarantine import set_aside  # noqa: PLC0415 - loads DuckDB
    from feed_assets.resources import BlackboardResource  # noqa: PLC0415 - loads Dagster

    settings = load_settings()
    board = BlackboardResource.at(settings.base).blackboard
    partition = str(day) if day else None
    found = list(set_aside(board, now=settings.clock.now(), partition=partition, where=feed))
    if as_json:
        print_json([asdict(each) for each in found])
        return
    asked = "".join(f" of {each}" for each in (feed, partition) if each)
    print_table(
        ["where", "day", "state", "source", "reason", "records", "example"],
        [
            (
                each.where,
                each.partition,
                each.state or None,
                each.source,
                each.reason,
                each.records,
                f"{each.file}:{each.line} {each.example}",
            )
            for each in found
        ],
        empty=f"Nothing{asked} is in quarantine below {settings.base}.",
    )
