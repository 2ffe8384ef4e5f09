"""The HTTP API of runs: how long they take, `/v1/runs`, and how far running steps are, `/v1/runs/steps`.

The answers are those of `feed-assets health --json` and `feed-assets running --json`. Here: the operations and who may
ask. Not here: the figures (`run_history`), and filling the history (`sensors`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from feed_assets.run_history.answers import SeriesSays, StepSays, says_of, step_says
from feed_assets.run_history.health import health
from feed_assets.run_history.tables import running_now
from feed_assets.serving.access import Access
from feed_assets.serving.answers import Problem, json_answer, retry_later, saying_bugs
from feed_assets.serving.documents import TOKEN_PARAMETER, Operation, Says
from feed_assets.state.address import StoreError
from feed_assets.state.store import Store

PATH: Final = "/v1/runs"
STEPS_PATH: Final = "/v1/runs/steps"
READ, RUNS = "read", "runs"
"""The grant that the answer takes is `read:runs`: it names schedules and assets, and shows no data."""
_AGAIN_SECONDS: Final = 5


@dataclass(slots=True)
class RunsApi:
    """The operations about runs. `deadlines` are those of series."""

    store: Store
    base: str
    deadlines: Mapping[str, time]
    access: Access
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def operations(self) -> list[Operation]:
        """What the API does."""

        async def runs(request: Request) -> Response:
            """How long runs take, whether they will overlap, and which deadlines will be missed: warnings first."""
            return await self._answer(request, self._series)

        async def steps(request: Request) -> Response:
            """The steps that run now, and how far they are, the oldest first."""
            return await self._answer(request, self._steps)

        refused = {
            401: Says("No valid token", Problem),
            403: Says("The token does not do this; or, without tokens, the request is not of this machine", Problem),
            503: Says("The database does not answer; send it again", Problem),
        }
        series = {200: Says("A series each.", list[SeriesSays])}
        running = {200: Says("A step each. One that began less than 5 seconds ago is not known yet.", list[StepSays])}
        return [
            Operation("GET", PATH, saying_bugs(runs), series | refused, [TOKEN_PARAMETER]),
            Operation("GET", STEPS_PATH, saying_bugs(steps), running | refused, [TOKEN_PARAMETER]),
        ]

    async def _answer(self, request: Request, made: Callable[[], object]) -> Response:
        self.access.caller(request).require(READ, RUNS)
        try:
            async with self._places:  # an answer may read the whole history
                return json_answer(200, await asyncio.to_thread(made))
        except StoreError as error:
            raise retry_later(503, str(error), _AGAIN_SECONDS) from None

    def _steps(self) -> list[StepSays]:
        now = datetime.now(UTC)
        return [step_says(each, now) for each in running_now(self.store, self.base, now)]

    def _series(self) -> list[SeriesSays]:
        today = datetime.now(UTC).date()  # Dagster dates its runs by it, whatever the clock of the installation says
        return [says_of(each) for each in health(self.store, self.base, self.deadlines, today)]
