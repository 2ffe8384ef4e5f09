"""What a connection may cost before the receiver knows whose it is: uvicorn itself has no limit for that.

Here: the time and the size of a request's head, connections beyond the limit, and the files that a process may open.
Not here: the body and everything after it (`server`), to which tokens and other limits apply.
"""

from __future__ import annotations

import asyncio
import resource
from typing import ClassVar, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from feed_assets.receiving.limits import Limits

HEAD_BYTES: Final = 64 * 1024
"""The longest head of a request: its first line and its headers."""
REFUSED: Final = 100
"""How many connections beyond the limit still get an answer, 503. Those after them are cut at once."""


class Connection(HttpToolsProtocol):
    """Cuts a client whose head takes too long or has no end, and one that does not read its answers."""

    seconds: ClassVar[float]
    most: ClassVar[int]
    deadline: asyncio.TimerHandle | None = None
    is_waiting = True
    """Whether the next bytes belong to a head."""
    heads = size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head. Cut the connection if there are too many."""
        super().connection_made(cast("asyncio.Transport", transport))
        if len(self.connections) > self.most:
            self.transport.abort()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head."""
        waiting, heads = self.is_waiting, self.heads
        super().data_received(data)
        if waiting and heads == self.heads:  # the head goes on: all these bytes belong to it
            self.size += len(data)
            if self.size > HEAD_BYTES:
                self.transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header of a head; drop the headers that may follow a body in chunks."""
        if self.is_waiting:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: stop the timer, unless the client has answers left to read."""
        self.heads, self.size, self.is_waiting = self.heads + 1, 0, False
        if not self.flow.write_paused:
            self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is complete: the next bytes belong to the next head."""
        super().on_message_complete()
        self.is_waiting = True

    def on_response_complete(self) -> None:
        """Wait for the next head, unless its request has begun already."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._wait()

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

    def _wait(self) -> None:
        self._stop_waiting()
        self.deadline = self.loop.call_later(self.seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()


def limited(limits: Limits) -> type[Connection]:
    """The connections of a receiver: a head, and the reading of an answer, take `body_seconds` at most."""

    class Limited(Connection):
        seconds, most = limits.body_seconds, limits.connections + REFUSED

    return Limited


def allow_files() -> None:
    """Let this process open as many files as the system allows it: the usual 1,024 are less than its connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
