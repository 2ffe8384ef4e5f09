"""One delivery of a stream at a time: a lease in the state database, which commands and Dagster's runs share.

Without it, two deliveries would send at the whole rate of each shard, and be throttled. A lease is by the machine's
clock, also where the installation's time is fixed. Not here: delivering, and the leases themselves
(`feed_assets.leases`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from feed_assets.delivery.errors import StreamBusyError
from feed_assets.delivery.ledger import utc_now
from feed_assets.leases.holding import Holding
from feed_assets.leases.in_database import DatabaseLeases, live_leases
from feed_assets.state.store import Store

LEASE: Final = timedelta(seconds=60)


@contextmanager
def turn_of(stream: str, state: Store | None) -> Iterator[None]:
    """Hold the lease of a stream, given by its address, while the block delivers. Without a state, nothing is held.

    Raises StreamBusyError if somebody else holds it, StoreError.
    """
    if state is None:
        yield
        return
    with Holding(DatabaseLeases(state), LEASE) as holding:
        if not holding.take(_name(stream)):
            raise StreamBusyError(
                f"{stream} is taking another delivery, and takes one at a time. Nothing was sent: try again when it "
                f"has ended. If it was killed, its lease ends after {LEASE.seconds} s."
            )
        yield


def is_taken(stream: str, state: Store) -> bool:
    """Whether somebody delivers to the stream now. Raises StoreError."""
    if not state.exists():
        return False
    with state.reading() as connection:
        return bool(live_leases(connection, [_name(stream)], LEASE, now=utc_now()))


def _name(stream: str) -> str:
    return f"delivery to {stream}"
