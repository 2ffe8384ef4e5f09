"""The HTTP API of how long runs take, `/v1/runs`: the same answer as `feed-assets health --json`.

Here: the operation and who may ask. Not here: the figures (`run_history`), and filling the history (`sensors`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from feed_assets.run_history.answers import SeriesSays, says_of
from feed_assets.run_history.health import health
from feed_assets.serving.access import Access
from feed_assets.serving.answers import Problem, json_answer, retry_later, saying_bugs
from feed_assets.serving.documents import Operation, Says
from feed_assets.state.address import StoreError
from feed_assets.state.store import Store

PATH: Final = "/v1/runs"
READ, RUNS = "read", "runs"
"""The grant that the answer takes is `read:runs`: it names schedules and assets, and shows no data."""
_AGAIN_SECONDS: Final = 5
_TOKEN: Final = {
    "name": "Authorization", "in": "header", "schema": {"type": "string"}, "description": "`Bearer TOKEN`",
}  # fmt: skip


@dataclass(slots=True)
class RunsApi:
    """The operation about runs. `deadlines` are those of series."""

    store: Store
    base: str
    deadlines: Mapping[str, time]
    access: Access
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def operations(self) -> list[Operation]:
        """What the API does."""

        async def runs(request: Request) -> Response:
            """How long runs take, whether they will overlap, and which deadlines will be missed: warnings first."""
            self.access.caller(request).require(READ, RUNS)
            try:
                async with self._places:  # an answer reads the whole history
                    return json_answer(200, await asyncio.to_thread(self._series))
            except StoreError as error:
                raise retry_later(503, str(error), _AGAIN_SECONDS) from None

        answers = {
            200: Says("A series each.", list[SeriesSays]),
            401: Says("No valid token", Problem),
            403: Says("The token does not do this; or, without tokens, the request is not of this machine", Problem),
            503: Says("The database does not answer; send it again", Problem),
        }
        return [Operation("GET", PATH, saying_bugs(runs), answers, [_TOKEN])]

    def _series(self) -> list[SeriesSays]:
        today = datetime.now(UTC).date()  # Dagster dates its runs by it, whatever the clock of the installation says
        return [says_of(each) for each in health(self.store, self.base, self.deadlines, today)]
