"""The receiver's table: answers to requests that a client may repeat.

Not here: when an answer is given again (`committing`), and tokens (`serving.tables`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from sqlalchemy import column, delete, insert, select, table

from feed_assets.state.event_log import stored_time
from feed_assets.state.store import Store, Transaction

ANSWERS = table("feed_assets_answers", *map(column, ("key", "at", "answer")))
KEYS_OF_A_QUERY = 1000


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


def _by_thousands(keys: Collection[str]) -> Iterator[list[str]]:
    ordered = sorted(keys)
    return (ordered[start : start + KEYS_OF_A_QUERY] for start in range(0, len(ordered), KEYS_OF_A_QUERY))
