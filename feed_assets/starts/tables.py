"""The attempts at each slot of a flow: their rows.

Not here: what to request (`requests`), and how attempts follow each other (`attempt`, `attempts`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from sqlalchemy import RowMapping, Select, bindparam, column, delete, func, insert, or_, select, table
from sqlalchemy.engine import Connection

from feed_assets.starts.attempt import ALIVE, Attempt, State
from feed_assets.state.event_log import NewEvent, stored_time
from feed_assets.state.store import Transaction

ATTEMPTS = table("feed_assets_attempts", column("base"), *map(column, Attempt.__dataclass_fields__))
STORE = table("feed_assets_store", column("id"))
PARTITIONS_OF_A_QUERY = 1000

ATTEMPTS_KEPT: Final = 20
"""How many attempts of a slot are kept, the newest included."""
TIMES: Final = ("requested", "started", "ended")

_FORGET: Final = delete(ATTEMPTS).where(
    *(ATTEMPTS.c[name] == bindparam(f"the_{name}") for name in ("base", "flow", "slot")),
    or_(ATTEMPTS.c.number == bindparam("the_number"), ATTEMPTS.c.number <= bindparam("the_number") - ATTEMPTS_KEPT),
)
"""Forgets an attempt as it was, and the old ones of its slot."""


def store_id(connection: Connection) -> str:
    """The random id of this database: another database, also one that replaces it, has another one."""
    return str(connection.execute(select(STORE.c.id)).scalar_one())


def newest_attempts(connection: Connection, base: str, flow: str, slots: Collection[str]) -> dict[str, Attempt]:
    """The newest attempt of each of these slots that has one. One query for each thousand."""
    wanted, found = sorted(slots), dict[str, Attempt]()
    later = ATTEMPTS.alias()
    newest = select(func.max(later.c.number)).where(
        later.c.base == ATTEMPTS.c.base, later.c.flow == ATTEMPTS.c.flow, later.c.slot == ATTEMPTS.c.slot
    )
    for start in range(0, len(wanted), PARTITIONS_OF_A_QUERY):
        some = wanted[start : start + PARTITIONS_OF_A_QUERY]
        query = select(ATTEMPTS).where(
            ATTEMPTS.c.base == base,
            ATTEMPTS.c.flow == flow,
            ATTEMPTS.c.slot.in_(some),
            ATTEMPTS.c.number == newest.scalar_subquery(),
        )
        found |= {each.slot: each for each in _attempts(connection, query)}
    return found


def attempts_of(connection: Connection, base: str, flow: str, slot: str) -> list[Attempt]:
    """The attempts of a slot that are kept, oldest first."""
    query = select(ATTEMPTS).filter_by(base=base, flow=flow, slot=slot).order_by(ATTEMPTS.c.number)
    return _attempts(connection, query)


def attempt_of_key(connection: Connection, base: str, key: str) -> Attempt | None:
    """The attempt that has this run key."""
    return next(iter(_attempts(connection, select(ATTEMPTS).filter_by(base=base, key=key))), None)


def attempts_alive(connection: Connection, base: str) -> list[Attempt]:
    """All attempts that wait for their run, or whose end is not on record, by flow and slot."""
    query = select(ATTEMPTS).where(ATTEMPTS.c.base == base, ATTEMPTS.c.state.in_([each.value for each in ALIVE]))
    return _attempts(connection, query.order_by(ATTEMPTS.c.flow, ATTEMPTS.c.slot))


def save_attempts(transaction: Transaction, base: str, attempts: Sequence[Attempt], at: datetime) -> None:
    """Write these attempts, new or changed, each with an event, and forget old attempts of their slots.

    `at` is the time of the events, by the installation's clock.
    """
    if not attempts:
        return
    rows = [{"base": base, **_row(each)} for each in attempts]
    places = [{name: row[name] for name in ("base", "flow", "slot", "number")} for row in rows]
    transaction.connection.execute(_FORGET, [{f"the_{name}": value for name, value in each.items()} for each in places])
    transaction.connection.execute(insert(ATTEMPTS), rows)
    transaction.append_many([NewEvent(f"attempt {row['state']}", at, row) for row in rows])


def _row(attempt: Attempt) -> dict[str, Any]:
    row = {**asdict(attempt), "state": attempt.state.value}
    return {**row, **{name: stored_time(row[name]) for name in TIMES if row[name] is not None}}


def _attempts(connection: Connection, query: Select[Any]) -> list[Attempt]:
    return [_attempt(row) for row in connection.execute(query).mappings()]


def _attempt(row: RowMapping) -> Attempt:
    values = {name: row[name] for name in Attempt.__dataclass_fields__}
    times = {name: datetime.fromisoformat(row[name]) for name in TIMES if row[name] is not None}
    return Attempt(**{**values, **times, "state": State(row["state"])})
