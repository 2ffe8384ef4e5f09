"""`feed-assets quarantine`: the records that were set aside.

Here: the command. Not here: finding and counting them (`feed_assets.operations.quarantined`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING

import click

from feed_assets.cli.clock import DayParameter
from feed_assets.cli.errors import FAILED
from feed_assets.cli.installation import load_installation
from feed_assets.cli.output import complain, json_option, print_json, print_table
from feed_assets.file_feed import FeedError

if TYPE_CHECKING:
    from feed_assets.operations.quarantined import SetAside


@click.command()
@click.argument("day", metavar="[DATE]", required=False, type=DayParameter())
@click.option("--feed", metavar="NAME", help="Only this feed's, such as clean-ads, or `landing` for what never landed.")
@json_option
@click.pass_context
def quarantine(ctx: click.Context, day: date | None, feed: str | None, *, as_json: bool) -> None:
    """Show which records were set aside, on DATE or ever: how many by reason, each with an example.

    Records that landing set aside have no usable time, so they are of no day, and shown without DATE only.
    Exit code 1 where files cannot be read; all others are shown.
    """
    from feed_assets.operations.quarantined import set_aside  # noqa: PLC0415 - loads DuckDB

    installation = load_installation()
    settings, board = installation.settings, installation.blackboard
    partition = str(day) if day else None
    faults: list[FeedError] = []
    found = list(set_aside(board, now=settings.clock.now(), partition=partition, where=feed, unreadable=faults.append))
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        _show(found, empty=_nothing(feed, partition, settings.base))
    for fault in faults:
        complain(f"Error: {fault}")
    if faults:
        ctx.exit(FAILED)


def _nothing(feed: str | None, partition: str | None, base: str) -> str:
    asked = "".join(f" of {each}" for each in (feed, partition) if each)
    return f"Nothing{asked} is in quarantine below {base}."


def _show(found: Sequence[SetAside], *, empty: str) -> None:
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
        empty=empty,
    )
