"""What a connection may cost before the server knows whose it is: uvicorn itself has no limit for that.

Here: the time and the size of a request's head, requests that come before the one before them is answered, connections
beyond the limit, and the files that a process may open. Not here: the body and everything after it (`bodies`), to which
tokens and other limits apply.
"""

from __future__ import annotations

import asyncio
import json
import resource
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, Final, cast
from weakref import WeakSet

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REFUSED: Final = 100
"""How many connections beyond the limit still get an answer, 503. Others are cut at once."""
READ_BYTES: Final = 16 * 1024
"""The most bytes that a connection reads at a time, so the most that wait for an answer. uvloop would read 256 kB."""
_HTTP_2: Final = b"PRI"
"""The method with which a client begins that speaks HTTP/2 without asking first."""
_END: Final = b"\r\n\r\n"
"""The parser ends a head, and a body in chunks, only with these bytes."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a connection may cost.

    `seconds` are those of a head, and those in which a client reads an answer. A head is the request's first line and
    its headers. A body in chunks may have `head_bytes` between two bytes of its content.
    """

    seconds: float = 30.0
    connections: int = 1_000
    head_bytes: int = 16 * 1024
    headers: int = 100


class _LargeHeadError(Exception):
    """A head exceeds a limit; the message says which."""


class Connection(HttpToolsProtocol):
    """Answers one request after the other, and reads no more than a part of the next one meanwhile.

    Cuts a client whose head takes too long or has no end, and one that does not read its answers.
    """

    of: ClassVar[ConnectionLimits]
    deadline: asyncio.TimerHandle | None = None
    is_in_head = True
    """Whether the next bytes belong to a head."""
    unparsed = b""
    start = 0
    """Where the bytes begin that were read and not parsed, in `unparsed`."""
    size = 0
    """How many bytes were parsed since the request before, or since a byte of the body."""
    body_left = 0
    """The bytes that a body of a known length has still."""
    is_held = False
    """Whether reading waits for the answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head. Cut the connection if there are too many."""
        super().connection_made(cast("asyncio.Transport", transport))
        if len(self.connections) > self.of.connections + REFUSED:
            self.transport.abort()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, and forget what was read."""
        super().connection_lost(exc)
        self._stop_waiting()
        self.unparsed, self.start = b"", 0

    def data_received(self, data: bytes) -> None:
        """Parse the data, or keep it until the request before it is answered."""
        self.unparsed, self.start = self.unparsed[self.start :] + data, 0
        self._parse()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header of a head; drop the headers that may follow a body in chunks."""
        if not self.is_in_head:
            return
        if len(self.headers) == self.of.headers:
            raise _LargeHeadError(f"The request has more than {self.of.headers:,} headers; send fewer.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: stop the timer, unless the client has answers left to read."""
        self.is_in_head, self.size = False, 0
        self.body_left = next((int(value) for name, value in self.headers if name == b"content-length"), 0)
        if not self.flow.write_paused:
            self._stop_waiting()
        super().on_headers_complete()
        if self.parser.should_upgrade():
            # The parser leaves the body to the other protocol, of which there is none: its bytes are no next request.
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self.body_left = max(0, self.body_left - len(body))
        self.size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete: the next bytes belong to the next head."""
        super().on_message_complete()
        self.is_in_head, self.size, self.body_left = True, 0, 0

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for it."""
        super().on_response_complete()
        self._wait()
        self._parse()

    def pause_writing(self) -> None:
        """Too much of an answer is unread: wait until the client reads."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """The client has read enough: wait for its next head, or let its request take its time."""
        super().resume_writing()
        if self.cycle.response_complete:
            self._wait()
        else:
            self._stop_waiting()

    def _parse(self) -> None:
        """Parse the bytes that were read, up to the end of a request. Later bytes wait until the request is answered.

        uvicorn would parse it all, which takes a hundred times its size, and read more after each answer.
        """
        while not self._is_busy() and (part := self._next_part()):
            self._feed(part)
        if self.transport.is_closing():
            return
        is_held = self._is_busy() and self.start < len(self.unparsed)
        if is_held != self.is_held:
            self.is_held = is_held
            # Not by `flow` alone, which reads again when the application asks for the body.
            self.flow.resume_reading()
            (self.transport.pause_reading if is_held else self.transport.resume_reading)()

    def _is_busy(self) -> bool:
        """Whether a whole request waits for its answer, or the connection ends."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return self.transport.is_closing() or (self.is_in_head and not is_answered)

    def _next_part(self) -> memoryview:
        """The next bytes to parse: never more than one request has left. Empty if they are not all there."""
        start, size = self.start, len(self.unparsed)
        if self.body_left:
            end = min(size, start + self.body_left)
        elif (end := self.unparsed.find(_END, start) + len(_END)) < len(_END):
            tail = self.unparsed[max(start, size - len(_END) + 1) :]
            end = size - len(tail) + len(tail.rstrip(_END))  # the rest may begin the end
        if self.is_in_head:
            end = min(end, start + self.of.head_bytes + 1 - self.size)
        self.start = end
        return memoryview(self.unparsed)[start:end]

    def _feed(self, part: memoryview) -> None:
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        self.size += len(part)
        try:
            self.parser.feed_data(part)
        except httptools.HttpParserUpgrade:
            return  # the request is answered, and the connection ends
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _LargeHeadError):
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, str(error.__context__))
            elif self.parser.get_method() == _HTTP_2:
                message = "This server speaks HTTP/1.1, not HTTP/2. Nothing was taken; send it by HTTP/1.1."
                self._refuse(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, message)
            else:
                self._refuse(HTTPStatus.BAD_REQUEST, f"This is no request of HTTP/1.1: {error}. Nothing was taken.")
            return
        if self.size > self.of.head_bytes:
            what = "head of the request" if self.is_in_head else "framing of the body"
            message = f"The {what} has more than {self.of.head_bytes:,} bytes; send less."
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer without the application, and end the connection."""
        detail = json.dumps({"detail": message}).encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        self.transport.write(f"{head}Content-Length: {len(detail)}\r\nConnection: close\r\n\r\n".encode() + detail)
        self.transport.close()
        self._wait()

    def _wait(self) -> None:
        self._stop_waiting()
        self.deadline = self.loop.call_later(self.of.seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()


class _InParts(asyncio.BufferedProtocol):
    """Reads for another protocol, READ_BYTES at most at a time."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._buffer = memoryview(bytearray(READ_BYTES))

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self._protocol.data_received(bytes(self._buffer[:size]))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class _Encrypted(ssl.SSLObject):
    def do_handshake(self) -> None:
        super().do_handshake()
        cast("_Encryption", self.context).handshakes.discard(self)


class _Encryption(ssl.SSLContext):
    """Limits the handshakes under way: uvicorn counts a connection only after its own, which may take a minute."""

    sslobject_class = _Encrypted
    most = 0
    handshakes: WeakSet[ssl.SSLObject]

    @classmethod
    def of(cls, certificate: str, key: str, most: int) -> _Encryption:
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        context.most, context.handshakes = most, WeakSet()
        return context

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Begin a handshake. Raises SSLError if there are too many, which cuts this connection."""
        if len(self.handshakes) >= self.most:
            raise ssl.SSLError("There are too many handshakes.")
        connection = super().wrap_bio(*args, **options)
        self.handshakes.add(connection)
        return connection


def options(limits: ConnectionLimits, tls: tuple[str, str] | None = None) -> dict[str, Any]:
    """The options of uvicorn that hold its connections to these limits. `tls`: files of a certificate and its key."""

    class Limited(Connection):
        of = limits

    encrypt = {"ssl_context_factory": lambda *_: _Encryption.of(*tls, limits.connections + REFUSED)} if tls else {}
    return {
        "http": lambda **given: _InParts(Limited(**given)),
        "ws": "none",
        "limit_concurrency": limits.connections + 1,  # uvicorn counts the connection that asks, too
        **encrypt,
    }


def allow_files() -> None:
    """Let this process open as many files as the system allows it: the usual 1,024 are less than its connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
