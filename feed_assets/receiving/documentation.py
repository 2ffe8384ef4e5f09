"""The API's documentation of requests and answers. Not here: the routes (`server`)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from feed_assets.receiving.status import Status
from feed_assets.serving.answers import Problem
from feed_assets.serving.documents import TOKEN_PARAMETER, Says


class RecordError(msgspec.Struct, frozen=True):
    """A record that cannot be used: its index in the request, from 0, and the reason. It is kept in quarantine."""

    index: int
    reason: str


class Answer(msgspec.Struct, frozen=True):
    """All records of the request are durable. `rejected` of them cannot be used; `errors` has each."""

    request_id: str
    accepted: int
    rejected: int
    errors: list[RecordError]


_TEXT: Final = {"type": "string"}
PARAMETERS: Final[list[dict[str, Any]]] = [
    {"name": "source", "in": "path", "required": True, "schema": _TEXT, "description": "`<kind>/<name>`, or the name"},
    TOKEN_PARAMETER,
    {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {**_TEXT, "maxLength": 255},
        "description": "Names the request. For 24 hours, the same request is not taken again.",
    },
]
_EVENTS: Final = {"type": "array", "items": {"type": "object"}}
BODY: Final = {
    "required": True,
    "content": {
        "application/json": {"schema": {"oneOf": [_EVENTS, {"type": "object"}]}},
        "application/x-ndjson": {"schema": {"type": "string"}},
    },
}
_REFUSALS: Final = {
    400: "The body is not what its headers say, or no record of it is a JSON object in UTF-8; or the request has the "
    "header `Upgrade`",
    401: "No valid token, and no right signature",
    403: "The token does not write this source",
    404: "There is no such source (only without tokens)",
    408: "The body came too slowly",
    413: "The body, unpacked or not, or its number of records is too large",
    415: "The source takes no events, or the body has another type, charset or packing",
    422: "The Idempotency-Key named another request before",
    429: "Too many records for the token, or too much under way; `Retry-After` says when to go on",
    503: "The journal cannot be written; nothing was taken",
}
HOURS: Final[dict[str, Any]] = {
    "name": "hours",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "maximum": 168, "default": 24},
    "description": "The counts are of the last hours.",
}
STATUS_ANSWERS: Final = {
    200: Says("What became of the records.", Status),
    400: Says("`hours` is no number from 1 to 168", Problem),
    401: Says("No valid token", Problem),
    503: Says("The counts cannot be read now", Problem),
}
METRICS_ANSWERS: Final = {
    200: Says("The figures.", str, "text/plain"),
    401: Says("No valid token", Problem),
    403: Says("The token does not read all sources", Problem),
}
ANSWERS: Final = {
    202: Says("The records are durable.", Answer),
    **{status: Says(meaning, Problem) for status, meaning in _REFUSALS.items()},
}
