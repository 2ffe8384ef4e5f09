"""`feed-assets running`: which steps run now, and how far they are.

Here: the command. Not here: what is known of a step (`run_history.live`). It is no part of `feed-assets health`, which
judges weeks, and exits with 1 for a warning; people repeat this one while they wait.
"""

from __future__ import annotations

from datetime import UTC, datetime

import click

from feed_assets.cli.installation import load_installation
from feed_assets.cli.output import json_option, print_json, print_text, say


@click.command()
@json_option
def running(*, as_json: bool) -> None:
    """Show the steps that run now: for how long, and how many tasks, rows and bytes of Spark are done.

    A step shows up after 5 seconds, and the figures are at most 5 seconds old. `feed-assets explain DATE` has the last
    figures of steps that failed or were killed.
    """
    import msgspec  # noqa: PLC0415 - loaded when used

    from feed_assets.run_history.answers import step_says  # noqa: PLC0415 - as above
    from feed_assets.run_history.tables import running_now  # noqa: PLC0415 - loads SQLAlchemy
    from feed_assets.state.store import Store  # noqa: PLC0415 - as above

    installation, now = load_installation(), datetime.now(UTC)
    found = running_now(Store(installation.settings.state), installation.blackboard.uri(""), now)
    if as_json:
        print_json(msgspec.to_builtins([step_says(each, now) for each in found]))
        return
    for each in found:
        print_text(f"{each.run[:8]}  {each.sentence(now)}", indent="    ")
    if not found:
        say("No step runs that began more than 5 seconds ago.")
