"""The attempts at each slot of a flow, and the last pause of each flow: their rows.

Not here: what to request (`requests`), how attempts follow each other (`attempt`, `attempts`), and `pauses`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from sqlalchemy import RowMapping, Select, bindparam, column, delete, func, insert, or_, select, table
from sqlalchemy.engine import Connection

from feed_assets.starts.attempt import ALIVE, Attempt, State
from feed_assets.state.event_log import NewEvent, stored_time
from feed_assets.state.store import Transaction

ATTEMPTS = table("feed_assets_attempts", column("base"), *map(column, Attempt.__dataclass_fields__))
PAUSES = table("feed_assets_pauses", *map(column, ("base", "flow", "since", "until", "by", "reason")))
STORE = table("feed_assets_store", column("id"))
PLACES_OF_A_QUERY: Final = 1000

Slot = tuple[str, str]
"""A flow and one of its slots, by their names."""

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


def newest_attempts(connection: Connection, base: str, places: Collection[Slot]) -> dict[Slot, Attempt]:
    """The newest attempt of each of these slots that has one. One query for each thousand."""
    wanted, found = sorted(places), dict[Slot, Attempt]()
    later = ATTEMPTS.alias()
    newest = select(func.max(later.c.number)).where(
        later.c.base == ATTEMPTS.c.base, later.c.flow == ATTEMPTS.c.flow, later.c.slot == ATTEMPTS.c.slot
    )
    for start in range(0, len(wanted), PLACES_OF_A_QUERY):
        flows, slots = map(set, zip(*wanted[start : start + PLACES_OF_A_QUERY], strict=True))
        # All flows with all slots: databases are slower at pairs.
        query = select(ATTEMPTS).where(
            ATTEMPTS.c.base == base,
            ATTEMPTS.c.flow.in_(flows),
            ATTEMPTS.c.slot.in_(slots),
            ATTEMPTS.c.number == newest.scalar_subquery(),
        )
        found |= {(each.flow, each.slot): each for each in _attempts(connection, query)}
    return {place: found[place] for place in wanted if place in found}


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


def read_pauses(connection: Connection, base: str) -> list[dict[str, Any]]:
    """The last pause of each flow, as `save_pause` takes it."""
    found = connection.execute(select(PAUSES).filter_by(base=base))
    return [
        {
            "flow": row.flow,
            "since": datetime.fromisoformat(row.since),
            "until": datetime.fromisoformat(row.until) if row.until else None,
            "by": row.by,
            "reason": row.reason,
        }
        for row in found
    ]


def save_pause(connection: Connection, base: str, pause: Mapping[str, Any]) -> None:
    """Replace the last pause of a flow."""
    times = {name: stored_time(pause[name]) for name in ("since", "until") if pause[name] is not None}
    connection.execute(delete(PAUSES).filter_by(base=base, flow=pause["flow"]))
    connection.execute(insert(PAUSES).values(base=base, **{**pause, **times}))


def _row(attempt: Attempt) -> dict[str, Any]:
    row = {**asdict(attempt), "state": attempt.state.value}
    return {**row, **{name: stored_time(row[name]) for name in TIMES if row[name] is not None}}


def _attempts(connection: Connection, query: Select[Any]) -> list[Attempt]:
    return [_attempt(row) for row in connection.execute(query).mappings()]


def _attempt(row: RowMapping) -> Attempt:
    values = {name: row[name] for name in Attempt.__dataclass_fields__}
    times = {name: datetime.fromisoformat(row[name]) for name in TIMES if row[name] is not None}
    return Attempt(**{**values, **times, "state": State(row["state"])})
