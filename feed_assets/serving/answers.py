"""Answers in JSON, and refusals, which say what to do. Not here: what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

CLOSE: Final = {"Connection": "close"}
"""For an answer that comes before the body was read: what is left of the body is not a request."""

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


def retry_later(status: int, message: str, seconds: int, headers: Mapping[str, str] | None = None) -> HTTPException:
    """A refusal of a request that may be sent again after so many seconds."""
    return HTTPException(status, message, {"Retry-After": str(seconds), **(headers or {})})
