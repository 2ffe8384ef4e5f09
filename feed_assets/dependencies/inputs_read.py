"""What updates were computed from, as their records say: read once a process.

Here: remembering what never changes about an update. Not here: what became of it, which changes, and any decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from feed_assets.file_feed import Feed, FeedInput, RawInput, read_record

REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class InputsRead:
    """The inputs of an update, and what it states that it shares with its neighbours (see `declaration.BOUNDARY`)."""

    inputs: tuple[FeedInput | RawInput, ...]
    boundary: Mapping[str, str] | None

    @property
    def feeds(self) -> tuple[FeedInput, ...]:
        """The inputs that are feeds."""
        return tuple(each for each in self.inputs if isinstance(each, FeedInput))

    def raw(self, day: str, *, context: bool = False) -> dict[str, RawInput]:
        """What was read of each source's raw data of this day, by source: as the day's own, or as context."""
        raw = (each for each in self.inputs if isinstance(each, RawInput))
        return {each.source: each for each in raw if each.partition == day and each.context == context}


def inputs_read(feed: Feed, partition: str, update: str) -> InputsRead | None:
    """The inputs of an update; None where no record names any. One LIST and one GET, the first time in a process."""
    key = (feed.uri, partition, update)
    if key in _READ:
        return _READ[key]
    record = read_record(feed, partition, update)
    if record is None:
        return None
    if len(_READ) >= REMEMBERED:
        _READ.clear()
    known = InputsRead(record.facts.inputs, record.facts.details.get("boundary")) if record.facts.inputs else None
    _READ[key] = known
    return known


def was_decided_against(feed: Feed, partition: str, update: str) -> bool:
    """Whether an update that is not in force was rejected, invalidated or taken out of force.

    One that is only staged, or was about to be published, was not: its run ended too early. Of an update without a
    record that can be read nothing is known, and it counts as decided. One LIST and one GET.
    """
    record = read_record(feed, partition, update)
    return record is None or record.state not in {"staged", "publishing"}


_READ: dict[tuple[str, str, str], InputsRead | None] = {}
