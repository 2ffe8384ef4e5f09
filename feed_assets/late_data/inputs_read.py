"""The inputs of updates, from their records, and which were decided against.

Each record is read once in a process, as neither ever changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.names import begun
from feed_assets.file_feed.record import FeedInput, RawInput
from feed_assets.sources.absence import empty_sources

REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class InputsRead:
    """The inputs of an update, and the digests of the data it shares with its neighbours (`feed/boundary`).

    `seconds` is the time from its claim to its publication; None if unknown. `empty_sources` had no raw file, and a
    reason for that.
    """

    inputs: tuple[FeedInput | RawInput, ...]
    boundary: Mapping[str, str] | None
    seconds: float | None = None
    empty_sources: frozenset[str] = frozenset()

    @property
    def feeds(self) -> tuple[FeedInput, ...]:
        """The inputs that are feeds."""
        return tuple(each for each in self.inputs if isinstance(each, FeedInput))

    def raw(self, day: str, *, context: bool = False) -> dict[str, RawInput]:
        """The raw data of this day that the update read, by source: as its own data, or as context."""
        raw = (each for each in self.inputs if isinstance(each, RawInput))
        return {each.source: each for each in raw if each.partition == day and each.context == context}


def inputs_read(feed: Feed, partition: str, update: str) -> InputsRead | None:
    """The inputs of an update; None if no record names any. Costs one LIST and one GET, once in a process."""
    key = (feed.uri, partition, update)
    with suppress(KeyError):
        return _READ[key]
    record = read_record(feed, partition, update)
    if record is None:
        return None
    ended = next((each.at for each in record.history if each.state == "published"), None)
    seconds = (ended - begun(update)).total_seconds() if ended else None
    boundary = record.facts.details.get("boundary")
    empty = empty_sources(record.facts.details)
    known = InputsRead(record.facts.inputs, boundary, seconds, empty) if record.facts.inputs else None
    _READ[key] = known
    return known


def was_decided_against(feed: Feed, partition: str, update: str) -> bool:
    """Whether an update that is not in force was rejected, invalidated or taken out of force.

    False for an update that is staged or about to be published: its run ended too early. True if the update has no
    readable record. Costs one LIST and one GET; once in a process if it was decided, which never changes.
    """
    key = (feed.uri, partition, update)
    if key in _DECIDED:
        return True
    record = read_record(feed, partition, update)
    if record is None or record.state in {"staged", "publishing"}:
        return record is None
    _DECIDED[key] = True
    return True


_READ: BoundedCache[tuple[str, str, str], InputsRead | None] = BoundedCache(REMEMBERED)
_DECIDED: BoundedCache[tuple[str, str, str], Literal[True]] = BoundedCache(REMEMBERED)
