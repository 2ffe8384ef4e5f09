"""`feed-assets quarantine`: the records that could not be used.

Here: the command. Not here: finding and counting them (`feed_assets.operations.quarantined`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING

import click

from feed_assets.cli.clock import DayParameter, OptionalDay
from feed_assets.cli.feed_place import similar_names, with_what_is_near
from feed_assets.cli.feeds import NOT_FEEDS
from feed_assets.cli.installation import Installation, load_installation
from feed_assets.cli.output import complain, json_option, print_json, print_table
from feed_assets.errors import FAILED
from feed_assets.file_feed.discovery import feed_locations
from feed_assets.file_feed.errors import FeedError

if TYPE_CHECKING:
    from feed_assets.operations.quarantined import SetAside


@click.command()
@click.argument("day", cls=OptionalDay, metavar="[DATE]", required=False, type=DayParameter())
@click.option("--feed", metavar="NAME", help="A feed, such as clean-ads, or `landing` for records that did not land.")
@json_option
@click.pass_context
def quarantine(ctx: click.Context, day: date | None, feed: str | None, *, as_json: bool) -> None:
    """Show the records in quarantine, of DATE or of all days: the count for each reason, with an example.

    Records that landing put there have no usable time and so no day: only the command without DATE shows them.
    Exit code 1 if some files cannot be read; the others are still shown.
    """
    from feed_assets.operations.quarantined import set_aside  # noqa: PLC0415 - loads DuckDB

    installation = load_installation()
    settings, board = installation.settings, installation.blackboard
    partition = str(day) if day else None
    faults: list[FeedError] = []
    found = list(set_aside(board, now=settings.clock.now(), partition=partition, where=feed, unreadable=faults.append))
    if feed is not None and not found and not faults:
        _require_feed(installation, feed)
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        _show(found, empty="" if found else with_what_is_near(_nothing(feed, partition, settings.base), board))
    for fault in faults:
        complain(f"Error: {fault}")
    if faults:
        ctx.exit(FAILED)


def _require_feed(installation: Installation, feed: str) -> None:
    """Raise click.BadParameter if no feed, and no place of landing's quarantine, has this name."""
    board = installation.blackboard
    feeds = {*installation.feeds.feeds, *feed_locations(board, leave_out=NOT_FEEDS)}
    names = [*sorted(feeds), "landing", *(f"landing/{source.key}" for source in installation.sources)]
    if not any(f"{name}/".startswith(f"{feed.strip('/')}/") for name in names):
        where = installation.settings.base
        raise click.BadParameter(
            f"there is no feed {feed!r} below {where}. {similar_names(feed, names)}", param_hint="--feed"
        )


def _nothing(feed: str | None, partition: str | None, base: str) -> str:
    requested = "".join(f" of {each}" for each in (feed, partition) if each)
    return f"Nothing{requested} is in quarantine below {base}."


def _show(found: Sequence[SetAside], *, empty: str) -> None:
    rows = [
        (one.where, one.partition, one.state or None, one.source, one.reason, one.records, _example(one))
        for one in found
    ]
    print_table(["where", "day", "state", "source", "reason", "records", "example"], rows, empty=empty)


def _example(each: SetAside) -> str:
    return f"{each.file}:{each.line} {each.example}"
