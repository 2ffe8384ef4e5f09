"""The HTTP API of sources: how each stands, `/v1/sources`, and where pushed records are, `/v1/sources/requests/{id}`.

The answers are those of `feed-assets sources status --json` and `feed-assets receive request --json`. Here: the
operations and who may ask. Not here: the answers (`source_answers`, `request_answers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from feed_assets.blackboard.port import BlackboardError
from feed_assets.serving.access import Access
from feed_assets.serving.answers import Problem, json_answer, retry_later, saying_bugs
from feed_assets.serving.documents import TOKEN_PARAMETER, Operation, Says
from feed_assets.state.address import StoreError
from feed_assets.web.request_answers import RequestSays
from feed_assets.web.source_answers import SourceSays

PATH: Final = "/v1/sources"
REQUEST_PATH: Final = "/v1/sources/requests/{request_id:path}"
READ, SOURCES = "read", "sources"
"""The grant that the answers take is `read:sources`: they name all sources, partners and columns, and show no data."""
_AGAIN_SECONDS: Final = 5
_ID: Final = {
    "name": "request_id", "in": "path", "required": True, "schema": {"type": "string"},
    "description": "The `request_id` of the receiver's answer.",
}  # fmt: skip
_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class SourcesApi:
    """The operations about sources. `answers` are those of `source_answers`; they raise StoreError.

    `requests` says where the records of the request of an id are, and raises BlackboardError; None if nobody knows it.
    """

    answers: Callable[[], list[SourceSays]]
    requests: Callable[[str], RequestSays | None]
    access: Access
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def operations(self) -> list[Operation]:
        """What the API does."""

        async def sources(request: Request) -> Response:
            """How each source stands: silence, changed columns, days that wait, refused records. Warnings first."""
            return json_answer(200, await self._answer(request, self.answers))

        async def request_of_partner(request: Request) -> Response:
            """Where the records of a pushed request are: waiting, in raw files that feeds read, or in quarantine."""
            name = request.path_params["request_id"]
            found = await self._answer(request, partial(self.requests, name))
            if found is None:
                unknown = "has not landed, and waits in no journal that this service reads. Check the id."
                raise HTTPException(404, f"Request {name!r} {unknown}")
            return json_answer(200, found)

        refused = {
            401: Says("No valid token", Problem),
            403: Says("The token does not do this; or, without tokens, the request is not of this machine", Problem),
            503: Says("The database or the storage does not answer; send it again", Problem),
        }
        standing = {200: Says("A source each.", list[SourceSays])}
        story = {200: Says("Where the records are.", RequestSays), 404: Says("Nobody knows this request", Problem)}
        return [
            Operation("GET", PATH, saying_bugs(sources), standing | refused, [TOKEN_PARAMETER]),
            Operation("GET", REQUEST_PATH, saying_bugs(request_of_partner), story | refused, [_ID, TOKEN_PARAMETER]),
        ]

    async def _answer(self, request: Request, made: Callable[[], _Answer]) -> _Answer:
        self.access.caller(request).require(READ, SOURCES)
        try:
            async with self._places:  # a request is followed by reading files
                return await asyncio.to_thread(made)
        except (StoreError, BlackboardError) as error:
            raise retry_later(503, str(error), _AGAIN_SECONDS) from None
