"""What arrived of each source, by hour and day, and since when it is watched: their rows.

Here: the tables, and their bounds. Not here: reading the ledger (`collecting`), and the rules (`silence`, `columns`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final

from sqlalchemy import JSON, column, delete, insert, select, table

from feed_assets.arrivals.silence import Arrived
from feed_assets.state.event_log import stored_time
from feed_assets.state.store import Store

LOG: Final = "arrivals"
KEPT: Final = timedelta(days=64)
"""How long hours and days are kept: nine weeks, and the day that begins."""

HOURS = table("feed_assets_arrivals", *map(column, ("base", "source", "hour", "landings", "records")))
COLUMNS = table("feed_assets_seen_columns", *map(column, ("base", "source", "day")), column("seen", JSON))
LOOKS = table("feed_assets_arrival_looks", *map(column, ("base", "since", "looked")))


def last_look(store: Store, base: str) -> tuple[datetime, datetime] | None:
    """Since when arrivals are watched without a pause, and when they were looked at last; None if never."""
    if not store.exists():
        return None
    with store.reading() as connection:
        row = connection.execute(select(LOOKS).filter_by(base=base)).first()
    return (datetime.fromisoformat(row.since), datetime.fromisoformat(row.looked)) if row else None


def keep_look(store: Store, base: str, since: datetime, looked: datetime) -> None:
    """Note a look at all sources. Raises StoreError."""
    with store.writing(LOG) as transaction:
        transaction.connection.execute(delete(LOOKS).filter_by(base=base))
        row = {"base": base, "since": stored_time(since), "looked": stored_time(looked)}
        transaction.connection.execute(insert(LOOKS).values(**row))


def keep_arrivals(
    store: Store,
    base: str,
    source: str,
    since: datetime,
    hours: Mapping[datetime, Arrived],
    columns: Mapping[date, Mapping[str, Any]],
) -> None:
    """Replace what is kept of a source from the hour `since` on, and of these days; forget what is old."""
    where = {"base": base, "source": source}
    with store.writing(LOG) as transaction:
        connection = transaction.connection
        connection.execute(delete(HOURS).filter_by(**where).where(HOURS.c.hour >= stored_time(since)))
        rows = [
            {**where, "hour": stored_time(hour), "landings": each.landings, "records": each.records}
            for hour, each in hours.items()
        ]
        if rows:
            connection.execute(insert(HOURS), rows)
            old = max(hours) - KEPT
            connection.execute(delete(HOURS).filter_by(**where).where(HOURS.c.hour < stored_time(old)))
        for day, seen in columns.items():
            connection.execute(delete(COLUMNS).filter_by(**where, day=str(day)))
            connection.execute(insert(COLUMNS).values(**where, day=str(day), seen=dict(seen)))
        if columns:
            connection.execute(delete(COLUMNS).filter_by(**where).where(COLUMNS.c.day < str(max(columns) - KEPT)))


def arrivals_of(store: Store, base: str, source: str) -> dict[datetime, Arrived]:
    """What landed of a source in each hour (UTC) in which something did. Raises StoreError."""
    if not store.exists():
        return {}
    with store.reading() as connection:
        rows = connection.execute(select(HOURS).filter_by(base=base, source=source).order_by(HOURS.c.hour))
        return {datetime.fromisoformat(row.hour): Arrived(row.landings, row.records) for row in rows}


def columns_of(store: Store, base: str, source: str) -> dict[date, dict[str, Any]]:
    """What was seen of the columns of a source on each day of arrival, oldest first. Raises StoreError."""
    if not store.exists():
        return {}
    with store.reading() as connection:
        rows = connection.execute(select(COLUMNS).filter_by(base=base, source=source).order_by(COLUMNS.c.day))
        return {date.fromisoformat(row.day): row.seen for row in rows}
