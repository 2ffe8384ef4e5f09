"""`feed-assets state ...`: the state database, and its copy on the blackboard.

Here: the commands. Not here: what is copied (`dependencies.state_copy`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from feed_assets.cli.clock import now
from feed_assets.cli.installation import load_installation
from feed_assets.cli.known_datasets import NOTHING, known
from feed_assets.cli.output import json_option, print_fields, print_json, print_text, say
from feed_assets.errors import FAILED
from feed_assets.file_feed.wording import sentence

if TYPE_CHECKING:
    from feed_assets.dependencies.state_copy import StateCopy


@click.group()
def state() -> None:
    """What is known of slots: the state database, and its copy on the blackboard."""


@state.command()
@json_option
def check(*, as_json: bool) -> None:
    """Compare the state database with its copy below the base. Exit code 1 if they differ.

    Nothing is changed. What has changed since the last tick of the sensor `starts` may not be copied yet.
    """
    found = _copy().differences()
    if as_json:
        print_json({"differences": found})
    for each in () if as_json else found:
        print_text(sentence(each))
    if found:
        sys.exit(FAILED)
    say("The state database and its copy are equal.")


@state.command()
@json_option
def rebuild(*, as_json: bool) -> None:
    """Make a lost state database again from its copy below the base: slots, revisions, parts, waivers, marks.

    It refuses if the database has facts of this base already. It says what the copy could not know.
    """
    copy = _copy()
    restored = copy.rebuild(now=now())
    if as_json:
        print_json({"restored": restored.counts, "until": restored.until, "unknown": restored.unknown})
        return
    print_text(f"Restored in {copy.states.kept.store.url}, as of {restored.until:%Y-%m-%d %H:%M:%S}:")
    print_fields([*restored.counts.items()])
    click.echo()
    print_text("Not known, as it is in no copy:")
    for each in restored.unknown:
        print_text(f"- {each}.", indent="  ")


def _copy() -> StateCopy:
    from feed_assets.dependencies.state_copy import StateCopy  # noqa: PLC0415 - loads SQLAlchemy

    installation = load_installation()
    _, states = known(installation)
    if not states.datasets:
        raise click.ClickException(NOTHING)
    return StateCopy(states, installation.blackboard)
