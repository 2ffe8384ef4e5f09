"""Logs of events: each is numbered without a gap, written with the change that it tells, and read from a cursor.

Here: appending, reading, and following a log with a view in memory. Not here: what an event means (the room that
appends it), and transactions (`store`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import JSON, BindParameter, bindparam, column, delete, insert, select, table, text
from sqlalchemy.engine import Connection

MAIN: Final = "main"
"""The log of everything that has no log of its own."""
EVENTS_KEPT: Final = timedelta(days=30)
"""How long events stay in a log. A reader must come back within this time."""

EVENTS = table("feed_assets_log", *map(column, ("log", "sequence", "at", "kind")), column("details", JSON))
COUNTERS = table("feed_assets_log_counters", column("log"), column("last"))
"""A row for each log, with its newest number; a writing transaction locks it first."""

_LOG: BindParameter[str] = bindparam("the_log")
_LOCK = text(
    "INSERT INTO feed_assets_log_counters (log, last) VALUES (:log, 0) ON CONFLICT (log) DO UPDATE SET last = "
    "feed_assets_log_counters.last"
)
_NUMBERS = text(
    "INSERT INTO feed_assets_log_counters (log, last) VALUES (:log, :many) ON CONFLICT (log) DO UPDATE SET last = "
    "feed_assets_log_counters.last + :many RETURNING last"
)
_SKIP = text("UPDATE feed_assets_log_counters SET last = :number WHERE log = :log AND last < :number")
_INSERT = insert(EVENTS)
_KEPT = select(EVENTS.c.sequence).where(EVENTS.c.log == _LOG, EVENTS.c.at >= bindparam("since"))
_FORGET = delete(EVENTS).where(
    EVENTS.c.log == _LOG, EVENTS.c.sequence < _KEPT.order_by(EVENTS.c.sequence).limit(1).scalar_subquery()
)
_AFTER = (
    select(EVENTS.c.sequence, EVENTS.c.at, EVENTS.c.kind, EVENTS.c.details)
    .where(EVENTS.c.log == _LOG, EVENTS.c.sequence > bindparam("after"))
    .order_by(EVENTS.c.sequence)
    .limit(bindparam("most"))
)

_OF_KIND = (
    select(EVENTS.c.sequence, EVENTS.c.at, EVENTS.c.details)
    .where(EVENTS.c.log == _LOG, EVENTS.c.kind == bindparam("kind"))
    .order_by(EVENTS.c.sequence)
)


@dataclass(frozen=True, slots=True)
class Event:
    """A change. `sequence` is one higher than the sequence of the event before it in its log."""

    sequence: int
    at: datetime
    kind: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event before it has a number. `at` has a time zone; `details` must be JSON."""

    kind: str
    at: datetime
    details: Mapping[str, Any]


def lock_log(connection: Connection, log: str) -> None:
    """Keep other writers of this log waiting until the transaction ends."""
    connection.execute(_LOCK, {"log": log})


def append_many(connection: Connection, log: str, events: Sequence[NewEvent]) -> range:
    """Append events in order and return their numbers.

    Deletes the log's oldest events, up to the first that is younger than EVENTS_KEPT when the newest of these happens.
    """
    if not events:
        return range(0)
    last = int(connection.execute(_NUMBERS, {"log": log, "many": len(events)}).scalar_one())
    numbers = range(last - len(events) + 1, last + 1)
    connection.execute(
        _INSERT,
        [
            {"log": log, "sequence": number, "at": stored_time(each.at), "kind": each.kind, "details": each.details}
            for number, each in zip(numbers, events, strict=True)
        ],
    )
    newest = max(each.at for each in events)
    connection.execute(_FORGET, {"the_log": log, "since": stored_time(newest - EVENTS_KEPT)})
    return numbers


def skip_to(connection: Connection, log: str, number: int) -> None:
    """Let the next event have a number above this one. For readers, the events between are gone."""
    connection.execute(_NUMBERS, {"log": log, "many": 0})
    connection.execute(_SKIP, {"log": log, "number": number})


def read_events(connection: Connection, log: str, after: int, limit: int) -> list[Event]:
    """The first `limit` events of a log with a higher number than `after`, in order."""
    rows = connection.execute(_AFTER, {"the_log": log, "after": after, "most": limit})
    return [Event(sequence, datetime.fromisoformat(at), kind, details) for sequence, at, kind, details in rows]


def events_of_kind(connection: Connection, log: str, kind: str) -> list[Event]:
    """The events of this kind that are still in a log, in order. It looks at each event of the log."""
    rows = connection.execute(_OF_KIND, {"the_log": log, "kind": kind})
    return [Event(sequence, datetime.fromisoformat(at), kind, details) for sequence, at, details in rows]


def newest_number(connection: Connection, log: str) -> int:
    """The number of the newest event of a log; 0 before the first."""
    return int(connection.execute(select(COUNTERS.c.last).where(COUNTERS.c.log == log)).scalar() or 0)


def stored_time(moment: datetime) -> str:
    """A time as the database stores and compares it."""
    return moment.astimezone(UTC).isoformat()
