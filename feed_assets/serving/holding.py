"""How much memory all requests under way take together. Not here: what one request may take (`bodies`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class TooMuchHeldError(Exception):
    """All requests together would hold more than they may; the message says what to do."""


@dataclass(slots=True)
class HeldBytes:
    """The bytes that requests hold until they are answered, `most` of them at a time. For one thread."""

    most: int
    total: int = 0

    @contextmanager
    def of_a_request(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of one request until the block ends. The function adds bytes, or raises TooMuchHeldError."""
        mine = 0

        def hold(size: int) -> None:
            nonlocal mine
            if self.total + size > self.most:
                raise TooMuchHeldError("Too much is under way; send it again.")
            mine += size
            self.total += size

        try:
            yield hold
        finally:
            self.total -= mine
