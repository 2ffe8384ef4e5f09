"""The executions that are kept, the ticks that wait, and the steps under way: their rows.

Here: the tables, and their bounds. Not here: what fills them (`sensors.ended_runs`), and what follows (`health`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import column, delete, insert, select, table, update
from sqlalchemy.engine import Connection

from feed_assets.engine.progress import Progress
from feed_assets.run_history.executions import Execution
from feed_assets.run_history.live import LiveStep
from feed_assets.run_history.remembered import Remembered
from feed_assets.state.event_log import stored_time
from feed_assets.state.store import Store

LOG: Final = "run_history"
LIVE_LOG: Final = "live_steps"
"""The log of LIVE_STEPS: a step that runs waits for nobody else."""
KEPT: Final = timedelta(days=60)
"""How long an execution is kept."""
ROWS: Final = 2_000
"""The most executions of a series that are kept: 60 days of each hour, a week of each five minutes."""
LIVE_ROWS: Final = 1_000
"""The most steps without success that are kept."""
TIMES: Final = ("wanted", "started", "ended")

EXECUTIONS = table("feed_assets_executions", column("base"), *map(column, Execution.__dataclass_fields__))
TICKS = table("feed_assets_remembered_ticks", column("base"), *map(column, Remembered.__dataclass_fields__))

FIGURES: Final = tuple(Progress.__dataclass_fields__)
STEP: Final = tuple(name for name in LiveStep.__dataclass_fields__ if name != "progress")
STEP_TIMES: Final = ("started", "seen", "changed", "ended")
LIVE_STEPS = table("feed_assets_live_steps", *map(column, ("base", *STEP, *FIGURES)))


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


def keep_live(store: Store, base: str, step: LiveStep) -> None:
    """Keep how far a step is, in place of what was kept of it before. Raises StoreError.

    A new step forgets old ones: those that nobody looked at for KEPT, and those beyond LIVE_ROWS.
    """
    row, where = _live_row(base, step), {"base": base, "run": step.run, "step": step.step}
    with store.writing(LIVE_LOG) as transaction:
        connection = transaction.connection
        if connection.execute(update(LIVE_STEPS).filter_by(**where).values(row)).rowcount:
            return
        connection.execute(insert(LIVE_STEPS).values(row))
        of_base = LIVE_STEPS.c.base == base
        connection.execute(delete(LIVE_STEPS).where(of_base, LIVE_STEPS.c.seen < stored_time(step.seen - KEPT)))
        newest = select(LIVE_STEPS.c.seen).where(of_base).order_by(LIVE_STEPS.c.seen.desc())
        oldest_kept = connection.execute(newest.offset(LIVE_ROWS - 1).limit(1)).scalar()
        if oldest_kept is not None:
            connection.execute(delete(LIVE_STEPS).where(of_base, LIVE_STEPS.c.seen < oldest_kept))


def forget_live(store: Store, base: str, run: str, step: str) -> None:
    """Forget a step: it has succeeded. Raises StoreError."""
    with store.writing(LIVE_LOG) as transaction:
        transaction.connection.execute(delete(LIVE_STEPS).filter_by(base=base, run=run, step=step))


def live_steps(store: Store, base: str) -> list[LiveStep]:
    """The steps that run, and those that ended without success, the oldest first. Raises StoreError."""
    if not store.exists():
        return []
    with store.reading() as connection:
        query = (
            select(LIVE_STEPS).filter_by(base=base).order_by(LIVE_STEPS.c.started, LIVE_STEPS.c.run, LIVE_STEPS.c.step)
        )
        return [_live_step(row) for row in connection.execute(query).mappings()]


def running_now(store: Store, base: str, now: datetime) -> list[LiveStep]:
    """The steps that run now, the oldest first. `base` is the base's URI. Raises StoreError."""
    return [each for each in live_steps(store, base) if each.runs(now)]


def _live_row(base: str, step: LiveStep) -> dict[str, Any]:
    row = {"base": base, **{name: getattr(step, name) for name in STEP}, "feeds": "\n".join(step.feeds)}
    row |= {name: row[name] and stored_time(row[name]) for name in STEP_TIMES}
    return row | {name: getattr(step.progress, name, None) for name in FIGURES}


def _live_step(row: Mapping[Any, Any]) -> LiveStep:
    values = {name: row[name] for name in STEP} | {"feeds": tuple(row["feeds"].split("\n"))}
    times = {name: row[name] and datetime.fromisoformat(row[name]) for name in STEP_TIMES}
    known = row["tasks"] is not None
    return LiveStep(
        **{**values, **times}, progress=Progress(**{name: row[name] for name in FIGURES}) if known else None
    )


def _bound(connection: Connection, base: str, series: str) -> None:
    newest = select(EXECUTIONS.c.wanted).filter_by(base=base, series=series).order_by(EXECUTIONS.c.wanted.desc())
    oldest_kept = connection.execute(newest.offset(ROWS - 1).limit(1)).scalar()
    if oldest_kept is not None:
        old = EXECUTIONS.c.wanted < oldest_kept
        connection.execute(delete(EXECUTIONS).where(EXECUTIONS.c.base == base, EXECUTIONS.c.series == series, old))


def _row(base: str, each: Execution) -> dict[str, Any]:
    row = asdict(each)
    return {"base": base, **row, **{name: stored_time(row[name]) for name in TIMES}}
