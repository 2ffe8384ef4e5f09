"""The HTTP API of sources, `/v1/sources`: how each stands, as `feed-assets sources status --json` says it.

Here: the operation and who may ask. Not here: the answer (`source_answers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from feed_assets.serving.access import Access
from feed_assets.serving.answers import Problem, json_answer, retry_later, saying_bugs
from feed_assets.serving.documents import TOKEN_PARAMETER, Operation, Says
from feed_assets.state.address import StoreError
from feed_assets.web.source_answers import SourceSays

PATH: Final = "/v1/sources"
READ, SOURCES = "read", "sources"
"""The grant that the answer takes is `read:sources`: it names all sources, partners and columns."""
_AGAIN_SECONDS: Final = 5


@dataclass(slots=True)
class SourcesApi:
    """The operation about sources. `answers` are those of `source_answers`; they raise StoreError."""

    answers: Callable[[], list[SourceSays]]
    access: Access
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def operations(self) -> list[Operation]:
        """What the API does."""

        async def sources(request: Request) -> Response:
            """How each source stands: silence, changed columns, days that wait, refused records. Warnings first."""
            self.access.caller(request).require(READ, SOURCES)
            try:
                async with self._places:
                    return json_answer(200, await asyncio.to_thread(self.answers))
            except StoreError as error:
                raise retry_later(503, str(error), _AGAIN_SECONDS) from None

        answers = {
            200: Says("A source each.", list[SourceSays]),
            401: Says("No valid token", Problem),
            403: Says("The token does not do this; or, without tokens, the request is not of this machine", Problem),
            503: Says("The database does not answer; send it again", Problem),
        }
        return [Operation("GET", PATH, saying_bugs(sources), answers, [TOKEN_PARAMETER])]
