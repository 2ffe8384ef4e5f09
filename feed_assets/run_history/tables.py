"""The executions that are kept, and the ticks that wait: their rows.

Here: the tables, and their bounds. Not here: what fills them (`sensors.ended_runs`), and what follows (`health`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import column, delete, insert, select, table
from sqlalchemy.engine import Connection

from feed_assets.run_history.executions import Execution
from feed_assets.run_history.remembered import Remembered
from feed_assets.state.event_log import stored_time
from feed_assets.state.store import Store

LOG: Final = "run_history"
KEPT: Final = timedelta(days=60)
"""How long an execution is kept."""
ROWS: Final = 2_000
"""The most executions of a series that are kept: 60 days of each hour, a week of each five minutes."""
TIMES: Final = ("wanted", "started", "ended")

EXECUTIONS = table("feed_assets_executions", column("base"), *map(column, Execution.__dataclass_fields__))
TICKS = table("feed_assets_remembered_ticks", column("base"), *map(column, Remembered.__dataclass_fields__))


def record(store: Store, base: str, executions: Sequence[Execution], *, now: datetime) -> None:
    """Keep these executions, and forget old ones. An execution that is known is replaced. Raises StoreError."""
    rows = {(each.series, each.run): _row(base, each) for each in executions if each.wanted > now - KEPT}
    if not rows:
        return
    with store.writing(LOG) as transaction:
        connection = transaction.connection
        for series, run in rows:
            connection.execute(delete(EXECUTIONS).filter_by(base=base, series=series, run=run))
        connection.execute(insert(EXECUTIONS), list(rows.values()))
        connection.execute(
            delete(EXECUTIONS).where(EXECUTIONS.c.base == base, EXECUTIONS.c.wanted < stored_time(now - KEPT))
        )
        for series in sorted({series for series, _ in rows}):
            _bound(connection, base, series)


def executions_of(store: Store, base: str, *, series: str | None = None) -> dict[str, list[Execution]]:
    """The executions of each series, or of one, oldest first. Raises StoreError."""
    if not store.exists():
        return {}
    found: dict[str, list[Execution]] = {}
    with store.reading() as connection:
        wanted = {"base": base} | ({} if series is None else {"series": series})
        query = select(EXECUTIONS).filter_by(**wanted).order_by(EXECUTIONS.c.series, EXECUTIONS.c.wanted)
        for row in connection.execute(query).mappings():
            values = {name: row[name] for name in Execution.__dataclass_fields__}
            times = {name: datetime.fromisoformat(row[name]) for name in TIMES}
            each = Execution(**{**values, **times, "succeeded": bool(row["succeeded"])})
            found.setdefault(each.series, []).append(each)
    return found


def remember(store: Store, base: str, tick: Remembered) -> None:
    """Remember a tick. Of the ticks of a partition, the first stays. Raises StoreError."""
    where = {"base": base, "schedule": tick.schedule, "partition": tick.partition}
    with store.writing(LOG) as transaction:
        if transaction.connection.execute(select(TICKS).filter_by(**where)).first() is None:
            transaction.connection.execute(insert(TICKS).values(**where, wanted=stored_time(tick.wanted)))


def remembered(store: Store, base: str) -> list[Remembered]:
    """The ticks that wait, oldest first. Raises StoreError."""
    if not store.exists():
        return []
    with store.reading() as connection:
        query = select(TICKS).filter_by(base=base).order_by(TICKS.c.wanted, TICKS.c.schedule, TICKS.c.partition)
        return [
            Remembered(row.schedule, row.partition, datetime.fromisoformat(row.wanted))
            for row in connection.execute(query)
        ]


def forget(store: Store, base: str, tick: Remembered) -> None:
    """Forget a tick: it was started. Raises StoreError."""
    with store.writing(LOG) as transaction:
        where = {"base": base, "schedule": tick.schedule, "partition": tick.partition}
        transaction.connection.execute(delete(TICKS).filter_by(**where))


def _bound(connection: Connection, base: str, series: str) -> None:
    newest = select(EXECUTIONS.c.wanted).filter_by(base=base, series=series).order_by(EXECUTIONS.c.wanted.desc())
    oldest_kept = connection.execute(newest.offset(ROWS - 1).limit(1)).scalar()
    if oldest_kept is not None:
        old = EXECUTIONS.c.wanted < oldest_kept
        connection.execute(delete(EXECUTIONS).where(EXECUTIONS.c.base == base, EXECUTIONS.c.series == series, old))


def _row(base: str, each: Execution) -> dict[str, Any]:
    row = asdict(each)
    return {"base": base, **row, **{name: stored_time(row[name]) for name in TIMES}}
