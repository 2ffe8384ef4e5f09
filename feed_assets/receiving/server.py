"""The receiver's HTTP API: events of partners in, an answer once they are durable.

Here: routes, and what each request may do and cost. Not here: what makes events durable (`committing`), and starting
the server with its address and TLS (`cli.receive`). The documentation of the API is at `/docs`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Final
from uuid import uuid4

import msgspec
from fastapi import FastAPI, HTTPException, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import ClientDisconnect

from feed_assets.receiving import journal
from feed_assets.receiving.access import bearer
from feed_assets.receiving.committing import Committer, UnavailableError
from feed_assets.receiving.content import Content, UnsupportedError
from feed_assets.receiving.documentation import BODY, PARAMETERS, REFUSALS, Answer, Problem
from feed_assets.receiving.door import (
    Body,
    BodyError,
    Door,
    TooLargeError,
    can_be_pushed,
    require_an_object,
    split,
)
from feed_assets.receiving.keeping import Keeper
from feed_assets.receiving.limits import Limits
from feed_assets.receiving.metrics import Metrics
from feed_assets.receiving.tables import Token, tokens
from feed_assets.sources import Source
from feed_assets.state import Store, StoreError

REFRESH_SECONDS: Final = 5.0
"""How often tokens are read again: a token that is revoked stays valid for so long at most."""

_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_CLOSE: Final = {"Connection": "close"}
"""For an answer that comes before the body was read: what is left of the body is not a request."""

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Receiver:
    """The needs of the server, and the state of all its requests.

    A request's id is that of the receiver and a number: random ids would cost a call of the system each.
    """

    sources: Sequence[Source]
    store: Store
    committer: Committer
    keeper: Keeper
    limits: Limits
    metrics: Metrics
    with_tokens: bool = True
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    held: int = 0
    id: str = field(default_factory=lambda: uuid4().hex)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _tokens: Sequence[Token] = ()
    _names: dict[str, Source] = field(default_factory=dict)
    _doors: dict[str, Door] = field(default_factory=dict)
    _spent: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        short = [source.name for source in self.sources]
        self._names = {source.name: source for source in self.sources if short.count(source.name) == 1}
        self._names |= {source.key: source for source in self.sources}
        for source in filter(can_be_pushed, self.sources):
            self._doors[source.key] = Door.of(source, record_bytes=self.limits.record_bytes)

    def refresh(self) -> None:
        """Read the tokens. Raises StoreError."""
        if self.with_tokens:
            self._tokens = tokens(self.store)

    def door(self, name: str, token: Token | None) -> tuple[str, Door]:
        """The key of the source of this name, and its door. Raises HTTPException if the token may not write it."""
        source = self._names.get(name)
        if token is not None and (source is None or source.key not in token.sources):
            raise HTTPException(403, f"This token does not write a source {name!r}; check the name.", _CLOSE)
        if source is None:
            raise HTTPException(
                404, f"There is no single source {name!r}; check the name, or use <kind>/<name>.", _CLOSE
            )
        if source.key not in self._doors:
            raise HTTPException(
                415, f"{source.key} takes files, not events: only a source of `type: jsonl` in UTF-8 does.", _CLOSE
            )
        return source.key, self._doors[source.key]

    @property
    def oldest_seconds(self) -> float:
        """Seconds that the oldest event has waited to land, at most."""
        return max(self.keeper.backlog.oldest_seconds, self.committer.oldest_seconds)

    def token(self, authorization: str | None) -> Token | None:
        """The token of a request; None if the server takes requests without. Raises HTTPException."""
        if not self.with_tokens:
            return None
        token = bearer(self._tokens, authorization, now=self.now())
        if token is None:
            headers = {"WWW-Authenticate": "Bearer", **_CLOSE}
            raise HTTPException(401, "Send `Authorization: Bearer TOKEN` with a token that is valid.", headers)
        return token

    def spend(self, token: Token | None, records: int) -> None:
        """Count records against the rate of a token, which one request may exceed. Raises HTTPException."""
        if not self.limits.rate:
            return
        name, now = token.partner if token else "", time.monotonic()
        balance, since = self._spent.get(name, (self.limits.rate, now))
        balance = min(balance + (now - since) * self.limits.rate, self.limits.rate)
        if balance <= 0 and not records:
            wait = max(1, round(1 - balance / self.limits.rate))
            message = f"More than {self.limits.rate:,g} records a second; go on in {wait} s."
            raise HTTPException(429, message, {"Retry-After": str(wait), **_CLOSE})
        self._spent[name] = balance - records, now

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Count bytes of a request until it is answered. Raises HTTPException if all requests hold too many."""
        mine = 0

        def hold(size: int) -> None:
            nonlocal mine
            if self.held + size > self.limits.held_bytes:
                raise HTTPException(429, "Too much is under way; send it again.", {"Retry-After": "1", **_CLOSE})
            mine += size
            self.held += size

        try:
            yield hold
        finally:
            self.held -= mine

    async def body(self, request: Request, hold: Callable[[int], None], *, is_packed: bool) -> bytes:
        """The body, unpacked. Raises HTTPException if it is too large, too slow, or not as its headers say."""
        if "upgrade" in request.headers:
            # uvicorn passes the body over: the request would be acknowledged without its events.
            message = "The server takes no Upgrade; send the events by HTTP/1.1 alone, as curl does with --http1.1."
            raise HTTPException(400, message, _CLOSE)
        body = Body(self.limits, packed=is_packed)
        try:
            body.expect(int(request.headers.get("content-length") or 0))
            async with asyncio.timeout(self.limits.body_seconds):
                async for chunk in request.stream():
                    hold(body.take(chunk))
            return body.whole()
        except TooLargeError as error:
            raise HTTPException(413, str(error), _CLOSE) from None
        except BodyError as error:
            raise HTTPException(400, str(error), _CLOSE) from None
        except TimeoutError:
            raise HTTPException(408, f"The body took more than {self.limits.body_seconds:g} s.", _CLOSE) from None


def create_app(receiver: Receiver) -> FastAPI:
    """The ASGI application. Its lifespan reads tokens again and again; the caller starts and ends everything else."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        refreshing = asyncio.create_task(_refresh(receiver))
        yield
        refreshing.cancel()

    app = FastAPI(
        title="feed_assets receiver",
        summary="Takes events of partners, and answers once they are durable.",
        lifespan=lifespan,
        openapi_url="/openapi.json",
    )

    @app.post(
        "/v1/events/{source:path}",
        status_code=202,
        response_model=Answer,
        responses={code: {"model": Problem, "description": what} for code, what in REFUSALS.items()},
        openapi_extra={"parameters": PARAMETERS, "requestBody": BODY},
    )
    async def post_events(request: Request) -> Response:
        """Take events of a source: `<kind>/<name>`, or its name if no other kind has a source of this name.

        The body is a JSON array, one JSON object, or a JSON object a line (NDJSON), as it is or in gzip. Events may be
        of any time and in any order. All records are durable when the answer comes, also those that it rejects.
        """
        try:
            response = await _take(receiver, request)
        except HTTPException as refused:
            receiver.metrics.requests.labels(refused.status_code).inc()
            raise
        receiver.metrics.requests.labels(response.status_code).inc()
        return response

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the server runs."""
        return {"status": "ok"}

    @app.get("/ready", responses={503: {"description": "Something is wrong; the log has the details."}})
    async def ready() -> Response:
        """Whether the journal can be written, the lander is alive, and the backlog is small."""
        backlog, oldest = receiver.keeper.backlog, receiver.oldest_seconds
        state = {
            "journal_writable": not receiver.committer.failure,
            "lander_alive": backlog.lander_alive,
            "backlog_segments": backlog.segments,
            "backlog_seconds": round(oldest, 1),
            "backlog_problems": len(backlog.problems),
        }
        small = oldest <= receiver.limits.roll_seconds + receiver.limits.backlog_seconds and not backlog.problems
        good = state["journal_writable"] and backlog.lander_alive and small
        return _json(200 if good else 503, state)

    @app.get("/metrics")
    async def metrics() -> Response:
        """Figures for Prometheus."""
        shown = receiver.metrics
        shown.held.set(receiver.held)
        shown.backlog.set(receiver.keeper.backlog.segments)
        shown.oldest.set(receiver.oldest_seconds)
        return Response(generate_latest(shown.registry), media_type=CONTENT_TYPE_LATEST)

    return app


async def _take(receiver: Receiver, request: Request) -> Response:
    # FastAPI would take a fifth of a small request's time to read these as parameters.
    token = receiver.token(request.headers.get("authorization"))
    key, door = receiver.door(request.path_params["source"], token)
    idempotency_key = request.headers.get("idempotency-key")
    try:
        content = Content.of(request.scope["headers"])
    except UnsupportedError as error:
        raise HTTPException(415, str(error), _CLOSE) from None
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise HTTPException(400, "Idempotency-Key takes 1 to 255 visible characters of ASCII.", _CLOSE)
    receiver.spend(token, 0)
    with receiver.holding() as hold:
        try:
            body = await receiver.body(request, hold, is_packed=content.is_packed)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it; the metrics count it
        entry = _entry(receiver, key, door, body, content.media_type, token, idempotency_key)
        receiver.spend(token, entry.header.accepted + len(entry.header.rejected))
        del body
        try:
            first = await receiver.committer.commit(entry)
        except UnavailableError as error:
            _log.warning("Request %s was not acknowledged: %s", entry.header.request_id, error)
            message = "Nothing was taken: the journal cannot be written now. Send it again."
            raise HTTPException(503, message, {"Retry-After": "5"}) from None
    return _answer(receiver, entry.header, first)


def _entry(
    receiver: Receiver, source: str, door: Door, body: bytes, media_type: str, token: Token | None, key: str | None
) -> journal.Entry:
    """The entry that the journal keeps of a request."""
    try:
        records = split(body, media_type, most=receiver.limits.records)
        rejected = door.judge(records)
        require_an_object(records, rejected)
    except BodyError as error:
        raise HTTPException(400, str(error)) from None
    except TooLargeError as error:
        raise HTTPException(413, str(error)) from None
    request_id = f"{receiver.id}-{next(receiver.numbers)}"
    header = journal.Header(source, request_id, len(records) - len(rejected), rejected, at=datetime.now(UTC))
    if key is not None:
        partner = token.partner if token else ""
        scope = hashlib.sha256(f"{partner}\n{source}\n{key}".encode()).hexdigest()
        header = msgspec.structs.replace(header, key=scope, content=hashlib.sha256(body).hexdigest())
    records.append(b"")
    return journal.Entry(header, b"\n".join(records))


def _answer(receiver: Receiver, header: journal.Header, first: journal.Header) -> Response:
    """The answer to a request that repeats the first, or that is the first itself."""
    repeats = first is not header
    if first.content != header.content:
        message = "Idempotency-Key named another request before; give each request a key of its own."
        raise HTTPException(422, message)
    if repeats:
        receiver.metrics.repeats.inc()
    else:
        receiver.metrics.events.labels("accepted").inc(first.accepted)
        receiver.metrics.events.labels("rejected").inc(len(first.rejected))
    errors = [{"index": index, "reason": reason} for index, reason in first.rejected]
    answer = {"request_id": first.request_id, "accepted": first.accepted, "rejected": len(errors), "errors": errors}
    return _json(202, answer, {"Idempotency-Replayed": "true"} if repeats else {})


def _json(status: int, content: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Response:
    return Response(_encode(content), status, headers, media_type="application/json")


async def _refresh(receiver: Receiver) -> None:
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        try:
            await asyncio.to_thread(receiver.refresh)
        except StoreError as error:
            _log.error("Tokens stay as they were read last: %s", error)
