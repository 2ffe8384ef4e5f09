"""`feed-assets feed`: look at a feed, read from it, publish into it.

Here: the commands that resolve, show and publish updates. Not here: keeping and removing them (`feed_keeping`),
comparing them (`feed_diff`). Nothing here needs Dagster or Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from feed_assets.blackboard.port import BlackboardError
from feed_assets.cli.clock import Moment, UpdateName, now
from feed_assets.cli.feed_diff import diff, update_named
from feed_assets.cli.feed_keeping import gc, pin_, tag_, unpin_, untag_
from feed_assets.cli.feed_place import (
    FeedPlace,
    feed_argument,
    login_name,
    partition_option,
    place_to_change,
    place_to_publish,
    place_to_read,
    update_option,
    what_is_missing,
    what_is_near,
)
from feed_assets.cli.output import (
    complain,
    each_step,
    file_size,
    json_option,
    print_fields,
    print_json,
    print_table,
    progress,
    say,
)
from feed_assets.errors import FAILED
from feed_assets.file_feed.errors import FeedError, NoValidUpdateError
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.holds import Pin, pins, tags
from feed_assets.file_feed.publishing import publish_files
from feed_assets.file_feed.quarantine import invalidate_both
from feed_assets.file_feed.reading import require_latest
from feed_assets.file_feed.record import Facts
from feed_assets.file_feed.states import histories, history
from feed_assets.file_feed.verification import verify

NOTES = frozenset({"odd name", "no such second", "future", "orphan", "removal", "invalidated", "copied", "hidden file"})
"""Kinds of findings that break no rule of the protocol for an update a reader would use."""


_as_of_option = click.option(
    "--as-of", metavar="TIME", type=Moment(), help="Only updates begun at or before this time."
)


@click.group(name="feed")
def feed() -> None:
    """Look at a File Feed and operate it.

    URI is a local path, file:///... or s3://bucket/...: a feed with partitions, or a location that directly holds
    updates. A first update at a location named like a day, such as .../2019-11-24, belongs to that partition of the
    feed above it.
    """


@feed.command("latest")
@feed_argument
@partition_option
@_as_of_option
@json_option
def latest_(feed: Feed, partition: str | None, as_of: datetime | None, *, as_json: bool) -> None:
    """Print the latest valid update. Exit code 3 if there is none."""
    _print_update(require_latest(feed, partition, now=now(), as_of=as_of), as_json=as_json)


@feed.command("files")
@feed_argument
@partition_option
@_as_of_option
@click.option("--update", "name", metavar="NAME", type=UpdateName(), help="This update, whatever its state.")
@json_option
def files_(feed: Feed, partition: str | None, as_of: datetime | None, name: str | None, *, as_json: bool) -> None:
    """Print the files of the latest valid update. Exit code 3 if there is none.

    With --update, print the files of exactly that update; stderr names its state.
    """
    if name is not None and as_of is not None:
        raise click.UsageError("name an update with --update or a time with --as-of, not both.")
    if name is not None:
        update = _named(place_to_read(feed, partition), name)
    else:
        update = require_latest(feed, partition, now=now(), as_of=as_of)
    rows = [(file.path, file.size, uri) for file, uri in zip(update.files, update.uris(), strict=True)]
    if as_json:
        print_json([dict(zip(("path", "bytes", "uri"), row, strict=True)) for row in rows])
    else:
        print_table(("path", "bytes", "uri"), rows, empty=f"{update.uri} has no files.")


@feed.command("ls")
@feed_argument
@partition_option
@json_option
def ls(feed: Feed, partition: str | None, *, as_json: bool) -> None:
    """List all updates and their states, newest first.

    With --partition, only the updates of this partition. Exit code 3 if there is none.
    """
    moment = now()
    place = place_to_read(feed, partition)
    rows = _listed(place, moment)
    if not rows:
        raise NoValidUpdateError(what_is_near(feed, partition))
    if as_json:
        print_json(rows)
        return
    header = ("partition", "update", "state", "files", "bytes", "held", "why")
    for row in rows:
        row["update"] += " *" if row["latest"] else ""
        row["held"] = ", ".join([*row["tags"], *(f"pinned by {each['holder']}" for each in row["pins"])])
    print_table(header, [[row[name] for name in header] for row in rows], empty="")


@feed.command("verify")
@feed_argument
@partition_option
@json_option
def verify_(feed: Feed, partition: str | None, *, as_json: bool) -> None:
    """Check the files of a feed against protocol and records.

    Exit code 1 if there is a fault, 3 if nothing is there. A finding is a note, not a fault, if it affects no update a
    reader would use, or only readers that use Spark.
    """
    place = place_to_read(feed, partition)
    findings = [
        {"weight": "note" if each.kind in NOTES else "fault", **asdict(each)}
        for each in verify(place.feed, now=now(), within=place.partition)
    ]
    if not findings and (missing := what_is_missing(place)):
        raise NoValidUpdateError(missing)
    if as_json:
        print_json(findings)
    else:
        header = ("weight", "kind", "partition", "update", "message")
        print_table(header, [[each[name] for name in header] for each in findings], empty=f"{place.title} is sound.")
    if any(each["weight"] == "fault" for each in findings):
        click.get_current_context().exit(FAILED)


@feed.command("publish")
@feed_argument
@partition_option
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@json_option
def publish_(feed: Feed, partition: str | None, files: Sequence[Path], *, as_json: bool) -> None:
    """Publish local files as one new update.

    The update is printed as by `latest`, with feed and partition as URI names them.
    """
    moment = now()
    place = place_to_publish(feed, partition)
    with progress("publishing", len(files)) as bar:
        show = each_step(bar)
        update = publish_files(
            place.feed,
            place.partition,
            files,
            now=moment,
            owner=login_name(),
            facts=Facts(),
            starting=lambda file: show(f"{file.name}{file_size(file)}"),
        )
        bar()
    _print_update(replace(update, feed=feed, partition=partition), as_json=as_json)


@feed.command("invalidate")
@feed_argument
@partition_option
@update_option
@click.option("--reason", metavar="TEXT", required=True, help="The reason, for the record.")
@click.option("--author", metavar="NAME", default=login_name, help="Who invalidates it. Default: your login name.")
@json_option
def invalidate_(
    feed: Feed, partition: str | None, update: str | None, reason: str, author: str, *, as_json: bool
) -> None:
    """Take an update and its quarantine out of force. The update before it becomes the latest. The files stay."""
    if not reason.strip():
        raise click.BadParameter("say why: others will read it.", param_hint="--reason")
    moment = now()
    place = place_to_change(feed, partition)
    name = update or require_latest(place.feed, place.partition, now=moment).name
    try:
        quarantine = invalidate_both(place.feed, place.partition, name, reason=reason, author=author, now=moment)
    except (FeedError, BlackboardError, KeyboardInterrupt):
        if update is None:
            complain(f"Repeat it with --update {name}: the latest may be another one by now.")
        raise
    if as_json:
        fields = {"feed": place.feed.uri, "partition": place.partition, "update": name, "state": "invalidated"}
        print_json({**fields, "reason": reason, "author": author})
    else:
        also = ", and its quarantine, too" if quarantine else ""
        say(f"{place.title} {name} is invalidated{also}.")


for _command in (tag_, untag_, pin_, unpin_, gc, diff):
    feed.add_command(_command)


def _print_update(update: Update, *, as_json: bool) -> None:
    """Print an update. Other programs rely on the names in the JSON: add none, remove none."""
    where = {"feed": update.feed.uri, "partition": update.partition, "update": update.name, "uri": update.uri}
    if as_json:
        files = [{"path": file.path, "bytes": file.size} for file in update.files]
        print_json({**where, "files": files})
        return
    print_fields([*where.items(), ("files", len(update.files)), ("bytes", update.bytes)])


def _named(place: FeedPlace, name: str) -> Update:
    """The update of this name. Its state goes to stderr."""
    update = update_named(place.feed, place.partition, name)
    for status in history(place.feed, place.partition, now=now()):
        if status.name == name:
            force = ", and in force" if status.latest else ""
            say(f"{name} is {status.state}{force}: {status.why}")
    return update


def _listed(place: FeedPlace, moment: datetime) -> list[dict[str, Any]]:
    """The updates of this partition, or of all partitions of this feed. Tags and pins are read once."""
    feed, within = place.feed, place.partition
    tagged = tags(feed, within)
    pinned: dict[tuple[str | None, str], list[Pin]] = {}
    for each in pins(feed, within, now=moment):
        pinned.setdefault((each.partition, each.update), []).append(each)
    one = [(within, history(feed, within, now=moment, tagged=tagged))] if within is not None else ()
    return [
        {
            "partition": partition,
            "update": status.name,
            "state": status.state,
            "why": status.why,
            "files": status.files,
            "bytes": status.bytes,
            "latest": status.latest,
            "tags": list(status.tags),
            "pins": [{"holder": each.holder, "until": each.until} for each in pinned.get((partition, status.name), ())],
        }
        for partition, statuses in one or histories(feed, now=moment, tagged=tagged)
        for status in statuses
    ]
