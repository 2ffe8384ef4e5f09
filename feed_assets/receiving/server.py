"""The receiver's HTTP API: events of partners in, an answer once they are durable.

Here: what each request may do and cost. Not here: what makes events durable (`committing`), and what every service has
(`serving`). The documentation of the API is at `/docs`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final
from uuid import uuid4

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from feed_assets.journal.segments import age
from feed_assets.receiving.committing import Committer, UnavailableError
from feed_assets.receiving.documentation import (
    ANSWERS,
    BODY,
    HOURS,
    METRICS_ANSWERS,
    PARAMETERS,
    STATUS_ANSWERS,
    Answer,
    RecordError,
)
from feed_assets.receiving.door import TYPES, Door, can_be_pushed, require_an_object, split
from feed_assets.receiving.entries import Entry, Header
from feed_assets.receiving.keeping import Keeper
from feed_assets.receiving.limits import Limits
from feed_assets.receiving.metrics import Metrics
from feed_assets.receiving.status import Status, status_of
from feed_assets.receiving.tables import received
from feed_assets.receiving.tallies import Key
from feed_assets.serving.answers import CLOSE, json_answer, retry_later
from feed_assets.serving.bodies import BodyError, BodyLimits, TooLargeError, read_body
from feed_assets.serving.content import Content, UnsupportedError
from feed_assets.serving.documents import Api, Operation
from feed_assets.serving.grants import grants
from feed_assets.serving.holding import HeldBytes
from feed_assets.serving.rate import Rate
from feed_assets.serving.service import Readiness, Service, application
from feed_assets.serving.signatures import BadSignatureError, Verifier
from feed_assets.serving.tables import Token
from feed_assets.serving.tokens import KnownTokens, unauthorized
from feed_assets.sources.spec import Source
from feed_assets.state.address import StoreError
from feed_assets.state.store import Store

_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
READ: Final = "read"
"""The grant of an operator's token: on `raw/<kind>`, as in the service of `feed-assets serve`."""
MOST_HOURS: Final = 7 * 24
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sender:
    """Who sent a request, and the source for which it is. If it says that it is signed, `verifier` must agree."""

    partner: str
    source: str
    door: Door
    verifier: Verifier | None = None


@dataclass(slots=True)
class Receiver:
    """The needs of the server, and the state of all its requests.

    A request's id is that of the receiver and a number: random ids would cost a call of the system each. `verifiers`
    has the check of signatures for each source with a field `push`, by its key.
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
    verifiers: Mapping[str, Verifier] = field(default_factory=dict)
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

    def sender(self, request: Request) -> _Sender:
        """Who may have sent a request. Raises HTTPException."""
        name, headers = request.path_params["source"], request.headers
        source = self._names.get(name)
        verifier = self.verifiers.get(source.key) if source else None
        if source and verifier and "authorization" not in headers and verifier.is_signed(headers):
            partner = (source.push.partner if source.push else None) or source.name
            return _Sender(partner, source.key, self._doors[source.key], verifier)
        token = self.token(headers.get("authorization"))
        return _Sender(token.owner if token else "", *self.door(name, token))

    def verify(self, sender: _Sender, request: Request, body: bytes) -> str:
        """The id that a signed request has, "" without one. Raises HTTPException, which does not say what is wrong."""
        if sender.verifier is None:
            return ""
        try:
            # The clock of the machine, also where FEED_ASSETS_AS_OF fixes another time: the service knows no other.
            return sender.verifier.verify(request.headers, body, now=datetime.now(UTC))
        except BadSignatureError as error:
            self.metrics.signatures.labels(error.refusal.value).inc()
            raise unauthorized() from None

    def visible(self, token: Token | None) -> list[str]:
        """The keys of the sources whose counts a token may see, of all partners; all sources without tokens."""
        if token is None:
            return sorted(self._doors)
        own = grants(token.scopes)
        return sorted(key for key in self._doors if any(each.covers(READ, f"raw/{_kind(key)}") for each in own))

    async def status(self, token: Token | None, hours: int) -> Status:
        """What became of the records of a partner, or of all partners for an operator. Raises HTTPException."""
        now = datetime.now(UTC)
        since, seen, held = now - timedelta(hours=hours), self.visible(token), self.committer.tallies.all()
        partner = None if token is None or seen else token.owner
        try:
            recorded = await asyncio.to_thread(received, self.store, after=since, partner=partner)
        except StoreError as error:
            _log.error("The status is not known: %s", error)
            raise retry_later(503, "The counts cannot be read now. Ask again.", 5) from None
        wanted: set[Key] = set()
        if partner is not None and token is not None:
            wanted = {(partner, key) for key in token.scopes if key in self._doors}
        else:
            sent = {(each.partner, each.source) for each in recorded} | {key for of in held.values() for key in of}
            wanted = {key for key in sent if key[1] in seen}
            wanted |= {("", key) for key in seen if all(key != source for _, source in wanted)}
        return status_of(recorded, held, wanted, since=since, now=now)

    def figures_of_sources(self) -> CollectorRegistry:
        """The figures of each source as they are now."""
        now, oldest = datetime.now(UTC), dict[str, datetime]()
        for of in self.committer.tallies.all().values():
            for (_, source), tally in of.items():
                oldest[source] = min(tally.first, oldest.get(source, tally.first))
        lags = {source: max(0.0, (now - first).total_seconds()) for source, first in oldest.items()}
        self.metrics.show_lag({key: lags.get(key, 0.0) for key in self._doors})
        return self.metrics.of_sources

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
    def pushed(self) -> Sequence[str]:
        """The keys of the sources that take events."""
        return sorted(self._doors)

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

    async def get_status(request: Request) -> Response:
        """What became of the records that were sent with a partner's token, or signed under the partner's name.

        For each source of the token: accepted and rejected records, those that went to quarantine later, those that
        wait, and when the last ones landed. The counts are of the last hours, of all receivers; those of another
        receiver come when its segment ends, a minute later. The token of an operator, with the grant `read`, sees all
        partners.
        """
        token = receiver.token(request.headers.get("authorization"))
        return json_answer(200, await receiver.status(token, _hours(request)))

    async def get_metrics(request: Request) -> Response:
        """Figures of each source for Prometheus, of this receiver since it started; for an operator's token.

        `feed-assets serve tokens add --name NAME --grant 'read:*'` makes one.
        """
        token = receiver.token(request.headers.get("authorization"))
        if token is not None and set(receiver.visible(token)) != set(receiver.pushed):
            raise HTTPException(403, "This token does not read the figures of all sources; ask for the grant read:*.")
        return Response(generate_latest(receiver.figures_of_sources()), media_type=CONTENT_TYPE_LATEST)

    operations = [
        Operation("POST", "/v1/events/{source:path}", post_events, ANSWERS, PARAMETERS, BODY),
        Operation("GET", "/v1/status", get_status, STATUS_ANSWERS, [PARAMETERS[1], HOURS]),
        Operation("GET", "/v1/metrics", get_metrics, METRICS_ANSWERS, [PARAMETERS[1]]),
    ]
    return application(
        Service(
            Api("feed_assets receiver", "Takes events of partners, and answers once they are durable.", operations),
            receiver.readiness,
            receiver.figures,
            [receiver.tokens.follow] if receiver.with_tokens else [],
        )
    )


def _hours(request: Request) -> int:
    """The hours for which counts are asked. Raises HTTPException."""
    text = request.query_params.get("hours", "24")
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= len(str(MOST_HOURS))) or not (
        1 <= int(text) <= MOST_HOURS
    ):
        raise HTTPException(400, f"`hours` takes a number from 1 to {MOST_HOURS}.")
    return int(text)


def _kind(source: str) -> str:
    return source.partition("/")[0]


async def _take(receiver: Receiver, request: Request) -> Response:
    sender = receiver.sender(request)
    idempotency_key = request.headers.get("idempotency-key")
    try:
        content = Content.of(request.scope["headers"], TYPES)
    except UnsupportedError as error:
        raise HTTPException(415, str(error), CLOSE) from None
    if sender.verifier and content.is_packed:
        raise HTTPException(415, "A signed body is not packed: send it without Content-Encoding.", CLOSE)
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise HTTPException(400, "Idempotency-Key takes 1 to 255 visible characters of ASCII.", CLOSE)
    receiver.require_rate(sender.partner)
    with receiver.held.of_a_request() as hold:
        try:
            body = await read_body(request, receiver.body_limits, hold, is_packed=content.is_packed)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it; the metrics count it
        signed_id = receiver.verify(sender, request, body)
        if sender.verifier and idempotency_key is None:
            idempotency_key = _key_of(signed_id, body)
        entry = _entry(receiver, sender, body, content.media_type, idempotency_key)
        receiver.rate.spend(sender.partner, entry.header.accepted + len(entry.header.rejected))
        del body
        try:
            first = await receiver.committer.commit(entry)
        except UnavailableError as error:
            _log.warning("Request %s was not acknowledged: %s", entry.header.request_id, error)
            message = "Nothing was taken: the journal cannot be written now. Send it again."
            raise retry_later(503, message, 5) from None
    return _answer(receiver, entry.header, first)


def _key_of(signed_id: str, body: bytes) -> str:
    """The Idempotency-Key of a signed request: the id of its event, else its body, which names the event."""
    return f"id {signed_id}" if signed_id else f"body {hashlib.sha256(body).hexdigest()}"


def _entry(receiver: Receiver, sender: _Sender, body: bytes, media_type: str, key: str | None) -> Entry:
    """The entry that the journal keeps of a request."""
    try:
        records = split(body, media_type, most=receiver.limits.records)
        rejected = sender.door.judge(records)
        require_an_object(records, rejected)
    except BodyError as error:
        raise HTTPException(400, str(error)) from None
    except TooLargeError as error:
        raise HTTPException(413, str(error)) from None
    request_id = f"{receiver.id}-{next(receiver.numbers)}"
    partner = sender.partner or msgspec.UNSET
    accepted = len(records) - len(rejected)
    header = Header(sender.source, request_id, accepted, rejected, at=datetime.now(UTC), partner=partner)
    if key is not None:
        scope = hashlib.sha256(f"{sender.partner}\n{sender.source}\n{key}".encode()).hexdigest()
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
        receiver.metrics.take(first)
    errors = [RecordError(index, reason) for index, reason in first.rejected]
    answer = Answer(first.request_id, first.accepted, len(errors), errors)
    return json_answer(202, answer, {"Idempotency-Replayed": "true"} if repeats else None)
