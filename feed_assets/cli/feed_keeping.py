"""`feed-assets feed tag|untag|pin|unpin|gc`: what keeps updates, and removing those that nothing keeps.

Here: these commands. Not here: what holds and what may go (`file_feed.holds`, `.retention`, `.removal`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

import click

from feed_assets.cli import clock
from feed_assets.cli.clock import Deadline, Span, UpdateName
from feed_assets.cli.located import Place, feed_argument, located, login_name, operated, partition_option
from feed_assets.cli.output import json_option, print_json, print_table, say
from feed_assets.file_feed import (
    Feed,
    Outcome,
    Policy,
    Removal,
    carry_out,
    drop_ended_pins,
    fold_changes,
    plan,
    recover,
    require_latest,
)
from feed_assets.file_feed import pin as set_pin
from feed_assets.file_feed import pins as set_pins
from feed_assets.file_feed import tag as set_tag
from feed_assets.file_feed import unpin as lift_pin
from feed_assets.file_feed import untag as lift_tag
from feed_assets.file_feed.wording import counted

_update_option = click.option(
    "--update", metavar="NAME", type=UpdateName(), help="The update; the latest, if left out."
)


@click.command("tag")
@feed_argument
@click.argument("name")
@partition_option
@_update_option
@json_option
def tag(feed: Feed, name: str, partition: str | None, update: str | None, *, as_json: bool) -> None:
    """Give an update a name; that keeps it for good."""
    place = operated(feed, partition)
    held = set_tag(place.feed, place.partition, update or _latest(place), name)
    _print(place, {"update": held.update, "tag": name}, f"{held.update} is tagged {name}", as_json=as_json)


@click.command("untag")
@feed_argument
@click.argument("name")
@partition_option
@json_option
def untag(feed: Feed, name: str, partition: str | None, *, as_json: bool) -> None:
    """Take a name away; there need be none."""
    place = operated(feed, partition)
    lift_tag(place.feed, place.partition, name)
    _print(place, {"untagged": name}, f"there is no tag {name} any more", as_json=as_json)


@click.command("pin")
@feed_argument
@partition_option
@_update_option
@click.option("--until", metavar="TIME", type=Deadline(), required=True, help="2019-12-01T00:00:00, or 7d from now.")
@click.option("--holder", metavar="NAME", default=login_name, help="Who needs it; your login name, if left out.")
@json_option
def pin(feed: Feed, partition: str | None, update: str | None, until: datetime, holder: str, *, as_json: bool) -> None:
    """Keep an update until a time: for as long as reading it takes."""
    if until <= clock.now():
        message = f"{until:%Y-%m-%d %H:%M:%S} is over, so that pin would hold nothing."
        raise click.BadParameter(message, param_hint="--until")
    place = operated(feed, partition)
    held = set_pin(place.feed, place.partition, update or _latest(place), until=until, holder=holder)
    text = f"{held.update} is pinned by {holder} until {held.until:%Y-%m-%d %H:%M:%S}"
    _print(place, {"update": held.update, "holder": holder, "until": held.until}, text, as_json=as_json)


@click.command("unpin")
@feed_argument
@partition_option
@click.option("--update", metavar="NAME", type=UpdateName(), help="The update; all of the holder's, if left out.")
@click.option("--holder", metavar="NAME", default=login_name, help="Who pinned it; your login name, if left out.")
@json_option
def unpin(feed: Feed, partition: str | None, update: str | None, holder: str, *, as_json: bool) -> None:
    """Lift the pins of a holder; there need be none."""
    place = operated(feed, partition)
    lifted = [
        held
        for held in set_pins(place.feed, place.partition, now=clock.now())
        if (held.partition, held.holder) == (place.partition, holder) and update in {None, held.update}
    ]
    for held in lifted:
        lift_pin(place.feed, held)
    fields = {"holder": holder, "unpinned": [held.update for held in lifted]}
    _print(place, fields, f"lifted {counted(len(lifted), 'pin')} of {holder}", as_json=as_json)


@click.command("gc")
@feed_argument
@partition_option
@click.option("--keep", metavar="N", type=click.IntRange(min=1), default=3, show_default=True, help="Valid updates.")
@click.option(
    "--younger-than", metavar="SPAN", type=Span(), default="30d", show_default=True, help="Keep what is younger."
)
@click.option(
    "--longest-write",
    metavar="SPAN",
    type=Span(),
    default="24h",
    show_default=True,
    help="How long a writer may take, from resolving its inputs on; what is not valid is kept for this long.",
)
@click.option("--yes", is_flag=True, help="Remove them. Without this nothing is changed.")
@json_option
def gc(
    feed: Feed,
    partition: str | None,
    keep: int,
    younger_than: timedelta,
    longest_write: timedelta,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Show which old updates can be removed of each partition; with --yes remove them.

    Never the latest valid one, nor one that is tagged or pinned.
    """
    moment = clock.now()
    place = located(feed, partition)
    if yes:
        recover(place.feed, within=place.partition)
        if ended := drop_ended_pins(place.feed, now=moment, within=place.partition):
            say(f"Removed {counted(ended, 'pin')} that had ended.")
    removals = plan(place.feed, Policy(keep, younger_than, longest_write), now=moment, within=place.partition)
    outcomes = carry_out(place.feed, removals, now=moment) if yes else []
    if yes:
        fold_changes(place.feed, now=moment)
    if as_json:
        done: list[Outcome | None] = [*outcomes] if yes else [None] * len(removals)
        print_json([_as_json(removal, outcome) for removal, outcome in zip(removals, done, strict=True)])
    else:
        _print_removals(place, removals, outcomes if yes else None)


def _as_json(removal: Removal, outcome: Outcome | None) -> dict[str, object]:
    fields = {name: value for name, value in asdict(removal).items() if name != "tag"}
    removed = outcome is not None and outcome.removed
    return {**fields, "removed": removed, "left_alone": outcome.why if outcome and not removed else None}


def _print_removals(place: Place, removals: Sequence[Removal], outcomes: Sequence[Outcome] | None) -> None:
    lines = [[each.partition, each.update, each.files, each.bytes, each.reason] for each in removals]
    header = ["partition", "update", "files", "bytes", "why"]
    if outcomes is not None:
        header.append("outcome")
        for line, outcome in zip(lines, outcomes, strict=True):
            line.append("removed" if outcome.removed else f"left alone: {outcome.why}")
    print_table(
        header,
        lines,
        empty=f"There is nothing to remove in {place.title}: --keep and --younger-than keep what is there.",
    )
    if removals and outcomes is None:
        size = sum(each.bytes for each in removals)
        there = f"{counted(len(removals), 'update')} with {counted(size, 'byte')}"
        say(f"Nothing was changed; {there} can be removed. Remove with --yes.")


def _latest(place: Place) -> str:
    return require_latest(place.feed, place.partition, now=clock.now()).name


def _print(place: Place, fields: Mapping[str, object], text: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"feed": place.feed.uri, "partition": place.partition, **fields})
    else:
        say(f"{place.title}: {text}.")
