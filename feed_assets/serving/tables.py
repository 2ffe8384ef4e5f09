"""The table of tokens, without their secrets. Not here: making and checking tokens (`tokens`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import JSON, column, delete, insert, select, table
from sqlalchemy.engine import Connection

from feed_assets.state.store import Store, Transaction

ADDED: Final = "token added"
REVOKED: Final = "token revoked"

# The names are those of the first service, whose tokens are partners' and name the sources that they write.
TOKENS = table(
    "feed_assets_tokens",
    *map(column, ("id", "partner", "digest", "created", "expires")),
    column("sources", JSON),
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of its owner: what it may do, which a service calls scopes, and the SHA-256 of its secret in hex.

    It is valid up to `expires`, or until it is revoked if that is None.
    """

    id: str
    owner: str
    scopes: tuple[str, ...]
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
        return read_tokens(connection)


def read_tokens(connection: Connection) -> list[Token]:
    """As `tokens`, in the caller's transaction."""
    rows = connection.execute(select(TOKENS).order_by(TOKENS.c.created, TOKENS.c.id)).mappings()
    return [
        Token(
            id=row["id"],
            owner=row["partner"],
            scopes=tuple(row["sources"]),
            digest=row["digest"],
            created=datetime.fromisoformat(row["created"]),
            expires=datetime.fromisoformat(row["expires"]) if row["expires"] else None,
        )
        for row in rows
    ]


def record_token(transaction: Transaction, token: Token) -> None:
    """Add a token, and append the event `token added`, which has no digest."""
    row = {
        "id": token.id,
        "partner": token.owner,
        "sources": list(token.scopes),
        "digest": token.digest,
        "created": token.created.isoformat(),
        "expires": token.expires.isoformat() if token.expires else None,
    }
    transaction.connection.execute(insert(TOKENS).values(row))
    details = {name: row[name] for name in ("id", "partner", "sources", "expires")}
    transaction.append(ADDED, token.created, details)


def remove_token(transaction: Transaction, token_id: str, *, now: datetime) -> bool:
    """Delete a token, and append the event `token revoked`. False if there is none with this id."""
    removed = transaction.connection.execute(delete(TOKENS).where(TOKENS.c.id == token_id)).rowcount
    if removed:
        transaction.append(REVOKED, now, {"id": token_id})
    return bool(removed)
