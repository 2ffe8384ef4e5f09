"""Holds protect an update from retention: a tag until it is taken away, a pin until its time.

Here: setting, finding and removing holds. Not here: retention, which respects them (`removal`). Setting a hold writes
it first and then looks at the update. Retention takes an update over first and then looks for holds. So at least one of
the two sees the other: a hold that was set without an error keeps its update.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Entry, NotFoundError
from feed_assets.file_feed.errors import BadNameError, FeedError, NoValidUpdateError
from feed_assets.file_feed.feed import CONTROL, Feed
from feed_assets.file_feed.manifest import MANIFEST, is_removal, parse_manifest
from feed_assets.file_feed.names import begun, check_label, check_update, is_update_name, update_name
from feed_assets.file_feed.reading import read_manifest

TAGS = "tags"
PINS = "pins"
_NAME = len("YYYYMMDD.HHMMSS")


@dataclass(frozen=True, slots=True)
class Tag:
    """A name that people gave an update. Names are unique within a partition (None: the feed has none)."""

    partition: str | None
    update: str
    name: str


@dataclass(frozen=True, slots=True)
class Pin:
    """A reader, `holder`, that needs an update until a time (a whole second, UTC)."""

    partition: str | None
    update: str
    until: datetime
    holder: str


def tag(feed: Feed, partition: str | None, update: str, name: str) -> Tag:
    """Give an update a name, which keeps it for good. Giving it the same name again changes nothing.

    Raises BadNameError, NoValidUpdateError if the update does not exist or was taken out of force, FeedError if another
    update of the partition has this name.
    """
    held = Tag(partition, check_update(update), name)
    key = _tag_key(feed, partition, name)
    if not _set(feed, partition, update, key, json.dumps({"update": update}).encode()):
        other = _tagged(feed, key)
        if other != update:
            raise FeedError(f"{feed.title(partition)}: {name!r} is the name of {other} already. Untag that update.")
    return held


def untag(feed: Feed, partition: str | None, name: str) -> None:
    """Take the name away, if an update has it."""
    feed.blackboard.delete(_tag_key(feed, partition, name))


def tags(feed: Feed, within: str | None = None) -> list[Tag]:
    """The tags of the feed, or of one partition: one listing, and a GET each. Raises FeedError if a tag is damaged."""
    return [
        Tag(partition, update, name)
        for partition, name, entry in _held(feed, TAGS, within)
        if (update := _tagged(feed, entry.key)) is not None
    ]


def pin(feed: Feed, partition: str | None, update: str, *, until: datetime, holder: str) -> Pin:
    """Keep an update until a time, rounded up to the second. The same pin again changes nothing.

    To hold the update longer, set a later pin before this one ends. Raises BadNameError, and NoValidUpdateError if the
    update does not exist or was taken out of force: resolve again.
    """
    check_label(holder, "holder of a pin")
    try:
        whole = until.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=bool(until.microsecond))
    except OverflowError:
        raise BadNameError(f"A pin cannot hold until {until}: the years in UTC are 1 to 9999.") from None
    held = Pin(partition, check_update(update), whole, holder)
    _set(feed, partition, update, pin_key(feed, held), b"")
    return held


def unpin(feed: Feed, held: Pin) -> None:
    """Remove a pin, if it exists."""
    feed.blackboard.delete(pin_key(feed, held))


def pins(feed: Feed, within: str | None = None, *, now: datetime) -> list[Pin]:
    """The pins of the feed, or of one partition, that hold at `now`: one listing, no GET."""
    return [held for held in all_pins(feed, within) if held.until > now]


def all_pins(feed: Feed, within: str | None = None) -> list[Pin]:
    """All pins of the feed, or of one partition, with those that have ended."""
    found = []
    for partition, name, _ in _held(feed, PINS, within):
        update, until, holder = name[:_NAME], name[_NAME + 1 : 2 * _NAME + 1], name[2 * _NAME + 2 :]
        if is_update_name(update) and is_update_name(until):
            found.append(Pin(partition, update, begun(until), holder))
    return found


def own_control_found(feed: Feed, partition: str) -> str:
    """The message for a partition that has a control area of its own: neither area sees the holds of the other."""
    own = feed.blackboard.uri(f"{feed.prefix(partition)}{CONTROL}")
    return (
        f"{own} is a control area inside the partition {partition}: {feed.uri} does not see its claims, tags and pins, "
        f"and it does not see those of {feed.uri}. Nothing was changed. Note what lies in its tags/ and pins/, delete "
        f"it, and set the tags and pins again with `{feed.arguments(partition)}`."
    )


def held_updates(
    feed: Feed, within: Collection[str | None] | None = None, *, now: datetime
) -> dict[tuple[str | None, str], str]:
    """The updates held at `now`, in the feed or in these partitions: (partition, update) -> the reason.

    A listing of the tags, a listing of the pins, and a GET for each tag.
    """
    only = next(iter(within)) if within is not None and len(within) == 1 else None
    by_tag = {
        (partition, update): f"tagged {name}"
        for partition, name, entry in _held(feed, TAGS, only)
        if (within is None or partition in within) and (update := _tagged(feed, entry.key)) is not None
    }
    by_pin = {
        (held.partition, held.update): f"pinned by {held.holder} until {held.until:%Y-%m-%d %H:%M:%S}"
        for held in pins(feed, only, now=now)
    }
    return by_pin | by_tag


def drop_ended_pins(feed: Feed, *, now: datetime, within: str | None = None) -> int:
    """Remove the pins that have ended, such as those of killed readers; returns how many."""
    ended = [held for held in all_pins(feed, within) if held.until <= now]
    feed.blackboard.delete(*[pin_key(feed, held) for held in ended])
    return len(ended)


def _held(feed: Feed, area: str, within: str | None) -> Iterator[tuple[str | None, str, Entry]]:
    for entry in list_all(feed.blackboard, feed.control(area, within)):
        partition, _, name = entry.key.removeprefix(feed.control(area)).rpartition("/")
        if name:  # else a directory marker
            yield partition or None, name, entry


def _tag_key(feed: Feed, partition: str | None, name: str) -> str:
    return f"{feed.control(TAGS, partition)}{check_label(name, 'tag')}"


def pin_key(feed: Feed, held: Pin) -> str:
    """The key of a pin; it contains the whole pin."""
    return f"{feed.control(PINS, held.partition)}{held.update}.{update_name(held.until)}.{held.holder}"


def _tagged(feed: Feed, key: str) -> str | None:
    """The update that a tag names; None if the tag was taken away meanwhile."""
    try:
        return check_update(json.loads(feed.blackboard.read(key).data)["update"])
    except NotFoundError:
        return None
    except (ValueError, KeyError, TypeError, BadNameError) as error:
        # Not passed over: retention could remove the update that this tag holds.
        raise FeedError(
            f"{feed.blackboard.uri(key)} is damaged, so the update that it holds is unknown: delete it and tag again."
        ) from error


def _set(feed: Feed, partition: str | None, update: str, key: str, content: bytes) -> bool:
    """Write a hold, then look at the update; False if another hold has this key. Raises NoValidUpdateError."""
    board, new = feed.blackboard, True
    try:
        board.create(key, content)
    except AlreadyExistsError:
        if board.read(key).data != content:
            return False
        new = False  # the same hold was there, or the answer to this write was lost
    if not _can_be_held(feed, partition, update):
        # Retention may have been interrupted at this update because of a hold that was there before.
        if new or not board.page(feed.update_prefix(partition, update)).entries:
            board.delete(key)
        message = f"{feed.title(partition)} has no update {update}, or it was taken out of force. Resolve again."
        raise NoValidUpdateError(message)
    return True


def _can_be_held(feed: Feed, partition: str | None, update: str) -> bool:
    """Whether the update is valid or has files, and retention has not taken it over."""
    prefix, current = feed.update_prefix(partition, update), read_manifest(feed, partition, update)
    content = current.data if current is not None else b""  # an incomplete or invalidated update can be kept, too
    if is_removal(content) or parse_manifest(content) is not None:
        return not is_removal(content)
    # A manifest that is not valid, without files, is nothing to keep: a removal or an invalidation left it.
    entries = feed.blackboard.page(prefix).entries
    return any(entry.key != f"{prefix}{MANIFEST}" and not entry.key.endswith("/") for entry in entries)
