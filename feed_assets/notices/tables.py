"""Reports on late data, from the request of a run to its end, which messages were sent, and the facts that were told.

Here: the rows, and a lease on each message. Not here: what reports and messages say (`notices`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import JSON, column, delete, insert, null, select, table, update

from feed_assets.state.event_log import EVENTS_KEPT, stored_time
from feed_assets.state.store import Store, Transaction

REPORTS = table(
    "feed_assets_reports",
    *map(column, ("id", "base", "day", "at", "closed")),
    column("request", JSON),
    column("result", JSON(none_as_null=True)),
)
MESSAGES = table(
    "feed_assets_messages",
    *map(column, ("report", "message", "channel", "attempts", "leased_until", "sent")),
)

TOLD = table("feed_assets_told", *map(column, ("base", "fact", "channel", "state", "since", "seen")))
TOLD_LOG: Final = "told"

FORGOTTEN_AFTER: Final = timedelta(days=7)
"""A fact that was not there for so long is over: its next state is news."""
SEEN_AGAIN: Final = timedelta(hours=1)
"""How old the note is that a fact is still there before it is written again."""
EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
OVER: Final = "over"
"""The state of a fact that is known to have ended. Channels are not told; the next state is news."""
AT_ONCE: Final = 500
"""Facts in a query: databases limit its parameters."""

LEASE = timedelta(minutes=2)
"""How long a message belongs to the process that sends it: longer than a tick."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
"""Pauses after a message that was not taken; they double."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report on late data of a day below a base: what was requested at `at`, and the result, None before the end."""

    id: str
    base: str
    day: str
    at: datetime
    request: Mapping[str, Any]
    result: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message about a report, and the channel that it takes. Its name is the same whenever it is sent."""

    report: str
    message: str
    channel: str

    @property
    def name(self) -> str:
        """Unique over all messages of all installations."""
        return f"{self.report}.{self.message}"


def record_report(transaction: Transaction, report: Report) -> None:
    """Add a report, unless it is there: a request may be repeated. Appends the event `late data`.

    If a report of this id has its result, the same data is late again: the new report gets an id that follows from it.
    """
    while (
        known := transaction.connection.execute(select(REPORTS.c.result).filter_by(id=report.id)).first()
    ) is not None:
        if known.result is None:
            return
        report = replace(report, id=hashlib.sha256(report.id.encode()).hexdigest()[:16])
    row = {"id": report.id, "base": report.base, "day": report.day, "at": stored_time(report.at)}
    transaction.connection.execute(insert(REPORTS).values(**row, request=dict(report.request)))
    transaction.append("late data", report.at, {"report": report.id, "day": report.day})


def open_reports(store: Store, base: str, *, day: str | None = None) -> list[Report]:
    """The open reports below a base, oldest first. With `day`, all reports on this day, closed ones too."""
    if not store.exists():
        return []
    which = REPORTS.c.closed.is_(None) if day is None else REPORTS.c.day == day
    query = select(REPORTS).where(REPORTS.c.base == base, which).order_by(REPORTS.c.at, REPORTS.c.id)
    with store.reading() as connection:
        rows = connection.execute(query).mappings().all()
    return [
        Report(
            row["id"], row["base"], row["day"], datetime.fromisoformat(row["at"]), row["request"], row["result"] or None
        )
        for row in rows
    ]


def record_result(transaction: Transaction, report: Report, result: Mapping[str, Any], *, at: datetime) -> None:
    """Give a report its result, unless another tick has given it one. Appends the event `late data reported`."""
    mine = update(REPORTS).where(REPORTS.c.id == report.id, REPORTS.c.result.is_(null()))
    if transaction.connection.execute(mine.values(result=dict(result))).rowcount:
        details = {"report": report.id, "day": report.day, "outcome": result.get("outcome")}
        transaction.append("late data reported", at, details)


def close_report(transaction: Transaction, report: Report, *, at: datetime) -> None:
    """Close a report, as nothing is left to do for it; delete reports closed long ago, with their messages."""
    transaction.connection.execute(update(REPORTS).where(REPORTS.c.id == report.id).values(closed=stored_time(at)))
    old = select(REPORTS.c.id).where(REPORTS.c.closed < stored_time(at - EVENTS_KEPT))
    transaction.connection.execute(delete(MESSAGES).where(MESSAGES.c.report.in_(old)))
    transaction.connection.execute(delete(REPORTS).where(REPORTS.c.closed < stored_time(at - EVENTS_KEPT)))


def messages_of(store: Store, report: Report) -> dict[tuple[str, str], bool]:
    """The messages about a report that were claimed, each with its channel, and whether it was sent."""
    query = select(MESSAGES.c.message, MESSAGES.c.channel, MESSAGES.c.sent).where(MESSAGES.c.report == report.id)
    with store.reading() as connection:
        return {(message, channel): sent is not None for message, channel, sent in connection.execute(query)}


def claim_message(transaction: Transaction, message: Message, *, at: datetime) -> bool:
    """Whether the caller is to send the message now: it was not sent, and nobody else is about to send it.

    `at` is the machine's time, as leases are of processes. The lease ends after LEASE.
    """
    row = transaction.connection.execute(select(MESSAGES).filter_by(**asdict(message))).mappings().first()
    if row is not None and (row["sent"] is not None or row["leased_until"] > stored_time(at)):
        return False
    transaction.connection.execute(delete(MESSAGES).filter_by(**asdict(message)))
    attempts = (row["attempts"] if row else 0) + 1
    leased = {"attempts": attempts, "leased_until": stored_time(at + LEASE)}
    transaction.connection.execute(insert(MESSAGES).values(**asdict(message), **leased))
    return True


def record_sent(transaction: Transaction, message: Message, *, at: datetime) -> None:
    """Note that the message was sent, or never will be."""
    transaction.connection.execute(update(MESSAGES).filter_by(**asdict(message)).values(sent=stored_time(at)))


def attempts_at(transaction: Transaction, message: Message) -> int:
    """How often a message was claimed."""
    query = select(MESSAGES.c.attempts).filter_by(**asdict(message))
    return int(transaction.connection.execute(query).scalar_one())


def postpone_message(transaction: Transaction, message: Message, *, at: datetime) -> datetime:
    """Note that the message was not taken. Returns when it may be sent again."""
    key, attempts = asdict(message), attempts_at(transaction, message)
    again = at + min(FIRST_PAUSE * (1 << min(attempts - 1, 10)), LONGEST_PAUSE)
    transaction.connection.execute(update(MESSAGES).filter_by(**key).values(leased_until=stored_time(again)))
    return again


class Told(NamedTuple):
    """The state of a fact that a channel knows, and since when."""

    state: str
    since: datetime


def told(store: Store, base: str, channel: str) -> dict[str, Told]:
    """The facts below a base that a channel knows. Raises StoreError."""
    if not store.exists():
        return {}
    with store.reading() as connection:
        rows = connection.execute(select(TOLD).filter_by(base=base, channel=channel))
        return {row.fact: Told(row.state, datetime.fromisoformat(row.since)) for row in rows}


def facts_there(store: Store, base: str, topic: str, *, since: datetime) -> dict[str, str]:
    """The facts with this beginning that were there after `since`, and are not over, by state. Raises StoreError."""
    if not store.exists():
        return {}
    with store.reading() as connection:
        wanted = select(TOLD.c.fact, TOLD.c.state).filter_by(base=base).where(TOLD.c.seen >= stored_time(since))
        wanted = wanted.where(TOLD.c.state != OVER)
        rows = connection.execute(wanted.where(TOLD.c.fact.startswith(topic, autoescape=True)))
        return {row.fact: row.state for row in rows}


def keep_told(store: Store, base: str, channel: str, facts: Mapping[str, str], *, now: datetime) -> None:
    """Note that a channel knows these states of facts. Raises StoreError."""
    if not facts:
        return
    at, where = stored_time(now), {"base": base, "channel": channel}
    with store.writing(TOLD_LOG) as transaction:
        for names in _batches(sorted(facts)):
            old = delete(TOLD).filter_by(**where).where(TOLD.c.fact.in_(names))
            transaction.connection.execute(old)
            rows = [{**where, "fact": name, "state": facts[name], "since": at, "seen": at} for name in names]
            transaction.connection.execute(insert(TOLD), rows)


def keep_seen(store: Store, base: str, facts: Iterable[str], *, now: datetime) -> None:
    """Note that these facts are still there, in whatever state, and forget those that ended FORGOTTEN_AFTER ago.

    Writes only if a note is older than SEEN_AGAIN. Raises StoreError.
    """
    if not store.exists():
        return
    wanted, fresh, old = set(facts), stored_time(now - SEEN_AGAIN), stored_time(now - FORGOTTEN_AFTER)
    with store.reading() as connection:
        known = connection.execute(select(TOLD.c.fact, TOLD.c.seen).filter_by(base=base)).all()
    again = sorted({fact for fact, seen in known if fact in wanted and seen < fresh})
    if not again and all(seen >= old for _, seen in known):
        return
    with store.writing(TOLD_LOG) as transaction:
        for names in _batches(again):
            still = update(TOLD).filter_by(base=base).where(TOLD.c.fact.in_(names))
            transaction.connection.execute(still.values(seen=stored_time(now)))
        transaction.connection.execute(delete(TOLD).where(TOLD.c.base == base, TOLD.c.seen < old))


def end_facts(store: Store, base: str, topic: str, still: Collection[str]) -> None:
    """Note that the facts with this beginning are over, except those that are `still` there. Raises StoreError."""
    over = sorted(facts_there(store, base, topic, since=EVER).keys() - set(still))
    if not over:
        return
    with store.writing(TOLD_LOG) as transaction:
        for names in _batches(over):
            ended = update(TOLD).filter_by(base=base).where(TOLD.c.fact.in_(names))
            transaction.connection.execute(ended.values(state=OVER))


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE))
