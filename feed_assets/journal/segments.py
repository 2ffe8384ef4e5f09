"""The port of journals in segments: records are appended to one segment, which is sealed, read, and removed.

Here: what a medium does. Not here: the media (`on_disk`, `on_blackboard`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import uuid4

from feed_assets.blackboard.port import BlackboardError
from feed_assets.journal.records import JournalError

_BEGUN: Final = "%Y%m%dT%H%M%S%f"

MEDIUM_ERRORS: Final = (OSError, BlackboardError, JournalError)
"""The error that a journal raises if its medium fails."""


class Segments(Protocol):
    """Where segments are. A process writes one at a time. Methods raise OSError, BlackboardError or JournalError."""

    def claim(self) -> None:
        """Become the only writer, as far as the medium can tell. Raises JournalError."""
        ...

    def begin(self) -> str:
        """Start a segment, for `append`, and return its name."""
        ...

    def append(self, frames: Sequence[bytes]) -> None:
        """Write frames (`records.frame`) to the segment that was begun last. They are durable when the call returns.

        After an error, seal the segment: that decides whether they are in it.
        """
        ...

    def seal(self, segment: str) -> None:
        """Fix the content of a segment, also of one that a killed process has begun; can be repeated."""
        ...

    def segments(self) -> list[str]:
        """All segments, oldest first."""
        ...

    def records(self, segment: str) -> Iterator[bytes]:
        """The payloads of a sealed segment, in order; none if it does not exist. Raises JournalError if damaged."""
        ...

    def remove(self, segment: str) -> None:
        """Remove a sealed segment; can be repeated."""
        ...


def new_segment() -> str:
    """The name of a new segment, unlike that of any other; names sort by time."""
    return f"{datetime.now(UTC):{_BEGUN}}-{uuid4().hex[:16]}"


def age(segment: str) -> float:
    """Seconds since a segment of this name was begun, with its first entry; 0 if the name is not of `new_segment`."""
    try:
        begun = datetime.strptime(segment.partition("-")[0], _BEGUN).replace(tzinfo=UTC)
    except ValueError:
        return 0.0
    return max(0.0, (datetime.now(UTC) - begun).total_seconds())
