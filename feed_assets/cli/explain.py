"""`feed-assets explain`: why a day is as it is.

Here: the command. Not here: the reasons (`feed_assets.explanation`).
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

import click

from feed_assets.cli.installation import left_out, load_installation
from feed_assets.cli.output import json_option, print_json, print_table


@click.command()
@click.argument("date", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE")
@json_option
def explain(date: datetime, *, as_json: bool) -> None:
    """For each asset on DATE: the update in force, why it was or was not made again, growth, failed checks, lineage.

    Everything is read from storage: Dagster's database may be gone.
    """
    from feed_assets.explanation import explain as stories_of  # noqa: PLC0415 - loads Dagster

    installation = load_installation()
    stories = stories_of(
        installation.blackboard,
        installation.feeds,
        installation.sources,
        date.date(),
        now=installation.settings.clock.now(),
    )
    if as_json:
        print_json([asdict(story) for story in stories])
        return
    for story in stories:
        _show(story)
    if note := left_out():
        click.echo(f"\n{note}")


def _show(story: object) -> None:
    from feed_assets.explanation import AssetStory  # noqa: PLC0415 - loads Dagster

    if not isinstance(story, AssetStory):
        raise TypeError(story)
    click.echo(f"\n{story.asset} {story.day}  ({story.location})")
    click.echo(f"  in force: {story.latest or 'nothing valid'}")
    click.echo(f"  standing: {story.standing}")
    print_table(
        ["update", "state", "made because", "read", "published", "quarantined", "duplicates"],
        [
            (
                update.name + (" *" if update.in_force else ""),
                update.state,
                update.made_because,
                *(update.rows.get(name) for name in ("read", "published", "quarantined", "duplicates")),
            )
            for update in story.updates
        ],
        empty="  no updates yet",
    )
    for update in story.updates:
        for check in update.failed_checks:
            click.echo(f"  {update.name} failed {check}")
    for update in story.updates:
        if update.in_force:
            for each in update.inputs:
                click.echo(f"  {update.name} read {each}")
