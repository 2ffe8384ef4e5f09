"""Lineage: the inputs of an update, and the updates that were made from it.

Here: following the inputs in records, one step in either direction, also for old updates whose records are kept. Not
here: writing records (`staging`), and comparing an update with its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from feed_assets.blackboard.listing import list_all
from feed_assets.file_feed.control import RECORDS, record_at, stored_record
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.read_sets import in_full
from feed_assets.file_feed.record import FeedInput, RawFile, RawInput, Record


@dataclass(frozen=True, slots=True)
class Downstream:
    """An update whose record names the update or raw file in question as an input."""

    feed: Feed
    partition: str | None
    update: str


def upstream(feed: Feed, partition: str | None, update: str) -> tuple[FeedInput | RawInput, ...]:
    """The inputs of an update. Raises FeedError if it has no record, UnreadableRecordError."""
    stored = stored_record(feed, partition, update)
    if stored is None:
        raise FeedError(f"{feed.title(partition)} {update} has no record, so its inputs are unknown.")
    return _inputs(feed, stored.record)


def downstream(of: FeedInput | RawFile, among: Iterable[Feed]) -> list[Downstream]:
    """The updates in these feeds that were made from an update or a raw file, in the order of feed, partition, name.

    An update is given as `FeedInput`, context or not; `update=None` finds updates that looked for the input and found
    nothing. A raw file matches by path and tag. Reads every record of these feeds. Raises UnreadableRecordError.
    """
    return [
        Downstream(feed, record.partition, record.update)
        for feed in among
        for record in _all_records(feed)
        if any(_names(each, of) for each in _inputs(feed, record))
    ]


def _all_records(feed: Feed) -> Iterator[Record]:
    for entry in list_all(feed.blackboard, feed.control(RECORDS)):
        stored = record_at(feed, entry.key)
        if stored is not None:  # else retention removed it since it was listed
            yield stored.record


def _inputs(feed: Feed, record: Record) -> tuple[FeedInput | RawInput, ...]:
    """The inputs in a record, with all raw files."""
    inputs, place = record.facts.inputs, (feed, record.partition, record.update)
    return tuple(in_full(*place, each) if isinstance(each, RawInput) else each for each in inputs)


def _names(each: FeedInput | RawInput, of: FeedInput | RawFile) -> bool:
    match each, of:
        case FeedInput(), FeedInput():
            return (each.feed, each.partition, each.update) == (of.feed, of.partition, of.update)
        case RawInput(), RawFile():
            return any((file.path, file.tag) == (of.path, of.tag) for file in each.files)
    return False
