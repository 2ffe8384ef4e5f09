"""Tokens: making them, and finding whose a request is.

Here: secrets, which are shown once and stored as digests, and the tokens that a service knows at a time. Not here: the
table of tokens (`tables`), and what a scope allows.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from starlette.exceptions import HTTPException

from feed_assets.errors import FeedAssetsError
from feed_assets.serving.answers import CLOSE
from feed_assets.serving.grants import grants
from feed_assets.serving.tables import ADDED, REVOKED, Token, read_tokens, record_token, tokens
from feed_assets.state.address import StoreError
from feed_assets.state.event_log import Event
from feed_assets.state.followed import Followed
from feed_assets.state.store import Store

LOOK_SECONDS: Final = 0.5
"""How often a service looks for tokens that were added or revoked: a change counts within a second."""
MOST_VALID: Final = 2
"""An owner's valid tokens at a time: the one in use, and the one that replaces it."""
_PREFIX: Final = "fa"
_UNKNOWN: Final = hashlib.sha256(b"").hexdigest()

_log = logging.getLogger(__name__)
_Known = Mapping[str, Token]


class TooManyTokensError(FeedAssetsError):
    """An owner has MOST_VALID valid tokens; `ids` are these tokens'."""

    def __init__(self, owner: str, ids: tuple[str, ...]) -> None:
        super().__init__(f"{owner} has {len(ids)} valid tokens: {', '.join(ids)}. Revoke one first.")
        self.ids = ids


class KnownTokens:
    """The tokens of a store as a service knows them. `refresh` asks the store; `required` does not."""

    def __init__(self, store: Store) -> None:
        self._followed: Followed[_Known] = Followed(
            store,
            load=lambda connection: {each.id: each for each in read_tokens(connection)},
            apply=_apply,
            empty=dict,
        )
        self._known: _Known = {}

    @property
    def have_grants(self) -> bool:
        """Whether some token, valid or not, has a grant (`serving.grants`)."""
        return any(grants(each.scopes) for each in self._known.values())

    def refresh(self) -> None:
        """Look for changes. Raises StoreError."""
        self._known = self._followed.current()

    async def follow(self) -> None:
        """Look for changes until this is cancelled. Each problem is logged once."""
        problem = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before, problem = problem, ""
            try:
                await asyncio.to_thread(self.refresh)
            except StoreError as error:
                problem = str(error)
                if problem != before:
                    _log.error("Tokens stay as they were read last: %s", problem)

    def required(self, authorization: str | None, *, now: datetime) -> Token:
        """The token of a request with this header `Authorization`. Raises HTTPException."""
        token = bearer(self._known, authorization, now=now)
        if token is None:
            raise unauthorized()
        return token


def unauthorized() -> HTTPException:
    """The refusal of a request of which nobody knows who sent it. It never says what is wrong."""
    headers = {"WWW-Authenticate": "Bearer", **CLOSE}
    return HTTPException(401, "Send `Authorization: Bearer TOKEN` with a token that is valid.", headers)


def add_token(store: Store, owner: str, scopes: Iterable[str], *, now: datetime, expires: datetime | None) -> str:
    """Add a token with these scopes, and return its text, which nothing stores.

    Raises TooManyTokensError if the owner has MOST_VALID valid tokens of the same service: with grants, or without.
    """
    new = tuple(scopes)
    secret = secrets.token_urlsafe(32)
    token = Token(secrets.token_hex(4), owner, new, _digest(secret), now, expires)
    with store.writing() as transaction:
        alike = [each for each in tokens(store) if bool(grants(each.scopes)) == bool(grants(new))]
        valid = [each.id for each in alike if each.owner == owner and each.is_valid(now)]
        if len(valid) >= MOST_VALID:
            raise TooManyTokensError(owner, tuple(valid))
        record_token(transaction, token)
    return f"{_PREFIX}_{token.id}_{secret}"


def bearer(known: Mapping[str, Token], authorization: str | None, *, now: datetime) -> Token | None:
    """The valid token of an `Authorization: Bearer` header, None without one. `known` has tokens by their ids.

    Secrets are compared in constant time.
    """
    scheme, _, text = (authorization or "").partition(" ")
    prefix, _, rest = text.strip().partition("_")
    token_id, _, secret = rest.partition("_")
    token = known.get(token_id)
    if token is not None and not token.is_valid(now):
        token = None
    # An unknown id takes as long as a wrong secret.
    same = hmac.compare_digest(_digest(secret), token.digest if token else _UNKNOWN)
    return token if same and scheme.lower() == "bearer" and prefix == _PREFIX and secret else None


def _apply(known: _Known, event: Event) -> _Known | None:
    if event.kind == ADDED:
        return None  # only the table has the digest
    if event.kind == REVOKED:
        return {token_id: token for token_id, token in known.items() if token_id != event.details["id"]}
    return known


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
