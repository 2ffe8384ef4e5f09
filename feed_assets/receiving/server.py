"""The receiver's HTTP API: events of partners in, an answer once they are durable.

Here: what each request may do and cost. Not here: what makes events durable (`committing`), and what every service has
(`serving`). The documentation of the API is at `/docs`.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Final
from uuid import uuid4

import msgspec
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from feed_assets.journal.segments import age
from feed_assets.receiving.committing import Committer, UnavailableError
from feed_assets.receiving.documentation import ANSWERS, BODY, PARAMETERS, Answer, RecordError
from feed_assets.receiving.door import TYPES, Door, can_be_pushed, require_an_object, split
from feed_assets.receiving.entries import Entry, Header
from feed_assets.receiving.keeping import Keeper
from feed_assets.receiving.limits import Limits
from feed_assets.receiving.metrics import Metrics
from feed_assets.serving.answers import CLOSE, json_answer, retry_later
from feed_assets.serving.bodies import BodyError, BodyLimits, TooLargeError, read_body
from feed_assets.serving.content import Content, UnsupportedError
from feed_assets.serving.documents import Api, Operation
from feed_assets.serving.holding import HeldBytes
from feed_assets.serving.rate import Rate
from feed_assets.serving.service import Readiness, Service, application
from feed_assets.serving.tables import Token
from feed_assets.serving.tokens import KnownTokens
from feed_assets.sources.spec import Source
from feed_assets.state.store import Store

_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_log = logging.getLogger(__name__)


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
    id: str = field(default_factory=lambda: uuid4().hex)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    tokens: KnownTokens = field(init=False)
    rate: Rate = field(init=False)
    held: HeldBytes = field(init=False)
    body_limits: BodyLimits = field(init=False)
    _names: dict[str, Source] = field(default_factory=dict)
    _doors: dict[str, Door] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limits = self.limits
        self.tokens, self.rate, self.held = KnownTokens(self.store), Rate(limits.rate), HeldBytes(limits.held_bytes)
        self.body_limits = BodyLimits(limits.body_bytes, limits.unpacked_bytes, limits.body_seconds)
        short = [source.name for source in self.sources]
        self._names = {source.name: source for source in self.sources if short.count(source.name) == 1}
        self._names |= {source.key: source for source in self.sources}
        for source in filter(can_be_pushed, self.sources):
            self._doors[source.key] = Door.of(source, record_bytes=limits.record_bytes)

    def refresh(self) -> None:
        """Read the tokens. Raises StoreError."""
        if self.with_tokens:
            self.tokens.refresh()

    def door(self, name: str, token: Token | None) -> tuple[str, Door]:
        """The key of the source of this name, and its door. Raises HTTPException if the token may not write it."""
        source = self._names.get(name)
        if token is not None and (source is None or source.key not in token.scopes):
            raise HTTPException(403, f"This token does not write a source {name!r}; check the name.", CLOSE)
        if source is None:
            raise HTTPException(
                404, f"There is no single source {name!r}; check the name, or use <kind>/<name>.", CLOSE
            )
        if source.problems:
            # A client gives up after 404 or 415, and its events would be lost.
            raise retry_later(503, f"{source.key} is stopped until its description is corrected; send it again.", 60)
        if source.key not in self._doors:
            raise HTTPException(
                415, f"{source.key} takes files, not events: only a source of `type: jsonl` in UTF-8 does.", CLOSE
            )
        return source.key, self._doors[source.key]

    @property
    def oldest_seconds(self) -> float:
        """Seconds that the oldest event has waited to land, at most."""
        return max(self.keeper.backlog.oldest_seconds, self.committer.oldest_seconds)

    def token(self, authorization: str | None) -> Token | None:
        """The token of a request; None if the server takes requests without. Raises HTTPException."""
        return self.tokens.required(authorization, now=self.now()) if self.with_tokens else None

    def require_rate(self, partner: str) -> None:
        """Raise HTTPException if a partner has sent more records than it may."""
        if (wait := self.rate.wait(partner)) is not None:
            seconds = max(1, round(1 + wait))
            message = f"More than {self.limits.rate:,g} records a second; go on in {seconds} s."
            raise retry_later(429, message, seconds, CLOSE)

    def readiness(self) -> Readiness:
        """Whether the journal can be written, the lander is alive, and the backlog is small.

        A source that does not land while others can is in `stuck_sources`, with the seconds that its oldest event has
        waited, at most. Its events are taken and kept, and the receiver is ready for all.
        """
        backlog, oldest = self.keeper.backlog, self.oldest_seconds
        state = {
            "journal_writable": not self.committer.failure,
            "lander_alive": backlog.lander_alive,
            "backlog_segments": backlog.segments,
            "backlog_seconds": round(oldest, 1),
            "backlog_problems": len(backlog.problems),
            "stuck_sources": {source: round(age(segment), 1) for source, segment in backlog.stuck.items()},
        }
        moving = max(backlog.moving_seconds, self.committer.oldest_seconds)
        small = moving <= self.limits.roll_seconds + self.limits.backlog_seconds and not backlog.general
        return Readiness(not self.committer.failure and backlog.lander_alive and small, state)

    def figures(self) -> CollectorRegistry:
        """The figures as they are now."""
        shown = self.metrics
        shown.held.set(self.held.total)
        shown.backlog.set(self.keeper.backlog.segments)
        shown.stuck.set(self.keeper.backlog.stuck_segments)
        shown.oldest.set(self.oldest_seconds)
        return shown.registry


def create_app(receiver: Receiver) -> Starlette:
    """The ASGI application. Its lifespan looks for changed tokens; the caller starts and ends everything else."""

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

    post = Operation("POST", "/v1/events/{source:path}", post_events, ANSWERS, PARAMETERS, BODY)
    return application(
        Service(
            Api("feed_assets receiver", "Takes events of partners, and answers once they are durable.", [post]),
            receiver.readiness,
            receiver.figures,
            [receiver.tokens.follow] if receiver.with_tokens else [],
        )
    )


async def _take(receiver: Receiver, request: Request) -> Response:
    token = receiver.token(request.headers.get("authorization"))
    key, door = receiver.door(request.path_params["source"], token)
    idempotency_key = request.headers.get("idempotency-key")
    try:
        content = Content.of(request.scope["headers"], TYPES)
    except UnsupportedError as error:
        raise HTTPException(415, str(error), CLOSE) from None
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise HTTPException(400, "Idempotency-Key takes 1 to 255 visible characters of ASCII.", CLOSE)
    partner = token.owner if token else ""
    receiver.require_rate(partner)
    with receiver.held.of_a_request() as hold:
        try:
            body = await read_body(request, receiver.body_limits, hold, is_packed=content.is_packed)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it; the metrics count it
        entry = _entry(receiver, key, door, body, content.media_type, partner, idempotency_key)
        receiver.rate.spend(partner, entry.header.accepted + len(entry.header.rejected))
        del body
        try:
            first = await receiver.committer.commit(entry)
        except UnavailableError as error:
            _log.warning("Request %s was not acknowledged: %s", entry.header.request_id, error)
            message = "Nothing was taken: the journal cannot be written now. Send it again."
            raise retry_later(503, message, 5) from None
    return _answer(receiver, entry.header, first)


def _entry(
    receiver: Receiver, source: str, door: Door, body: bytes, media_type: str, partner: str, key: str | None
) -> Entry:
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
    header = Header(source, request_id, len(records) - len(rejected), rejected, at=datetime.now(UTC))
    if key is not None:
        scope = hashlib.sha256(f"{partner}\n{source}\n{key}".encode()).hexdigest()
        header = msgspec.structs.replace(header, key=scope, content=hashlib.sha256(body).hexdigest())
    records.append(b"")
    return Entry(header, b"\n".join(records))


def _answer(receiver: Receiver, header: Header, first: Header) -> Response:
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
    errors = [RecordError(index, reason) for index, reason in first.rejected]
    answer = Answer(first.request_id, first.accepted, len(errors), errors)
    return json_answer(202, answer, {"Idempotency-Replayed": "true"} if repeats else None)
