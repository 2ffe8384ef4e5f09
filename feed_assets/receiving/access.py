"""Tokens of partners: making them, and finding whose a request is.

Here: secrets, which are shown once and stored as digests. Not here: the table of tokens (`tables`), and answers to
requests that are refused (`server`).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime

from feed_assets.errors import FeedAssetsError
from feed_assets.receiving.tables import Token, record_token, tokens
from feed_assets.state import Store

MOST_VALID = 2
"""A partner's valid tokens at a time: the one in use, and the one that replaces it."""
_PREFIX = "fa"
_UNKNOWN = hashlib.sha256(b"").hexdigest()


class AccessError(FeedAssetsError):
    """A token cannot be added; the message says what, and what to do."""


def add_token(store: Store, partner: str, sources: Iterable[str], *, now: datetime, expires: datetime | None) -> str:
    """Add a token for these sources, and return its text, which nothing stores.

    Raises AccessError if the partner has MOST_VALID valid tokens.
    """
    secret = secrets.token_urlsafe(32)
    token = Token(secrets.token_hex(4), partner, tuple(sources), _digest(secret), now, expires)
    with store.writing() as transaction:
        valid = [each for each in tokens(store) if each.partner == partner and each.is_valid(now)]
        if len(valid) >= MOST_VALID:
            raise AccessError(
                f"{partner} has {len(valid)} valid tokens: {', '.join(each.id for each in valid)}. Revoke one first: "
                f"`feed-assets receive tokens revoke {valid[0].id}`."
            )
        record_token(transaction, token)
    return f"{_PREFIX}_{token.id}_{secret}"


def bearer(known: Iterable[Token], authorization: str | None, *, now: datetime) -> Token | None:
    """The valid token of an `Authorization: Bearer` header, None without one. Secrets are compared in constant time."""
    scheme, _, text = (authorization or "").partition(" ")
    prefix, _, rest = text.strip().partition("_")
    token_id, _, secret = rest.partition("_")
    token = next((each for each in known if each.id == token_id and each.is_valid(now)), None)
    # An unknown id takes as long as a wrong secret.
    same = hmac.compare_digest(_digest(secret), token.digest if token else _UNKNOWN)
    return token if same and scheme.lower() == "bearer" and prefix == _PREFIX and secret else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
