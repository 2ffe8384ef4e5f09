"""A lease, and the port of a place that keeps leases. Not here: any place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on `name` up to `until`.

    `number` is one higher than the number of the lease before it. `holder` is random, and nobody else's.
    """

    name: str
    number: int
    holder: str
    until: datetime


class Leases(Protocol):
    """A place that keeps leases. `now` is the machine's time; the clocks of machines differ by less than a lease."""

    def take(self, name: str, length: timedelta, *, now: datetime) -> Lease | None:
        """Take a lease that is free, or has ended; None if somebody holds it.

        A lease that ends later than two lengths from now is of a clock that was ahead, and counts as ended.
        """
        ...

    def renew(self, lease: Lease, length: timedelta, *, now: datetime) -> Lease | None:
        """The lease with a new end, also if it has ended and nobody took it since; None if somebody did."""
        ...

    def release(self, lease: Lease) -> None:
        """Give a lease back and forget its number; nothing happens if somebody else has taken it since."""
        ...


def is_over(until: datetime, length: timedelta, now: datetime) -> bool:
    """Whether a lease has ended, or was taken by a clock that was ahead."""
    return not now < until <= now + 2 * length
