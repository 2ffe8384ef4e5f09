"""What was last asked for of each partition of a feed.

Here: reading and recording it. Not here: what may be asked for (`dependencies.requests`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import column, delete, insert, select, table
from sqlalchemy.engine import Connection

from feed_assets.state.store import Store, Transaction

REQUESTS = table("feed_assets_requests", *map(column, ("feed", "partition", "state", "times", "at")))
PLACES_OF_A_QUERY = 1000

Place = tuple[str, str]
"""A feed's URI, and a partition of it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was last asked for of a partition: for which state of its input, how often, and when last."""

    state: str
    times: int
    at: datetime


def last_asked(store: Store, places: Collection[Place]) -> dict[Place, Asked]:
    """What was last asked for of those places of which something was. One query for each thousand."""
    if not places or not store.exists():
        return {}
    with store.reading() as connection:
        return asked_in(connection, places)


def asked_in(connection: Connection, places: Collection[Place]) -> dict[Place, Asked]:
    """The same in a transaction."""
    wanted, found = sorted(places), {}
    for start in range(0, len(wanted), PLACES_OF_A_QUERY):
        feeds, partitions = map(set, zip(*wanted[start : start + PLACES_OF_A_QUERY], strict=True))
        # All feeds with all partitions: databases look pairs up less well.
        query = select(REQUESTS).where(REQUESTS.c.feed.in_(feeds), REQUESTS.c.partition.in_(partitions))
        for feed, partition, state, times, at in connection.execute(query):
            found[feed, partition] = Asked(state, times, datetime.fromisoformat(at))
    return {place: found[place] for place in wanted if place in found}


def record_asked(transaction: Transaction, place: Place, asked: Asked, *, reason: str) -> None:
    """Record a request in the place of the one before, with its event `requested`."""
    here = dict(zip(("feed", "partition"), place, strict=True))
    what = {"state": asked.state, "times": asked.times}
    transaction.connection.execute(delete(REQUESTS).filter_by(**here))
    transaction.connection.execute(insert(REQUESTS).values(**here, **what, at=asked.at.isoformat()))
    transaction.append("requested", asked.at, {**here, **what, "reason": reason})
