"""`feed-assets feed tag|untag|pin|unpin|gc`: keep updates, and remove old ones.

Here: these commands. Not here: the rules of retention (`file_feed.holds`, `.retention`, `.removal`).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta

import click

from feed_assets.blackboard.port import BlackboardError, UnavailableError
from feed_assets.cli import clock
from feed_assets.cli.clock import Deadline, Span, UpdateName
from feed_assets.cli.feed_place import (
    FeedPlace,
    feed_argument,
    login_name,
    partition_option,
    place_to_change,
    place_to_read,
    update_option,
    what_is_missing,
)
from feed_assets.cli.output import complain, json_option, print_json, print_table, say
from feed_assets.errors import FAILED
from feed_assets.file_feed.changes import drop_old_entries
from feed_assets.file_feed.errors import NoValidUpdateError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.holds import drop_ended_pins, pin, pins, tag, tags, unpin, untag
from feed_assets.file_feed.reading import EARLIEST, require_latest
from feed_assets.file_feed.removal import Outcome, carry_out
from feed_assets.file_feed.retention import Policy, Removal, plan
from feed_assets.file_feed.start_objects import drop_start_objects
from feed_assets.file_feed.wording import counted


@click.command("tag")
@feed_argument
@click.argument("name")
@partition_option
@update_option
@json_option
def tag_(feed: Feed, name: str, partition: str | None, update: str | None, *, as_json: bool) -> None:
    """Give an update a name, and keep it until `untag`."""
    place = place_to_change(feed, partition)
    tagged = tag(place.feed, place.partition, update or _latest(place), name)
    _print(place, {"update": tagged.update, "tag": name}, f"{tagged.update} is tagged {name}", as_json=as_json)


@click.command("untag")
@feed_argument
@click.argument("name")
@partition_option
@json_option
def untag_(feed: Feed, name: str, partition: str | None, *, as_json: bool) -> None:
    """Remove a tag. It is no error if the tag does not exist. Exit code 3 if nothing is at URI."""
    place = place_to_change(feed, partition)
    if (missing := what_is_missing(place)) and not any(each.name == name for each in tags(place.feed, place.partition)):
        raise NoValidUpdateError(missing)
    untag(place.feed, place.partition, name)
    _print(place, {"untagged": name}, f"there is no tag {name} any more", as_json=as_json)


@click.command("pin")
@feed_argument
@partition_option
@update_option
@click.option(
    "--until", metavar="TIME", type=Deadline(), required=True, help="A UTC time, or a span from now such as 7d."
)
@click.option("--holder", metavar="NAME", default=login_name, help="Who needs it. Default: your login name.")
@json_option
def pin_(feed: Feed, partition: str | None, update: str | None, until: datetime, holder: str, *, as_json: bool) -> None:
    """Keep an update until a time, as while a long job reads it."""
    if until <= clock.now():
        raise click.BadParameter(f"{until:%Y-%m-%d %H:%M:%S} is over: give a later time.", param_hint="--until")
    place = place_to_change(feed, partition)
    pinned = pin(place.feed, place.partition, update or _latest(place), until=until, holder=holder)
    text = f"{pinned.update} is pinned by {holder} until {pinned.until:%Y-%m-%d %H:%M:%S}"
    _print(place, {"update": pinned.update, "holder": holder, "until": pinned.until}, text, as_json=as_json)


@click.command("unpin")
@feed_argument
@partition_option
@click.option("--update", metavar="NAME", type=UpdateName(), help="The update. Default: all that the holder pinned.")
@click.option("--holder", metavar="NAME", default=login_name, help="Who pinned it. Default: your login name.")
@json_option
def unpin_(feed: Feed, partition: str | None, update: str | None, holder: str, *, as_json: bool) -> None:
    """Remove the pins of a holder. It is no error if there are none. Exit code 3 if nothing is at URI."""
    place = place_to_change(feed, partition)
    removed = [
        each
        for each in pins(place.feed, place.partition, now=clock.now())
        if (each.partition, each.holder) == (place.partition, holder) and update in {None, each.update}
    ]
    if not removed and (missing := what_is_missing(place)):
        raise NoValidUpdateError(missing)
    for each in removed:
        unpin(place.feed, each)
    fields = {"holder": holder, "unpinned": [each.update for each in removed]}
    _print(place, fields, f"removed {counted(len(removed), 'pin')} of {holder}", as_json=as_json)


@click.command("gc")
@feed_argument
@partition_option
@click.option("--keep", metavar="N", type=click.IntRange(min=1), default=3, show_default=True, help="Valid updates.")
@click.option(
    "--younger-than", metavar="SPAN", type=Span(), default="30d", show_default=True, help="Keep younger updates."
)
@click.option(
    "--longest-write",
    metavar="SPAN",
    type=Span(),
    default="24h",
    show_default=True,
    help="The longest time a writer takes, from resolving its inputs on. Invalid updates are kept this long.",
)
@click.option("--yes", is_flag=True, help="Remove them. Without this option nothing changes.")
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
    """Show which old updates can be removed; --yes removes them.

    In each partition, the latest valid update and all tagged or pinned updates stay. Exit code 3 if nothing is there.
    """
    moment = clock.now()
    place = place_to_read(feed, partition)
    if yes and (ended := drop_ended_pins(place.feed, now=moment, within=place.partition)):
        say(f"Removed {counted(ended, 'pin')} whose time is over.")
    policy = Policy(keep, younger_than, longest_write)
    with _full_disk_explained():
        removals = plan(place.feed, policy, now=moment, within=place.partition, recovering=yes)
        outcomes = carry_out(place.feed, removals, now=moment) if yes else []
    missing = None if removals else what_is_missing(place)
    if as_json and not missing:
        done: list[Outcome | None] = [*outcomes] if yes else [None] * len(removals)
        print_json([_as_json(removal, outcome) for removal, outcome in zip(removals, done, strict=True)])
    elif not missing:
        _print_removals(place, removals, outcomes if yes else None)
    if yes:  # after the output: if this fails, users know all the same what was removed
        gone = {(each.removal.partition, each.removal.update) for each in outcomes if each.removed}
        drop_start_objects(place.feed, gone)
        drop_old_entries(place.feed, now=moment)
        _abort_uploads(place, before=moment - min(longest_write, moment - EARLIEST))
    if missing:  # after the uploads: a first one that was killed has left nothing else
        raise NoValidUpdateError(missing)


@contextmanager
def _full_disk_explained() -> Iterator[None]:
    """Say how little is needed if the disk is too full to write the first manifest of a removal."""
    try:
        yield
    except UnavailableError as error:
        if getattr(error.__cause__, "errno", None) not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        needed = "gc needs a few kB to begin: free them outside the feed."
        raise UnavailableError(f"{error} {needed}", transient=error.transient) from error


def _abort_uploads(place: FeedPlace, *, before: datetime) -> None:
    """Abort the uploads that began before this time and never ended; exit with FAILED if the store refuses."""
    try:
        aborted = place.feed.blackboard.abort_uploads(place.feed.prefix(place.partition), before=before)
    except BlackboardError as error:
        rights = "s3:ListBucketMultipartUploads and s3:AbortMultipartUpload"
        complain(f"Uploads that never ended were not removed: {error} This takes the rights {rights}.")
        click.get_current_context().exit(FAILED)
    if aborted:
        say(f"Removed {counted(aborted, 'upload')} that never ended.")


def _as_json(removal: Removal, outcome: Outcome | None) -> dict[str, object]:
    fields = {name: value for name, value in asdict(removal).items() if name != "tag"}
    removed = outcome is not None and outcome.removed
    return {**fields, "removed": removed, "left_alone": outcome.why if outcome and not removed else None}


def _print_removals(place: FeedPlace, removals: Sequence[Removal], outcomes: Sequence[Outcome] | None) -> None:
    lines = [[each.partition, each.update, each.files, each.bytes, each.reason] for each in removals]
    header = ["partition", "update", "files", "bytes", "why"]
    if outcomes is not None:
        header.append("outcome")
        for line, outcome in zip(lines, outcomes, strict=True):
            line.append("removed" if outcome.removed else f"left alone: {outcome.why}")
    why = "--keep, --younger-than, --longest-write, tags and pins keep all updates"
    print_table(header, lines, empty=f"Nothing to remove in {place.title}: {why}.")
    if removals and outcomes is None:
        size = sum(each.bytes for each in removals)
        say(f"Nothing changed. --yes removes {counted(len(removals), 'update')} with {counted(size, 'byte')}.")


def _latest(place: FeedPlace) -> str:
    return require_latest(place.feed, place.partition, now=clock.now()).name


def _print(place: FeedPlace, fields: Mapping[str, object], text: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"feed": place.feed.uri, "partition": place.partition, **fields})
    else:
        say(f"{place.title}: {text}.")
