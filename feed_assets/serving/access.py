"""Who may do what by HTTP: by the grants of a token, or without tokens from this machine alone.

Here: the caller of a request. Not here: making tokens (`tokens`), and which verbs a service has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from feed_assets.serving.addresses import is_loopback
from feed_assets.serving.answers import CLOSE
from feed_assets.serving.grants import Grant, grants
from feed_assets.serving.tokens import KnownTokens

_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers of proxies: behind one, every request comes from this machine."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: the owner of a token and its grants, or somebody on this machine, who may do all."""

    name: str
    grants: tuple[Grant, ...]
    is_local: bool = False

    def may(self, verb: str, name: str) -> bool:
        """Whether the caller may do this with the thing of this name."""
        return self.is_local or any(each.covers(verb, name) for each in self.grants)

    def require(self, verb: str, name: str) -> None:
        """Raise HTTPException, 403, unless the caller may do this with the thing of this name."""
        if not self.may(verb, name):
            raise HTTPException(
                403, f"This token does not {verb} {name!r}; ask for one with the grant {verb}:{name}.", CLOSE
            )


LOCAL: Final = Caller("", (), is_local=True)
"""Somebody on this machine, where no token was added."""


@dataclass(frozen=True, slots=True)
class Access:
    """Finds the caller of a request. Without any token that has a grant, only this machine may ask."""

    tokens: KnownTokens
    now: Callable[[], datetime]

    def caller(self, request: Request) -> Caller:
        """The caller. Raises HTTPException: 401 without a valid token, 403 from elsewhere if there are no tokens."""
        if self.tokens.have_grants:
            token = self.tokens.required(request.headers.get("authorization"), now=self.now())
            return Caller(token.owner, tuple(grants(token.scopes)))
        if not _is_local(request):
            raise HTTPException(
                403,
                "Without tokens, the service answers requests of its own machine only: add a token with "
                "`feed-assets serve tokens add`.",
                CLOSE,
            )
        return LOCAL


def _is_local(request: Request) -> bool:
    """Whether a request comes from this machine, by its own name, and not through a proxy.

    A page of another site whose name was made to mean this machine sends that name as the host.
    """
    peer = request.client.host if request.client else ""
    return (
        is_loopback(peer)
        and is_loopback(_host(request.headers.get("host", "")))
        and not any(each in request.headers for each in _FORWARDED)
    )


def _host(header: str) -> str:
    """The host without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()
