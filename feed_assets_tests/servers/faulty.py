"""The process of the proxy that injects faults: `python faulty.py PORT UPSTREAM_PORT SEED`. It needs no packages.

Here: passing requests of S3 on, and the faults. Not here: starting the process (see `fault_proxy`). Whether a fault
hits the request number N of one kind (method, path, query) depends on the seed, and not on timing. `PUT /-/faults` sets
the rates, `GET /-/faults` returns how often each fault was injected. The signature of a request covers its Host header,
so the header is passed on as it is.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

CONTROL: Final = "/-/faults"
LAG_SECONDS: Final = 3.0
SKEW: Final = timedelta(minutes=20)
CHUNK: Final = 64 * 1024
TRICKLE_PIECES: Final = 8
TRICKLE_SECONDS: Final = 0.01

BEFORE: Final = ("slow_down", "internal_error", "cut_before", "conflict")
LISTINGS: Final = ("repeated_keys", "lagging_listing", "torn_listing")
BODIES: Final = ("slow_body", "truncated_body")
KINDS: Final = (*BEFORE, "cut_after", *BODIES, *LISTINGS, "skewed_date")

_ANSWERS: Final = {
    "slow_down": (503, "Slow Down", "SlowDown"),
    "internal_error": (500, "Internal Server Error", "InternalError"),
    "conflict": (409, "Conflict", "ConditionalRequestConflict"),
}
END: Final = b"\r\n\r\n"
"""The end of a head."""
_ELEMENT = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)
_KEY = re.compile(rb"<Key>(.*?)</Key>", re.DOTALL)
_TIME = re.compile(rb"<LastModified>(.*?)</LastModified>")
_CUT = b"<IsTruncated>true</IsTruncated>"


class Cut(Exception):  # noqa: N818 - it is no error of the program
    """The connection ends here."""


@dataclass(frozen=True, slots=True)
class Message:
    """The head of a request or an answer, as bytes, and what it says."""

    first: str
    lines: tuple[bytes, ...]

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> Message:
        """The next head. Raises Cut at the end of the connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Cut from None
        first, *lines = head[:-4].split(b"\r\n")
        return cls(first.decode("latin-1"), tuple(lines))

    def header(self, name: str) -> str:
        """The value of a header, "" without it."""
        start = name.lower().encode() + b":"
        found = (line for line in self.lines if line.lower().startswith(start))
        return next(found, b":").partition(b":")[2].strip().decode("latin-1")

    def without(self, *names: str) -> Message:
        """The head without these headers."""
        starts = tuple(name.lower().encode() + b":" for name in names)
        return Message(self.first, tuple(line for line in self.lines if not line.lower().startswith(starts)))

    def adding(self, name: str, value: str) -> Message:
        """The head with this header instead of the one that is there."""
        return Message(self.first, (*self.without(name).lines, f"{name}: {value}".encode("latin-1")))

    def to_bytes(self) -> bytes:
        """The head as it is sent."""
        return b"\r\n".join((self.first.encode("latin-1"), *self.lines, b"", b""))


class Faults:
    """The rates of the faults, and what is remembered of earlier requests."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.set({})

    def set(self, rates: dict[str, float]) -> None:
        """Set the rate of each kind, 0 if it is not named, and forget all earlier requests."""
        self.rates = rates
        self.injected: Counter[str] = Counter()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._pages: dict[str, deque[tuple[float, bytes]]] = {}
        self._last: dict[str, bytes] = {}

    def hits(self, kind: str, request: str) -> bool:
        """Whether this fault hits the next request of this kind."""
        rate = self.rates.get(kind, 0)
        if not rate:
            return False
        number = self._asked[kind, request]
        self._asked[kind, request] += 1
        digest = hashlib.sha256(f"{self.seed} {kind} {request} {number}".encode()).digest()
        if int.from_bytes(digest[:8]) >= rate * 2**64:
            return False
        self.injected[kind] += 1
        return True

    def listing(self, request: str, place: str, after: str, body: bytes) -> bytes:
        """The answer to a listing, spoiled or not. `place` is bucket and prefix, `after` where the listing starts."""
        now, before = time.monotonic(), self._last.get(place, b"")
        pages = self._pages.setdefault(request, deque())
        while pages and pages[0][0] < now - LAG_SECONDS:
            pages.popleft()
        shown = body
        late = self.hits("lagging_listing", request)
        if not late and _CUT in before:
            late = self.hits("torn_listing", request)
        if late:
            shown = pages[0][1] if pages else _without_newest(body)
        if after and self.hits("repeated_keys", request):
            shown = _repeating(shown, before, after)
        if any(self.rates.get(kind) for kind in LISTINGS):
            pages.append((now, body))
            self._last[place] = body
        return shown


def _without_newest(body: bytes) -> bytes:
    limit = datetime.now(UTC) - timedelta(seconds=LAG_SECONDS)

    def kept(element: re.Match[bytes]) -> bytes:
        found = _TIME.search(element[0])
        new = found is not None and datetime.fromisoformat(found[1].decode()) > limit
        return b"" if new else element[0]

    return _ELEMENT.sub(kept, body)


def _repeating(body: bytes, before: bytes, after: str) -> bytes:
    """The listing that begins with the last key of the listing before it, although it should start after that key."""
    earlier = [each for each in _ELEMENT.findall(before) if unquote(_KEY.findall(each)[0].decode()) <= after]
    end = b"</ListBucketResult>"
    first = body.find(b"<Contents>")
    place = first if first >= 0 else body.rindex(end)
    return body[:place] + b"".join(earlier[-1:]) + body[place:]


class Proxy:
    """The connections of the clients; each has a connection of its own to the server."""

    def __init__(self, upstream: int, faults: Faults) -> None:
        self._upstream = upstream
        self._faults = faults

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection."""
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while True:
                request = await Message.read(reader)
                if request.header("Expect"):
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = b"".join([piece async for piece in _pieces(reader, request, raw=True)])
                if urlsplit(request.first.split()[1]).path == CONTROL:
                    writer.write(self._control(request, body))
                    continue
                if server is None:
                    server = await asyncio.open_connection("127.0.0.1", self._upstream, limit=CHUNK)
                await self._pass_on(request, body, server, writer)
                await writer.drain()
        except (Cut, ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            writer.close()
            if server is not None:
                server[1].close()

    def _control(self, request: Message, body: bytes) -> bytes:
        if request.first.startswith("PUT"):
            self._faults.set(json.loads(body))
        answer = json.dumps(self._faults.injected).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer)

    async def _pass_on(
        self,
        request: Message,
        body: bytes,
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        writer: asyncio.StreamWriter,
    ) -> None:
        method, target, _ = request.first.split()
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        kind = f"{method} {parts.path} {sorted(query.items())}"
        conditional = bool(request.header("If-None-Match") or request.header("If-Match")) and method in {"PUT", "POST"}
        if refusal := self._refusal(kind, conditional=conditional):
            # The answer to HEAD has no body: a client would take it for the begin of the next answer.
            writer.write(refusal.partition(END)[0] + END if method == "HEAD" else refusal)
            return
        answer = await self._answer(kind, method, request, body, server)
        status = int(answer.first.split()[1])
        if method == "GET" and "list-type" in query and status == 200:
            listed = b"".join([piece async for piece in _answered(server[0], method, answer)])
            after = query.get("start-after") or query.get("continuation-token", "")
            listed = self._faults.listing(kind, f"{parts.path} {query.get('prefix', '')}", after, listed)
            whole = answer.without("Transfer-Encoding").adding("Content-Length", str(len(listed))).to_bytes() + listed
            await (_trickle if self._faults.hits("slow_body", kind) else _send)(writer, whole)
        elif method == "GET" and status in {200, 206}:
            await self._object(kind, answer, server[0], writer)
        else:
            raw = _pieces(server[0], answer, raw=True, empty=method == "HEAD" or status in {204, 304})
            await _send(writer, answer.to_bytes() + b"".join([piece async for piece in raw]))
        if "close" in (request.header("Connection").lower(), answer.header("Connection").lower()):
            raise Cut

    def _refusal(self, kind: str, *, conditional: bool) -> bytes:
        """The answer of a server that did not act, if such a fault hits. Raises Cut."""
        for fault in BEFORE:
            if (fault != "conflict" or conditional) and self._faults.hits(fault, kind):
                if fault == "cut_before":
                    raise Cut
                return _refusal(fault)
        return b""

    async def _answer(
        self,
        kind: str,
        method: str,
        request: Message,
        body: bytes,
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> Message:
        """The head of the server's answer. Raises Cut if the client must not learn of it."""
        server[1].write(request.without("Expect").to_bytes() + body)
        await server[1].drain()
        answer = await Message.read(server[0])
        while answer.first.split()[1] == "100":
            answer = await Message.read(server[0])
        if self._faults.hits("cut_after", kind):
            async for _ in _answered(server[0], method, answer):
                pass
            raise Cut
        if self._faults.hits("skewed_date", kind):
            answer = answer.adding("Date", format_datetime(_date(answer) + SKEW, usegmt=True))
        return answer

    async def _object(
        self, kind: str, answer: Message, server: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        slow = self._faults.hits("slow_body", kind)
        size = int(answer.header("Content-Length") or 0)
        cut_at = size // 2 if size and self._faults.hits("truncated_body", kind) else None
        writer.write(answer.to_bytes())
        sent = 0
        async for piece in _pieces(server, answer, raw=True):
            if cut_at is not None and sent + len(piece) > cut_at:
                writer.write(piece[: cut_at - sent])
                await writer.drain()
                # An orderly end: what was sent arrives.
                writer.write_eof()
                await asyncio.sleep(0.05)
                raise Cut
            sent += len(piece)
            await (_trickle if slow else _send)(writer, piece)


def _refusal(fault: str) -> bytes:
    status, reason, code = _ANSWERS[fault]
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _date(answer: Message) -> datetime:
    stated = answer.header("Date")
    return parsedate_to_datetime(stated) if stated else datetime.now(UTC)


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def _trickle(writer: asyncio.StreamWriter, data: bytes) -> None:
    step = -(-len(data) // TRICKLE_PIECES) or 1
    for start in range(0, len(data), step):
        writer.write(data[start : start + step])
        await writer.drain()
        await asyncio.sleep(TRICKLE_SECONDS)


def _answered(server: asyncio.StreamReader, method: str, answer: Message) -> AsyncIterator[bytes]:
    """The body of an answer, without the marks of its chunks."""
    return _pieces(server, answer, raw=False, empty=method == "HEAD" or answer.first.split()[1] in {"204", "304"})


async def _pieces(
    reader: asyncio.StreamReader, head: Message, *, raw: bool, empty: bool = False
) -> AsyncIterator[bytes]:
    """The body that follows a head, piece by piece; `raw` with the marks of its chunks."""
    if empty:
        return
    if "chunked" in head.header("Transfer-Encoding").lower():
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            data = await reader.readexactly(size) if size else b""
            end = await reader.readuntil(b"\r\n")
            while not size and end != b"\r\n":
                line += end  # a trailer
                end = await reader.readuntil(b"\r\n")
            yield line + data + end if raw else data
            if not size:
                return
    left = int(head.header("Content-Length") or 0)
    while left:
        piece = await reader.read(min(left, CHUNK))
        if not piece:
            raise Cut
        left -= len(piece)
        yield piece


async def main(port: int, upstream: int, seed: str) -> None:
    """Serve until the process ends."""
    server = await asyncio.start_server(Proxy(upstream, Faults(seed)).serve, "127.0.0.1", port, limit=CHUNK)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
