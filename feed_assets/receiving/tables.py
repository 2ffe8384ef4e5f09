"""The receiver's tables: tokens without their secrets, and answers to requests that a client may repeat.

Not here: making and checking tokens (`access`), and when an answer is given again (`committing`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import JSON, column, delete, insert, select, table

from feed_assets.state import Store, Transaction
from feed_assets.state.event_log import stored_time

ANSWERS = table("feed_assets_answers", *map(column, ("key", "at", "answer")))
KEYS_OF_A_QUERY = 1000

TOKENS = table(
    "feed_assets_tokens",
    *map(column, ("id", "partner", "digest", "created", "expires")),
    column("sources", JSON),
)


@dataclass(frozen=True, slots=True)
class Token:
    """A partner's token: the sources that it may write, and the SHA-256 of its secret in hex.

    It is valid up to `expires`, or until it is revoked if that is None.
    """

    id: str
    partner: str
    sources: tuple[str, ...]
    digest: str
    created: datetime
    expires: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return self.expires is None or now < self.expires


def tokens(store: Store) -> list[Token]:
    """All tokens that were not revoked, in the order in which they were added."""
    if not store.exists():
        return []
    with store.reading() as connection:
        rows = connection.execute(select(TOKENS).order_by(TOKENS.c.created, TOKENS.c.id)).mappings().all()
    return [
        Token(
            id=row["id"],
            partner=row["partner"],
            sources=tuple(row["sources"]),
            digest=row["digest"],
            created=datetime.fromisoformat(row["created"]),
            expires=datetime.fromisoformat(row["expires"]) if row["expires"] else None,
        )
        for row in rows
    ]


def record_token(transaction: Transaction, token: Token) -> None:
    """Add a token, and append the event `token added`."""
    row = {
        "id": token.id,
        "partner": token.partner,
        "sources": list(token.sources),
        "digest": token.digest,
        "created": token.created.isoformat(),
        "expires": token.expires.isoformat() if token.expires else None,
    }
    transaction.connection.execute(insert(TOKENS).values(row))
    details = {name: row[name] for name in ("id", "partner", "sources", "expires")}
    transaction.append("token added", token.created, details)


def remove_token(transaction: Transaction, token_id: str, *, now: datetime) -> bool:
    """Delete a token, and append the event `token revoked`. False if there is none with this id."""
    removed = transaction.connection.execute(delete(TOKENS).where(TOKENS.c.id == token_id)).rowcount
    if removed:
        transaction.append("token revoked", now, {"id": token_id})
    return bool(removed)


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
