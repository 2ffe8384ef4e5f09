"""The judge's process: HTTP/1.1 on 127.0.0.1, the API at `POST /`, and the control interface below `/judge`.

Here: connections, the order of a request's checks, injected faults, and the account. Not here: the API's operations.

| Control | Content | Does |
|---|---|---|
| `GET /judge/ready` | | answers `{}` |
| `POST /judge/faults` | `{"seed": 0, "rules": [Rule, ...]}` | replaces all faults, see `faults` |
| `POST /judge/settings` | fields of `limits.Settings` | changes these |
| `POST /judge/credentials` | `signatures.Credentials` | knows these, too |
| `POST /judge/event` | `{"stream", "operation", "parameters", "after_records" or "after_seconds"}` | runs it then |
| `POST /judge/trim` | `{"stream", "keep"}` | trims all but the last `keep` records of each shard |
| `POST /judge/advance` | `{"seconds"}` | moves the judge's clock forward: records, iterators, credentials age |
| `POST /judge/stop_clock` | | from now on only `advance` moves the judge's clock |
| `POST /judge/outage` | `{"seconds"}` | cuts all connections, and refuses new ones for a time |
| `GET /judge/account` | | `account.Account` |

Control needs no signature.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httptools
import msgspec
import uvloop

from feed_assets_tests.delivery.judge.account import (
    KEPT,
    Account,
    Second,
    ShardAccount,
    Unanswered,
    Violation,
)
from feed_assets_tests.delivery.judge.faults import AFTER, MESSAGES, Decision, Faults, Rule
from feed_assets_tests.delivery.judge.limits import SECOND, Settings
from feed_assets_tests.delivery.judge.log import LogWriter
from feed_assets_tests.delivery.judge.operations import Kinesis
from feed_assets_tests.delivery.judge.refusals import RefusedError
from feed_assets_tests.delivery.judge.signatures import Credentials, Known
from feed_assets_tests.delivery.judge.streams import Event, Outcome

TARGET: Final = "Kinesis_20131202."
_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}


class Clock:
    """Nanoseconds since 1970 that never decrease, and that a test can stop and move forward."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()
        self._stopped: int | None = None

    def now(self) -> int:
        """The time."""
        if self._stopped is not None:
            return self._stopped
        return time.monotonic_ns() + self._offset

    def advance(self, seconds: float) -> None:
        """Let time pass at once."""
        if self._stopped is not None:
            self._stopped += round(seconds * SECOND)
        else:
            self._offset += round(seconds * SECOND)

    def stop(self) -> None:
        """From now on only `advance` lets time pass."""
        self._stopped = self.now()


class FaultsSet(msgspec.Struct, forbid_unknown_fields=True):
    """The content of `POST /judge/faults`."""

    rules: list[Rule]
    seed: int = 0


class EventSet(msgspec.Struct, forbid_unknown_fields=True):
    """The content of `POST /judge/event`."""

    stream: str
    operation: str
    parameters: dict[str, Any]
    after_records: int | None = None
    after_seconds: float | None = None


class Judge:
    """All that the connections share."""

    def __init__(self, port: int, log: Path, credentials: Credentials) -> None:
        self.port = port
        self.clock = Clock()
        self.faults = Faults()
        self.settings = Settings()
        self.known = Known()
        self.known.add(credentials, self.clock.now() / SECOND)
        self.kinesis = Kinesis(LogWriter(log), self.settings, self._after)
        self.connections: set[Connection] = set()
        self.requests: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.record_errors: Counter[str] = Counter()
        self.violations = 0
        self.described: list[Violation] = []
        self.unanswered = Unanswered()
        self.gone = Unanswered()
        self.injected: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._waiting: set[asyncio.TimerHandle] = set()

    async def listen(self) -> None:
        """Begin to take connections."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", self.port, backlog=512)

    def _after(self, seconds: float, call: Callable[[int], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, lambda: call(self.clock.now()))

    # Requests

    def admit(self, method: bytes, path: str, headers: dict[str, str], body: bytes) -> str:
        """The operation of a request whose signature is right. Raises RefusedError."""
        if method != b"POST" or path != "/":
            raise RefusedError("UnknownOperationException", f"There is nothing at {path}.", status=404)
        target = headers.get("x-amz-target", "")
        operation = target.removeprefix(TARGET)
        self.requests[operation] += 1
        if operation == target:
            raise RefusedError("UnknownOperationException", f"There is no operation {target!r}.", violation=True)
        if headers.get("content-type", "").partition(";")[0].strip() != "application/x-amz-json-1.1":
            raise RefusedError("UnknownOperationException", "The judge takes application/x-amz-json-1.1 only.")
        self.known.check(headers, body, self.clock.now() / SECOND)
        return operation

    def act(self, operation: str, body: bytes, decision: Decision | None) -> tuple[bytes, Outcome | None]:
        """Do what is asked. Raises RefusedError; then nothing was done."""
        now = self.clock.now()
        failing = decision.records if decision else []
        unanswered = bool(decision and decision.rule and decision.rule.fault in AFTER)
        if operation == "PutRecords":
            answer, outcome = self.kinesis.put_records(body, now, failing, unanswered=unanswered)
        elif operation == "PutRecord":
            answer, outcome = self.kinesis.put_record(body, now, unanswered=unanswered)
        else:
            return self.kinesis.run(operation, body, now), None
        for code, _ in outcome.failures:
            self.record_errors[code] += 1
        if outcome.unanswered:
            self.unanswered.requests += 1
            self.unanswered.records += outcome.unanswered
        return answer, outcome

    def refused(self, operation: str, error: RefusedError) -> None:
        """Count a refusal."""
        self.errors[error.kind] += 1
        if error.violation:
            self.violations += 1
            if len(self.described) < KEPT:
                at = self.clock.now() / SECOND
                self.described.append(Violation(operation, error.kind, error.message[:500], at))

    # Control

    def control(self, path: str, body: bytes) -> Any:
        """The answer of the control interface. Raises RefusedError."""
        actions: dict[str, Callable[[bytes], Any]] = {
            "ready": lambda _: {},
            "faults": self._set_faults,
            "settings": self._set_settings,
            "credentials": self._add_credentials,
            "event": self._add_event,
            "trim": lambda given: self.kinesis.trim(**msgspec.json.decode(given)),
            "advance": lambda given: self.clock.advance(**msgspec.json.decode(given)),
            "stop_clock": lambda _: self.clock.stop(),
            "outage": lambda given: self._begin_outage(**msgspec.json.decode(given)),
            "account": lambda _: self.account(),
        }
        action = actions.get(path.removeprefix("/judge/"))
        if action is None:
            raise RefusedError("NotFound", f"The judge has no {path}. It has: {', '.join(actions)}.", status=404)
        try:
            return action(body)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise RefusedError("BadControl", f"{path}: {error}") from None

    def _set_faults(self, body: bytes) -> None:
        given = msgspec.json.decode(body, type=FaultsSet)
        self._count_faults()
        self.faults.set(given.rules, given.seed, self.clock.now() / SECOND)

    def _set_settings(self, body: bytes) -> None:
        given = msgspec.json.decode(body)
        changed = msgspec.convert(msgspec.to_builtins(self.settings) | given, Settings)
        for name in given:
            setattr(self.settings, name, getattr(changed, name))

    def _add_credentials(self, body: bytes) -> None:
        self.known.add(msgspec.json.decode(body, type=Credentials), self.clock.now() / SECOND)

    def _add_event(self, body: bytes) -> None:
        given = msgspec.json.decode(body, type=EventSet)
        if given.after_records is not None:
            self.kinesis.add_event(given.stream, Event(given.after_records, given.operation, given.parameters))
        elif given.after_seconds is not None:
            self._after(given.after_seconds, lambda now: self.kinesis.force(given.operation, given.parameters, now))
        else:
            raise ValueError("an event needs after_records or after_seconds")

    def _begin_outage(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()

        def begin() -> None:
            assert self._server is not None
            self._server.close()
            for connection in list(self.connections):
                connection.cut()
            loop.call_later(seconds, lambda: loop.create_task(self.listen()))

        loop.call_later(0.01, begin)  # after the answer to this call

    def _count_faults(self) -> None:
        for live in self.faults.rules:
            self.injected[live.rule.fault] += live.hits
            live.hits = 0

    def account(self) -> Account:
        """All counts until now."""
        faults = Counter(self.injected)
        for live in self.faults.rules:
            faults[live.rule.fault] += live.hits
        shards = {
            stream.name: {
                shard.id: ShardAccount(
                    Second(*(sum(column) for column in zip(*shard.seconds.values(), strict=True))),
                    {second: Second(*counts) for second, counts in shard.seconds.items()},
                )
                for shard in stream.shards
            }
            for stream in self.kinesis.made
        }
        return Account(
            dict(self.requests),
            dict(self.errors),
            dict(self.record_errors),
            {fault: hits for fault, hits in faults.items() if hits},
            self.violations,
            self.described,
            self.unanswered,
            self.gone,
            shards,
        )


class Connection(asyncio.Protocol):
    """One connection of a client, which sends one request after the other."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._busy = False
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        self._judge.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Called by asyncio."""
        del error
        self._judge.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        if self._busy:
            self._early.append(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:  # a mistake in the judge, which a test must see
            traceback.print_exc()
            self._judge.errors["a mistake in the judge"] += 1
            self._answer(500, RefusedError("JudgeFailure", traceback.format_exc()).body())
            self._transport.close()
        except httptools.HttpParserError as error:
            self._judge.refused("?", RefusedError("SerializationException", str(error), violation=True))
            self._answer(400, RefusedError("SerializationException", str(error)).body())
            self._transport.close()

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self._url, self._headers, self._body = b"", {}, []

    def on_url(self, url: bytes) -> None:
        """Called by the parser."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        if self._headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        path, body = self._url.decode("latin-1"), b"".join(self._body)
        self._body = []
        if path.startswith("/judge/"):
            self._control(path, body)
            return
        operation = "?"
        try:
            operation = self._judge.admit(self._parser.get_method(), path, self._headers, body)
        except RefusedError as error:
            self._refuse(operation, error)
            return
        decision = self._judge.faults.decide(operation, self._judge.clock.now() / SECOND)
        if decision is None:
            self._act(operation, body, None)
        elif decision.delay_before:
            self._later(decision.delay_before, lambda: self._act(operation, body, decision))
        else:
            self._act(operation, body, decision)

    def cut(self) -> None:
        """Cut the connection without another byte."""
        self._transport.abort()

    def _control(self, path: str, body: bytes) -> None:
        try:
            self._answer(200, msgspec.json.encode(self._judge.control(path, body)))
        except RefusedError as error:
            self._answer(error.status, error.body())

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        """Wait, and begin no other request meanwhile. It is noticed if the client leaves."""
        self._busy = True

        def go_on() -> None:
            self._busy = False
            call()
            if not self._busy and (early := b"".join(self._early)):
                self._early.clear()
                self.data_received(early)

        asyncio.get_running_loop().call_later(seconds, go_on)

    def _act(self, operation: str, body: bytes, decision: Decision | None) -> None:
        rule = decision.rule if decision else None
        if rule is not None and rule.fault == "cut_before":
            self.cut()
            return
        if rule is not None and rule.fault == "error_before":
            self._fail(rule)
            return
        try:
            answer, outcome = self._judge.act(operation, body, decision)
        except RefusedError as error:
            self._refuse(operation, error)
            return
        if decision is not None and decision.delay_after:
            self._later(decision.delay_after, lambda: self._finish(rule, answer, outcome))
        else:
            self._finish(rule, answer, outcome)

    def _finish(self, rule: Rule | None, answer: bytes, outcome: Outcome | None) -> None:
        if rule is not None and rule.fault == "error_after":
            self._fail(rule)
        elif rule is not None and rule.fault == "cut_within":
            whole = _response(200, answer)
            self._transport.write(whole[: len(whole) // 2 if answer else 20])
            self._transport.close()
        elif rule is not None:
            self.cut()
        else:
            if self._transport.is_closing() and outcome is not None:
                self._judge.gone.requests += 1
                self._judge.gone.records += outcome.stored
            self._answer(200, answer)

    def _fail(self, rule: Rule) -> None:
        self._judge.errors[rule.error] += 1
        self._answer(rule.status, RefusedError(rule.error, MESSAGES.get(rule.error, "An injected error.")).body())

    def _refuse(self, operation: str, error: RefusedError) -> None:
        self._judge.refused(operation, error)
        self._answer(error.status, error.body())

    def _answer(self, status: int, body: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(_response(status, body))
            if not self._parser.should_keep_alive():
                self._transport.close()


def _response(status: int, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}\r\n"
        f"x-amzn-RequestId: {uuid4()}\r\n"
        "Content-Type: application/x-amz-json-1.1\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def run(port: int, log: Path, credentials: Credentials) -> None:
    """Serve until the process ends."""

    async def serve() -> None:
        await Judge(port, log, credentials).listen()
        print(f"The judge listens on 127.0.0.1:{port}.", file=sys.stderr, flush=True)
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
