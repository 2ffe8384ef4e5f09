"""Find the feed and the partition that the arguments URI and `--partition` name.

Here: the place that a command works on. Not here: what it does there.
"""

from __future__ import annotations

import difflib
import getpass
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import click

from feed_assets.blackboard.listing import first_folders
from feed_assets.blackboard.location import UnknownLocationError
from feed_assets.blackboard.port import Blackboard, BlackboardError, InvalidKeyError, UnavailableError
from feed_assets.cli.clock import UpdateName
from feed_assets.cli.output import printable
from feed_assets.datasets.days import is_day
from feed_assets.file_feed.errors import BadNameError, FeedError, MixedFeedError
from feed_assets.file_feed.feed import CONTROL, Feed, open_feed
from feed_assets.file_feed.holds import own_control_found
from feed_assets.file_feed.names import check_partition, has_update_shape, is_partition_name, is_update_name
from feed_assets.file_feed.reading import partitions
from feed_assets.file_feed.scanning import Scanned, scan

_Command = TypeVar("_Command", bound=Callable[..., Any])
_AFTER_EVERY_UPDATE = "99991231.235959"
_LONGEST_NAME = 255  # bytes, the limit of a disk
_SHOWN = 5  # names in a suggestion


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """A partition of a feed; `partition` is None if the feed holds its updates itself."""

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
                raise  # the settings of S3 are wrong, not the argument
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
        if len(os.fsencode(value)) > _LONGEST_NAME:  # a shell passes on bytes that are not UTF-8, too
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
    text = "The partition, such as 2019-11-24. Omit it if URI itself holds updates."
    return click.option("--partition", "-p", metavar="NAME", type=PartitionName(), help=text)(command)


def update_option(command: _Command) -> _Command:
    """Give a command `--update`, None without it."""
    text = "The update. Default: the latest."
    return click.option("--update", metavar="NAME", type=UpdateName(), help=text)(command)


def place_to_read(feed: Feed, partition: str | None) -> FeedPlace:
    """The place to read. If URI is the location of a partition, the place is in the whole feed.

    So users that name the feed and users that name the partition see the same claims, tags and records.
    """
    return _place(feed, partition, first=False)


def place_to_change(feed: Feed, partition: str | None) -> FeedPlace:
    """The place for commands that write to the control area. Raises FeedError if a partition has its own control area.

    If no control area exists yet, a location named like a day counts as a partition. So users that name it, and users
    that name its feed and the day, write to the same control area.
    """
    place = _place(feed, partition, first=True)
    if place.partition is not None and _has_control_area(_inside(place)):
        raise FeedError(own_control_found(place.feed, place.partition))
    return place


def place_to_publish(feed: Feed, partition: str | None) -> FeedPlace:
    """The place to publish at. Costs one LIST of the place, and for a partition one of its feed.

    Raises FeedError as `place_to_change`, and MixedFeedError if updates and partitions would lie side by side.
    """
    place = _place(feed, partition, first=True)
    inside = _inside(place)
    names = _folders(inside)
    if place.partition is not None and CONTROL in names:
        raise FeedError(own_control_found(place.feed, place.partition))
    # Scan for partitions only if a folder is no update, which is rare.
    first = next((name for name in names if is_partition_name(name)), None)
    if first is not None and any(scanned.partition for scanned in _scanned(inside, first=first)):
        raise MixedFeedError(
            f"{inside.uri} has partitions: name one of them (`feed-assets feed ls {inside.arguments()}` lists them)."
        )
    if place.partition is not None and any(map(is_update_name, _folders(place.feed, after=f"{CONTROL}0"))):
        raise MixedFeedError(
            f"{place.feed.uri} holds updates itself, so it can have no partition {place.partition}: leave it out."
        )
    return place


def _place(feed: Feed, partition: str | None, *, first: bool) -> FeedPlace:
    parent, _, last = feed.uri.rpartition("/")
    name = unquote(last) if feed.uri.startswith("file:") else last
    if partition is not None or not parent.partition("://")[2] or not is_partition_name(name):
        return FeedPlace(feed, partition)
    above = open_feed(parent)
    try:
        whole = _has_control_area(above)
    except UnavailableError:
        # Without permission to look above it, the location is a feed of its own.
        return FeedPlace(feed, None)
    if not whole and not (first and is_day(name) and not _has_control_area(feed)):
        return FeedPlace(feed, None)
    # A feed with partitions can lie below the location of another feed.
    scanned = next(_scanned(feed), None)
    return FeedPlace(feed, None) if scanned and scanned.partition else FeedPlace(above, name)


def _scanned(feed: Feed, *, first: str = "") -> Iterator[Scanned]:
    """The partitions with updates. The scan skips the rest of a history when a page ends in it."""
    return scan(feed, start=lambda _: _AFTER_EVERY_UPDATE, first=first)


def _folders(feed: Feed, *, after: str = "") -> list[str]:
    """The first folders of the feed, at most a page."""
    return first_folders(feed.blackboard, feed.root, after=f"{feed.root}{after}" if after else "")


def _inside(place: FeedPlace) -> Feed:
    """The place as a feed of its own."""
    return Feed(place.feed.blackboard, place.feed.prefix(place.partition).removesuffix("/"))


def _has_control_area(feed: Feed) -> bool:
    return bool(feed.blackboard.page(f"{feed.root}{CONTROL}/").entries)


def what_is_near(feed: Feed, partition: str | None) -> str:
    """The message about a place without updates: what is there instead, and similar names."""
    if partition is not None and (names := partitions(feed)):
        return f"{feed.uri} has no update of {partition}. {similar_names(partition, names)}"
    if (here := _here(feed)) is not None:
        return f"{feed.uri} has no update. {similar_names('', here)}"
    parent = feed.uri
    while "/" in parent.partition("://")[2].strip("/"):
        above, _, name = parent.rpartition("/")
        if (folders := _names_at(above)) is not None:
            similar = similar_names(unquote(name), folders)
            return f"There is nothing at {feed.uri}. The nearest place that exists is {above}. {similar}"
        parent = above
    return f"There is nothing at {feed.uri}, nor above it. Is it the right disk or bucket?"


def similar_names(name: str, names: Sequence[str]) -> str:
    """A sentence with some of `names`, those similar to `name` first."""
    if not names:
        return "It has no folders."
    similar = difflib.get_close_matches(name, names, n=_SHOWN)
    shown = [*similar, *(other for other in names if other not in similar)][:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    question = f" Did you mean {similar[0]}?" if similar else ""
    return printable(f"There is: {', '.join(shown)}{more}.{question}")


def what_is_missing(place: FeedPlace) -> str | None:
    """The message about a place at which nothing lies, as after a mistyped name; None if something does."""
    return None if is_there(_inside(place)) else what_is_near(place.feed, place.partition)


def is_there(feed: Feed) -> bool:
    """Whether the feed's location exists: a directory, or folders in a bucket."""
    return _here(feed) is not None


def with_what_is_near(answer: str, board: Blackboard) -> str:
    """The answer of a command that found nothing below a base; if the base itself is missing, with what is near it."""
    base = Feed(board)
    return answer if is_there(base) else f"{answer} {what_is_near(base, None)}"


def _here(feed: Feed) -> list[str] | None:
    """The folders at the feed's location; None if it does not exist."""
    return _folders(feed) or _names_at(feed.uri)


def _names_at(uri: str) -> list[str] | None:
    """The folders at a location; None if it does not exist or is not readable. In a bucket, only folders exist."""
    try:
        if uri.startswith("file:"):
            # Not through a blackboard: it looks for a file in every folder, near the root on the whole disk.
            paths = Path(unquote(urlsplit(uri).path) or "/").iterdir()
            return sorted(path.name for path in paths if path.is_dir() and not path.name.startswith("."))
        return _folders(open_feed(uri)) or None
    except (OSError, BlackboardError):
        return None


def login_name() -> str:
    """The user's name, for owners and holders."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}"  # in a container a user may have no name
