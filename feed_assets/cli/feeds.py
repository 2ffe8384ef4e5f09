"""`feed-assets feeds`: every feed below a base.

Here: the command. Not here: finding the feeds (`file_feed.discovery`).
"""

from __future__ import annotations

import os
from dataclasses import asdict

import click

from feed_assets.blackboard.location import UnknownLocationError, open_blackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.cli.clock import now
from feed_assets.cli.feed_place import is_there, what_is_near, with_what_is_near
from feed_assets.cli.installation import BASE, load_installation
from feed_assets.cli.output import json_option, print_json, print_table
from feed_assets.file_feed.discovery import FeedSummary, feed_locations, summarize
from feed_assets.file_feed.errors import NoValidUpdateError
from feed_assets.file_feed.feed import Feed

NOT_FEEDS = ("raw", "quarantine")
"""Folders of a base that hold no feeds, or no feeds for readers."""

SHOWN = 3


@click.command()
@click.argument("base", required=False)
@json_option
def feeds(base: str | None, *, as_json: bool) -> None:
    """List every feed below BASE: its partitions, its latest update, and partitions whose newest update is not valid.

    BASE is a directory or s3://bucket/prefix. Default: FEED_ASSETS_BASE. The command looks at storage only, so it also
    lists feeds that other programs publish. For raw data and quarantine see `sources` and `quarantine`. Exit code 3 if
    nothing is at BASE.
    """
    # Loading the project takes seconds.
    where = base if base is not None else os.environ.get(BASE) or load_installation().settings.base
    try:
        board: Blackboard = open_blackboard(where)
    except UnknownLocationError as error:
        raise click.BadParameter(str(error), param_hint="BASE") from error
    moment = now()
    found = [summarize(Feed(board, location), now=moment) for location in feed_locations(board, leave_out=NOT_FEEDS)]
    if base is not None and not found and not is_there(Feed(board)):
        # As `feed ls` does: the user has probably misspelt a place that does not exist.
        raise NoValidUpdateError(what_is_near(Feed(board), None))
    if as_json:
        print_json([asdict(each) for each in found])
        return
    print_table(
        ["feed", "partitions", "newest", "latest update", "state"],
        [(each.location or ".", each.partitions, each.newest, each.latest, _state(each)) for each in found],
        empty="" if found else with_what_is_near(f"There is no feed below {where}.", board),
    )


def _state(feed: FeedSummary) -> str:
    if feed.fault:
        return feed.fault
    parts = []
    if feed.without:
        parts.append(f"no valid update: {_some(feed.without)}")
    if feed.behind:
        parts.append(f"newer update not in force: {_some(feed.behind)}")
    return "; ".join(parts) or ("valid" if feed.latest else "empty")


def _some(partitions: tuple[str, ...]) -> str:
    shown = ", ".join(name or "the feed" for name in partitions[-SHOWN:])
    more = len(partitions) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
