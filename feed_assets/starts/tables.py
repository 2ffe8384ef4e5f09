"""The last request of each partition of a feed; `starts.requests` decides what to request."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import column, delete, insert, select, table, update
from sqlalchemy.engine import Connection

from feed_assets.state.store import Store, Transaction

REQUESTS = table("feed_assets_requests", *map(column, ("feed", "partition", "state", "times", "at")))
PARTITIONS_OF_A_QUERY = 1000

FeedPartition = tuple[str, str]
"""A feed's URI, and a partition of it."""


@dataclass(frozen=True, slots=True)
class LastRequest:
    """The last request of a partition: the state of its input, the number of requests for it, and the last time."""

    state: str
    times: int
    at: datetime


def last_requests(store: Store, places: Collection[FeedPartition]) -> dict[FeedPartition, LastRequest]:
    """The last requests of these places, without places that were never requested. One query for each thousand."""
    if not places or not store.exists():
        return {}
    with store.reading() as connection:
        return read_last_requests(connection, places)


def read_last_requests(connection: Connection, places: Collection[FeedPartition]) -> dict[FeedPartition, LastRequest]:
    """The last requests of these places, read in a transaction."""
    wanted, found = sorted(places), {}
    for start in range(0, len(wanted), PARTITIONS_OF_A_QUERY):
        feeds, partitions = map(set, zip(*wanted[start : start + PARTITIONS_OF_A_QUERY], strict=True))
        # All feeds with all partitions: databases are slower at pairs.
        query = select(REQUESTS).where(REQUESTS.c.feed.in_(feeds), REQUESTS.c.partition.in_(partitions))
        for feed, partition, state, times, at in connection.execute(query):
            found[feed, partition] = LastRequest(state, times, datetime.fromisoformat(at))
    return {place: found[place] for place in wanted if place in found}


def record_request(transaction: Transaction, place: FeedPartition, request: LastRequest, *, reason: str) -> None:
    """Replace the recorded request of a place, and append the event `requested`."""
    key = dict(zip(("feed", "partition"), place, strict=True))
    values = {"state": request.state, "times": request.times}
    transaction.connection.execute(delete(REQUESTS).filter_by(**key))
    transaction.connection.execute(insert(REQUESTS).values(**key, **values, at=request.at.isoformat()))
    transaction.append("requested", request.at, {**key, **values, "reason": reason})


def renew_request(transaction: Transaction, place: FeedPartition, at: datetime) -> None:
    """Move the recorded request of a place to this time: it is under way."""
    key = dict(zip(("feed", "partition"), place, strict=True))
    transaction.connection.execute(update(REQUESTS).filter_by(**key).values(at=at.isoformat()))
