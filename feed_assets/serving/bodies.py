"""The body of a request: read within limits of size and time, and unpacked as it comes.

Here: gzip, and limits before memory is spent. Not here: what the headers say of a body (`content`), and its records.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request

from feed_assets.serving.answers import CLOSE, retry_later
from feed_assets.serving.holding import TooMuchHeldError


class BodyError(Exception):
    """A body is not what its headers say; the message says what to do."""


class TooLargeError(Exception):
    """A body exceeds a limit; the message names it."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What a body may cost: its bytes as they are sent, its bytes unpacked, and the seconds in which it comes."""

    sent_bytes: int
    unpacked_bytes: int
    seconds: float


class Body:
    """Takes a body as it comes, and unpacks it if it is gzip. `limits` hold before memory is spent."""

    def __init__(self, limits: BodyLimits, *, packed: bool) -> None:
        self._limits = limits
        self._sent = 0
        self._unpacked = bytearray()  # an object for each chunk would take more: a client may send single bytes
        self._member = zlib.decompressobj(wbits=31) if packed else None
        self._which = "The body"

    def expect(self, size: int) -> None:
        """Raise TooLargeError if `size` more bytes, as they are sent, are too many."""
        if self._sent + size > self._limits.sent_bytes:
            raise TooLargeError(f"The body has more than {self._limits.sent_bytes:,} bytes; send it in parts.")

    def take(self, chunk: bytes) -> int:
        """Take a chunk. Returns its bytes, unpacked. Raises TooLargeError, BodyError."""
        self.expect(len(chunk))
        self._sent += len(chunk)
        before = len(self._unpacked)
        if self._member is None:
            self._add(chunk)
        while self._member is not None and chunk:
            if self._member.eof:
                self._member, self._which = zlib.decompressobj(wbits=31), "What follows the gzip in the body"
            try:
                self._add(self._member.decompress(chunk, self._limits.unpacked_bytes - len(self._unpacked) + 1))
            except zlib.error as error:
                raise BodyError(f"{self._which} is not gzip: {error}. Pack all of it with gzip, or nothing.") from None
            chunk = self._member.unconsumed_tail or self._member.unused_data
        return len(self._unpacked) - before

    def whole(self) -> bytes:
        """The unpacked body, once all of it was taken. Raises BodyError if it was cut off."""
        if self._member is not None and not self._member.eof:
            raise BodyError("The body is gzip that was cut off; send it again.")
        return bytes(self._unpacked)

    def _add(self, unpacked: bytes) -> None:
        self._unpacked += unpacked
        if len(self._unpacked) > self._limits.unpacked_bytes:
            raise TooLargeError(f"The body has more than {self._limits.unpacked_bytes:,} bytes; send it in parts.")


async def read_body(request: Request, limits: BodyLimits, hold: Callable[[int], None], *, is_packed: bool) -> bytes:
    """The body, unpacked. `hold` counts its bytes.

    Raises HTTPException if it is too large, too slow, or not as its headers say; ClientDisconnect if it breaks off.
    """
    if "upgrade" in request.headers:
        # uvicorn passes the body over: the request would be acknowledged without what it sends.
        message = "The server takes no Upgrade; send the events by HTTP/1.1 alone, as curl does with --http1.1."
        raise HTTPException(400, message, CLOSE)
    body = Body(limits, packed=is_packed)
    try:
        body.expect(int(request.headers.get("content-length") or 0))
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                hold(body.take(chunk))
        return body.whole()
    except TooLargeError as error:
        raise HTTPException(413, str(error), CLOSE) from None
    except BodyError as error:
        raise HTTPException(400, str(error), CLOSE) from None
    except TooMuchHeldError as error:
        raise retry_later(429, str(error), 1, CLOSE) from None
    except TimeoutError:
        raise HTTPException(408, f"The body took more than {limits.seconds:g} s.", CLOSE) from None
