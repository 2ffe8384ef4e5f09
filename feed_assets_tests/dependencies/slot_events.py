"""What events tell about slots, as a subscriber reads them. Not here: any expectation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.slots import Slot, parse_start
from feed_assets.state.event_log import Event


class SlotEvent(NamedTuple):
    """A slot was completed, or reopened, with this revision."""

    slot: Slot
    completed: bool
    revision: int


def slot_events(events: Iterable[Event]) -> Iterator[SlotEvent]:
    """Each slot of each event about completions and reopenings, in order."""
    for each in events:
        if each.kind not in {"completed", "reopened"}:
            continue
        said, grain = each.details, Grain.named(each.details["grain"])
        first, last = (parse_start(said[name], grain)[1] for name in ("first", "last"))
        starts = [moved(grain, first, number) for number in range(said["count"])]
        assert starts[-1] == last, said
        for start in starts:
            slot = Slot(said["dataset"], said["member"], grain, start)
            yield SlotEvent(slot, each.kind == "completed", said["revision"])
