"""From the arguments URI and `--partition` to a place in a feed.

Here: which feed and partition a command is about. Not here: anything that is done there.
"""

from __future__ import annotations

import difflib
import getpass
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import click

from feed_assets.blackboard import BlackboardError, InvalidKeyError, UnavailableError, UnknownLocationError
from feed_assets.cli.output import printable
from feed_assets.file_feed import (
    BadNameError,
    Feed,
    FeedError,
    MixedFeedError,
    check_partition,
    is_update_name,
    open_feed,
    partitions,
)
from feed_assets.file_feed.feed import CONTROL
from feed_assets.file_feed.holds import own_control_found
from feed_assets.file_feed.names import has_update_shape, is_partition_name
from feed_assets.file_feed.scanning import Scanned, scan

_Command = TypeVar("_Command", bound=Callable[..., Any])
_AFTER_EVERY_UPDATE = "99991231.235959"
_LONGEST_NAME = 255  # bytes that a disk takes
_SHOWN = 5  # names that are near
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of a feed; None where the feed holds its updates itself."""

    feed: Feed
    partition: str | None

    @property
    def title(self) -> str:
        """For messages."""
        return self.feed.title(self.partition)


class FeedLocation(click.ParamType[Feed]):
    """A local path, `file:///...` or `s3://bucket/...`."""

    name = "uri"

    def convert(self, value: str | Feed, param: click.Parameter | None, ctx: click.Context | None) -> Feed:
        """Open the feed; nothing is read yet."""
        if isinstance(value, Feed):
            return value
        try:
            feed = open_feed(value)
        except (UnknownLocationError, InvalidKeyError) as error:
            self.fail(str(error), param, ctx)
        except UnavailableError as error:
            if value.lower().startswith("s3:"):
                raise  # what is wrong is the settings of S3, not the argument
            self.fail(str(error), param, ctx)
        above, _, last = feed.uri.rpartition("/")
        if has_update_shape(last):
            self.fail(f"{feed.uri} is an update; name its feed: {above}", param, ctx)
        return feed


class PartitionName(click.ParamType[str]):
    """The name of a partition."""

    name = "partition"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the name."""
        if len(value.encode()) > _LONGEST_NAME:
            self.fail(f"{value!r} cannot be a partition: it is longer than {_LONGEST_NAME} bytes.", param, ctx)
        try:
            return check_partition(value)
        except BadNameError as error:
            self.fail(str(error), param, ctx)


def feed_argument(command: _Command) -> _Command:
    """Give a command the argument URI, as its parameter `feed`."""
    return click.argument("feed", metavar="URI", type=FeedLocation())(command)


def partition_option(command: _Command) -> _Command:
    """Give a command `--partition`."""
    text = "The partition, such as 2019-11-24. Leave it out where URI holds the updates itself."
    return click.option("--partition", "-p", metavar="NAME", type=PartitionName(), help=text)(command)


def located(feed: Feed, partition: str | None) -> Place:
    """The place with the control area that there is: the whole feed's, also where URI is that of one of its partitions.

    Otherwise who names the feed and who names the partition would not see each other's claims, tags and records.
    """
    return _place(feed, partition, first=False)


def operated(feed: Feed, partition: str | None) -> Place:
    """The same for commands that write to the control area; where there is none, a day is taken for a partition.

    So who names a day's location first, and who names its feed and the day, write to the same control area. Raises
    FeedError where a partition has one of its own all the same.
    """
    place = _place(feed, partition, first=True)
    if place.partition is not None and _has_control_area(_inside(place)):
        raise FeedError(own_control_found(place.feed, place.partition))
    return place


def published(feed: Feed, partition: str | None) -> Place:
    """The same for publishing: one listing of what lies here, and for a partition one of what lies beside it.

    Raises MixedFeedError, too, where an update here would lie beside partitions, or a partition beside updates.
    """
    place = _place(feed, partition, first=True)
    inside = _inside(place)
    names = _folders(inside)
    if place.partition is not None and CONTROL in names:
        raise FeedError(own_control_found(place.feed, place.partition))
    # Folders that are no updates are rare: whether they are partitions is looked at only where there are some.
    first = next((name for name in names if is_partition_name(name)), None)
    if first is not None and any(scanned.partition for scanned in _scanned(inside, first=first)):
        message = f"{inside.uri} has partitions: name one of them (`feed-assets feed ls {inside.uri}` lists them)."
        raise MixedFeedError(message)
    if place.partition is not None and any(map(is_update_name, _folders(place.feed, after=f"{CONTROL}0"))):
        message = (
            f"{place.feed.uri} holds updates itself, so it can have no partition {place.partition}: leave that out."
        )
        raise MixedFeedError(message)
    return place


def _place(feed: Feed, partition: str | None, *, first: bool) -> Place:
    parent, _, last = feed.uri.rpartition("/")
    name = unquote(last) if feed.uri.startswith("file:") else last
    if partition is not None or not parent.partition("://")[2] or not is_partition_name(name):
        return Place(feed, partition)
    above = open_feed(parent)
    try:
        whole = _has_control_area(above)
    except UnavailableError:
        # Who may use this location only cannot look above it, and nobody there shares its control area then.
        return Place(feed, None)
    if not whole and not (first and _DAY.fullmatch(name) and not _has_control_area(feed)):
        return Place(feed, None)
    # A feed of its own, with partitions, may lie below the location of another.
    return Place(feed, None) if _first_partition(feed) else Place(above, name)


def _first_partition(feed: Feed) -> str | None:
    """A partition of the feed that has updates, if any has; "" where the feed has updates itself."""
    scanned = next(_scanned(feed), None)
    return scanned.partition if scanned else None


def _scanned(feed: Feed, *, first: str = "") -> Iterator[Scanned]:
    """The partitions with updates, jumping over the history of each as soon as a page ends in it."""
    return scan(feed, start=lambda _: _AFTER_EVERY_UPDATE, first=first)


def _folders(feed: Feed, *, after: str = "") -> list[str]:
    """The first folders there are, at most a page of them."""
    page = feed.blackboard.page(feed.root, after=f"{feed.root}{after}" if after else "", folders=True)
    return [folder.removeprefix(feed.root).removesuffix("/") for folder in page.folders]


def _inside(place: Place) -> Feed:
    """The place as a feed of its own."""
    return Feed(place.feed.blackboard, place.feed.prefix(place.partition).removesuffix("/"))


def _has_control_area(feed: Feed) -> bool:
    return bool(feed.blackboard.page(f"{feed.root}{CONTROL}/").entries)


def what_is_near(feed: Feed, partition: str | None) -> str:
    """What to tell of a place without any update: what there is instead, and names like the one that was asked for."""
    if partition is not None and (there := partitions(feed)):
        return f"{feed.uri} has no update of {partition}. {_alike(partition, there)}"
    if (here := _here(feed)) is not None:
        return f"{feed.uri} has no update. {_alike('', here)}"
    asked, parent = feed.uri, feed.uri
    while "/" in parent.partition("://")[2].strip("/"):
        above, _, name = parent.rpartition("/")
        names = _names_at(above)
        if names is not None:
            return f"There is nothing at {asked}. {above} is the nearest that exists. {_alike(unquote(name), names)}"
        parent = above
    return f"There is nothing at {asked}, nor above it. Is it the right disk or bucket?"


def is_there(feed: Feed) -> bool:
    """Whether there is anything at the feed's location: a directory, or folders in a bucket."""
    return _here(feed) is not None


def _here(feed: Feed) -> list[str] | None:
    """The folders at the feed's location; None where it does not exist."""
    return _folders(feed) or _names_at(feed.uri)


def _alike(name: str, there: Sequence[str]) -> str:
    """Some of the names that are there: those like this one first."""
    if not there:
        return "It has no folders."
    like = difflib.get_close_matches(name, there, n=_SHOWN)
    shown = [*like, *(other for other in there if other not in like)][:_SHOWN]
    more = f" and {len(there) - len(shown)} more" if len(there) > len(shown) else ""
    asked = f" Did you mean {like[0]}?" if like else ""
    return printable(f"There is: {', '.join(shown)}{more}.{asked}")


def _names_at(uri: str) -> list[str] | None:
    """The folders at a location; None where it does not exist, or nobody may look. In a bucket only a folder exists."""
    try:
        if uri.startswith("file:"):
            # Not through a blackboard, which looks into every folder for a file: near the root that is the whole disk.
            there = Path(unquote(urlsplit(uri).path) or "/").iterdir()
            return sorted(path.name for path in there if path.is_dir() and not path.name.startswith("."))
        return _folders(open_feed(uri)) or None
    except (OSError, BlackboardError):
        return None


def login_name() -> str:
    """Who runs this."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}"  # in a container a user may have no name
