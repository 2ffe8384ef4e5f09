"""The receiver's tables: answers to requests that a client may repeat, and the counts of what partners sent.

Not here: when an answer is given again (`committing`), counting (`tallies`), and tokens (`serving.tables`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import column, delete, insert, or_, select, table, text

from feed_assets.receiving.tallies import Key, Tally
from feed_assets.state.event_log import stored_time
from feed_assets.state.store import Store, Transaction

ANSWERS = table("feed_assets_answers", *map(column, ("key", "at", "answer")))
RECEIVED = table(
    "feed_assets_received",
    *map(column, ("segment", "partner", "source", "first", "last", "requests", "accepted", "landed")),
    *map(column, ("rejected", "quarantined")),
)
# Texts: a receiver that starts would spend its first tenth of a second on compiling expressions.
_ADD = text(
    "INSERT INTO feed_assets_received (segment, partner, source, first, last, requests, accepted, rejected, "
    "quarantined) VALUES (:segment, :partner, :source, :first, :last, :requests, :accepted, :rejected, '{}') "
    "ON CONFLICT DO NOTHING"
)
_FORGET = text("DELETE FROM feed_assets_received WHERE last < :forget")
_LAND = text(
    "UPDATE feed_assets_received SET landed = :at WHERE segment = :segment AND source = :source AND landed IS NULL"
)
_BAD = text(
    "UPDATE feed_assets_received SET quarantined = :quarantined "
    "WHERE segment = :segment AND source = :source AND partner = :partner"
)
KEYS_OF_A_QUERY = 1000


@dataclass(frozen=True, slots=True)
class Received:
    """What a segment has of a partner and a source; `landed` is when it landed, and `quarantined` counts by reason."""

    segment: str
    partner: str
    source: str
    tally: Tally
    landed: datetime | None
    quarantined: Mapping[str, int]


def answers(store: Store, keys: Collection[str], *, after: datetime) -> dict[str, str]:
    """The answers that were given to requests with these keys since then. One query for each thousand."""
    found: dict[str, str] = {}
    if keys and store.exists():
        with store.reading() as connection:
            for some in _by_thousands(keys):
                query = select(ANSWERS.c.key, ANSWERS.c.answer)
                wanted = query.where(ANSWERS.c.key.in_(some), ANSWERS.c.at > stored_time(after))
                found |= {row.key: row.answer for row in connection.execute(wanted)}
    return found


def record_answers(transaction: Transaction, given: Mapping[str, tuple[datetime, str]], *, forget: datetime) -> None:
    """Store answers by their keys, each with its time; recording them again is harmless. Delete older ones."""
    transaction.connection.execute(delete(ANSWERS).where(ANSWERS.c.at < stored_time(forget)))
    for some in _by_thousands(given):
        transaction.connection.execute(delete(ANSWERS).where(ANSWERS.c.key.in_(some)))
        rows = [{"key": key, "at": stored_time(given[key][0]), "answer": given[key][1]} for key in some]
        transaction.connection.execute(insert(ANSWERS), rows)


def record_received(transaction: Transaction, sealed: Mapping[str, Mapping[Key, Tally]], *, forget: datetime) -> None:
    """Store the counts of sealed segments; recording them again changes nothing. Delete what was sent before `forget`.

    Each segment has a row of its own: a receiver that starts again counts the segments that it finds once more.
    """
    rows = [
        {
            "segment": segment,
            "partner": partner,
            "source": source,
            "first": stored_time(tally.first),
            "last": stored_time(tally.last),
            "requests": tally.requests,
            "accepted": tally.accepted,
            "rejected": json.dumps(tally.rejected),
        }
        for segment, of in sealed.items()
        for (partner, source), tally in of.items()
    ]
    if rows:
        transaction.connection.execute(_ADD, rows)
    transaction.connection.execute(_FORGET, {"forget": stored_time(forget)})


def record_landed(
    transaction: Transaction, segment: str, source: str, quarantined: Mapping[str, Mapping[str, int]], *, at: datetime
) -> None:
    """Store that a source of a segment has landed, and how many records went to quarantine by partner and reason."""
    place = {"segment": segment, "source": source}
    transaction.connection.execute(_LAND, {**place, "at": stored_time(at)})
    for partner, reasons in quarantined.items():
        transaction.connection.execute(_BAD, {**place, "partner": partner, "quarantined": json.dumps(reasons)})


def received(store: Store, *, after: datetime, partner: str | None = None) -> list[Received]:
    """What was sent since then, or has not landed; of one partner, or of all. One query."""
    if not store.exists():
        return []
    wanted = select(RECEIVED).where(or_(RECEIVED.c.last >= stored_time(after), RECEIVED.c.landed.is_(None)))
    if partner is not None:
        wanted = wanted.where(RECEIVED.c.partner == partner)
    with store.reading() as connection:
        return [
            Received(
                row["segment"],
                row["partner"],
                row["source"],
                Tally(
                    row["requests"],
                    row["accepted"],
                    Counter(json.loads(row["rejected"])),
                    datetime.fromisoformat(row["first"]),
                    datetime.fromisoformat(row["last"]),
                ),
                datetime.fromisoformat(row["landed"]) if row["landed"] else None,
                json.loads(row["quarantined"]),
            )
            for row in connection.execute(wanted).mappings()
        ]


def _by_thousands(keys: Collection[str]) -> Iterator[list[str]]:
    ordered = sorted(keys)
    return (ordered[start : start + KEYS_OF_A_QUERY] for start in range(0, len(ordered), KEYS_OF_A_QUERY))
