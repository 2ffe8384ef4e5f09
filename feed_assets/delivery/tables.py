"""How far each shard was consumed: a row a shard, which only the holder of the shard's lease moves.

Here: the table. Not here: who consumes what (`consuming`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import column, delete, insert, select, table

from feed_assets.leases.in_database import LOG, renew_lease
from feed_assets.leases.port import Lease
from feed_assets.state.event_log import stored_time
from feed_assets.state.store import Store

CHECKPOINTS = table("feed_assets_checkpoints", *map(column, ("consumer", "shard", "sequence", "is_over", "until")))


class LeaseLostError(Exception):
    """Somebody else has taken the lease of the shard: what follows is theirs."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Records up to `sequence` have taken effect (""; none). `is_over`: the shard was closed, and all were.

    All records that arrived before `until` were among them.
    """

    sequence: str
    is_over: bool
    until: datetime


def checkpoints(store: Store, consumer: str) -> dict[str, Checkpoint]:
    """The checkpoints of all shards. Raises StoreError."""
    if not store.exists():
        return {}
    with store.reading() as connection:
        found = connection.execute(select(CHECKPOINTS).filter_by(consumer=consumer))
        return {
            row.shard: Checkpoint(row.sequence, bool(row.is_over), datetime.fromisoformat(row.until)) for row in found
        }


def move(
    store: Store, lease: Lease, length: timedelta, consumer: str, shard: str, to: Checkpoint, *, now: datetime
) -> Lease:
    """Move a checkpoint, and renew the lease in the same transaction. Raises LeaseLostError, StoreError."""
    with store.writing(LOG) as transaction:
        renewed = renew_lease(transaction.connection, lease, length, now=now)
        if renewed is None:
            raise LeaseLostError(shard)
        transaction.connection.execute(delete(CHECKPOINTS).filter_by(consumer=consumer, shard=shard))
        where = {"consumer": consumer, "shard": shard}
        row = where | {"sequence": to.sequence, "is_over": to.is_over, "until": stored_time(to.until)}
        transaction.connection.execute(insert(CHECKPOINTS).values(row))
    return renewed


def forget(store: Store, consumer: str) -> None:
    """Forget all checkpoints of a consumer, so that it begins at the oldest record. Raises StoreError."""
    with store.writing(LOG) as transaction:
        transaction.connection.execute(delete(CHECKPOINTS).filter_by(consumer=consumer))
