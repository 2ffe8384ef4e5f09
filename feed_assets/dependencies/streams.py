"""A stream: positions that one writer puts, of a topic's partition or of a member. Who may write, and what is covered.

Not here: records (`parts`), and slots (`slot_states`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from feed_assets.dependencies.positions import Ranges, size, without


class StreamState(NamedTuple):
    """A stream. `covered` has the positions of all parts.

    The writer with the highest `epoch` may report. `low` and `high` are the lowest and the highest first position that
    the source was seen to have; None: it was never asked, so it has all from 0 on.
    """

    epoch: int = 0
    writer: str = ""
    covered: Ranges = ()
    low: int | None = None
    high: int | None = None

    @property
    def origin(self) -> int:
        """The first position that is waited for."""
        if self.low is None:
            return 0
        return min(self.low, self.covered[0][0]) if self.covered else self.low

    @property
    def lost(self) -> Ranges:
        """The positions that the source has dropped before any part covered them."""
        return without(((self.origin, self.high),), self.covered) if self.high is not None else ()

    def seen(self, begin: int) -> StreamState:
        """The stream after the source was seen to begin at a position."""
        low = begin if self.low is None else min(self.low, begin)
        return self._replace(low=low, high=max(self.high or 0, begin))

    def uncovered(self, end: int) -> int:
        """How many positions below `end` no part covers, without those that are lost."""
        begin = max(self.origin, self.high or 0)
        return size(without(((begin, end),), self.covered)) if begin < end else 0


NEW_STREAM = StreamState()
Lookup = Callable[[str], StreamState]
"""The state of a stream of a member, by its key."""


def stream_key(stream: str, generation: str) -> str:
    """The key of a stream. Another generation, such as another topic id, starts new positions."""
    return f"{stream}@{generation}" if generation else stream


def uncovered(ends: Iterable[tuple[str, int]], lookup: Lookup) -> int:
    """How many positions below these end positions no part covers."""
    return sum(lookup(stream).uncovered(end) for stream, end in ends)


def lost(ends: Iterable[tuple[str, int]], spans: Iterable[tuple[str, Ranges]], lookup: Lookup) -> int:
    """How many positions of a slot the source has dropped: from the first of its parts to its end positions."""
    begins = {stream: ranges[0][0] for stream, ranges in spans if ranges}
    found = 0
    for stream, end in ends:
        state = lookup(stream)
        begin = begins.get(stream, state.origin)
        found += sum(max(min(high, end) - max(low, begin), 0) for low, high in state.lost)
    return found


def gaps(spans: Iterable[tuple[str, Ranges]], lookup: Lookup) -> int:
    """How many positions between the parts of a slot no part covers, and are not lost."""
    found = 0
    for stream, ranges in spans:
        state = lookup(stream)
        hull = ((ranges[0][0], ranges[-1][1]),) if ranges else ()
        found += size(without(without(hull, state.covered), state.lost))
    return found
