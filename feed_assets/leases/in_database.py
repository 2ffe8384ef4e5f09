"""Leases in the state database. A lease can be taken in the same transaction as other changes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import column, delete, insert, select, table, update
from sqlalchemy.engine import Connection

from feed_assets.leases.port import Lease, is_over
from feed_assets.state.event_log import stored_time
from feed_assets.state.store import Store

LEASES = table("feed_assets_leases", *map(column, ("name", "number", "holder", "until")))
LEASES_OF_A_QUERY = 1000
LOG = "leases"
"""The log whose lock orders the writers of leases. It has no events."""


@dataclass(frozen=True, slots=True)
class DatabaseLeases:
    """See `Leases`. All methods raise StoreError."""

    store: Store

    def take(self, name: str, length: timedelta, *, now: datetime) -> Lease | None:
        """See `Leases.take`."""
        with self.store.writing(LOG) as transaction:
            return take_lease(transaction.connection, name, length, now=now)

    def renew(self, lease: Lease, length: timedelta, *, now: datetime) -> Lease | None:
        """See `Leases.renew`."""
        with self.store.writing(LOG) as transaction:
            return renew_lease(transaction.connection, lease, length, now=now)

    def release(self, lease: Lease) -> None:
        """See `Leases.release`."""
        with self.store.writing(LOG) as transaction:
            release_lease(transaction.connection, lease)


def take_lease(connection: Connection, name: str, length: timedelta, *, now: datetime) -> Lease | None:
    """See `Leases.take`; in the caller's transaction."""
    known = connection.execute(select(LEASES).filter_by(name=name)).mappings().first()
    if known and not is_over(datetime.fromisoformat(known["until"]), length, now):
        return None
    lease = Lease(name, known["number"] + 1 if known else 1, uuid4().hex, now + length)
    connection.execute(delete(LEASES).filter_by(name=name))
    row = {"name": name, "number": lease.number, "holder": lease.holder, "until": stored_time(lease.until)}
    connection.execute(insert(LEASES).values(row))
    return lease


def renew_lease(connection: Connection, lease: Lease, length: timedelta, *, now: datetime) -> Lease | None:
    """See `Leases.renew`; in the caller's transaction."""
    renewed = replace(lease, until=now + length)
    changed = update(LEASES).filter_by(name=lease.name, number=lease.number, holder=lease.holder)
    done = connection.execute(changed.values(until=stored_time(renewed.until))).rowcount
    return renewed if done else None


def live_leases(
    connection: Connection, names: Collection[str], length: timedelta, *, now: datetime
) -> dict[str, Lease]:
    """The leases of these names that somebody holds, by name. One query for each thousand."""
    wanted, found = sorted(names), dict[str, Lease]()
    for start in range(0, len(wanted), LEASES_OF_A_QUERY):
        query = select(LEASES).where(LEASES.c.name.in_(wanted[start : start + LEASES_OF_A_QUERY]))
        for name, number, holder, until in connection.execute(query):
            lease = Lease(name, number, holder, datetime.fromisoformat(until))
            if not is_over(lease.until, length, now):
                found[name] = lease
    return found


def release_lease(connection: Connection, lease: Lease) -> None:
    """See `Leases.release`; in the caller's transaction."""
    mine = {"name": lease.name, "number": lease.number, "holder": lease.holder}
    connection.execute(delete(LEASES).filter_by(**mine))
