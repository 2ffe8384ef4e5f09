"""Answers in JSON, and refusals, which say what to do. Not here: what is refused."""

from __future__ import annotations

import functools
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

CLOSE: Final = {"Connection": "close"}
"""For an answer that comes before the body was read: what is left of the body is not a request."""

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class Problem(msgspec.Struct, frozen=True):
    """Why nothing of the request was taken."""

    detail: str


def json_answer(status: int, content: Any, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with this content, which msgspec encodes."""
    return Response(_encode(content), status, headers, media_type="application/json")


async def show_refusal(_: Request, refused: Exception) -> Response:
    """The answer to a request that raised an HTTPException."""
    if not isinstance(refused, HTTPException):
        raise refused
    return json_answer(refused.status_code, Problem(refused.detail), refused.headers)


def saying_bugs(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Answer an error that nothing refuses with 500: the log has the trace, the client a sentence."""

    @functools.wraps(endpoint)
    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except Exception as error:  # noqa: BLE001 - see above
            _log.error("%s %s failed:\n%s", request.method, request.url.path, traceback.format_exc())
            raise HTTPException(
                500, f"This is a bug ({type(error).__name__}); the log of the service has more."
            ) from None

    return answered


def retry_later(status: int, message: str, seconds: int, headers: Mapping[str, str] | None = None) -> HTTPException:
    """A refusal of a request that may be sent again after so many seconds."""
    return HTTPException(status, message, {"Retry-After": str(seconds), **(headers or {})})
