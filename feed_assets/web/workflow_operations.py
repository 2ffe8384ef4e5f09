"""The HTTP API of a project's workflows, below `/v1/workflows`: how they go, the story of a unit, and orders.

Here: the operations and who may do them. Not here: asking a master (`watched_workflows`), and its own API, for workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from feed_assets.blackboard.port import BlackboardError
from feed_assets.serving.access import Access, Caller
from feed_assets.serving.answers import CLOSE, Problem, json_answer, retry_later, saying_bugs
from feed_assets.serving.bodies import BodyLimits, read_body
from feed_assets.serving.content import Content, MediaTypes, UnsupportedError
from feed_assets.serving.documents import TOKEN_PARAMETER, Endpoint, Operation, Says
from feed_assets.serving.holding import HeldBytes
from feed_assets.web.watched_workflows import WatchedWorkflows
from feed_assets.web.workflow_answers import (
    OrderGiven,
    OrderSays,
    StateSays,
    UnitSays,
    WorkflowSays,
    WorkflowsSay,
)
from feed_assets.workflow.calls import Refused
from feed_assets.workflow.errors import NoWorkflowError, UnreachableError, WorkflowError
from feed_assets.workflow.roles import CONTROL, READ, may, require

ROOT: Final = "/v1/workflows"
AT_ONCE: Final = 4
"""How many requests may ask masters at a time; others wait."""
STORIES_AT_ONCE: Final = 1
"""A story reads the whole journal."""
MOST_REASON: Final = 500
_LIMITS: Final = BodyLimits(16 * 1024, 16 * 1024, 30.0)
_TYPES: Final = MediaTypes(frozenset({"application/json"}), described="application/json in UTF-8")
_STATUS: Final = {"NotFound": 404, "Conflict": 409, "Unauthorized": 403, "Invalid": 400, "TooLarge": 413}
_UNIT_DIGITS: Final = 18
_AGAIN_SECONDS: Final = 5

_REFUSALS: Final = {
    401: Says("No valid token", Problem),
    403: Says("The token does not do this; or, without tokens, the request is not of this machine", Problem),
    404: Says("The project has no such workflow, or the workflow no such unit or group", Problem),
    503: Says("The master, or the storage, does not answer; send it again", Problem),
}
_WORKFLOW: Final = {
    "name": "workflow", "in": "path", "required": True, "schema": {"type": "string"},
    "description": "the name of a workflow of the project",
}  # fmt: skip
_UNIT: Final = {
    "name": "unit", "in": "path", "required": True, "schema": {"type": "integer"},
    "description": "the number of a unit",
}  # fmt: skip


@dataclass(slots=True)
class WorkflowsApi:
    """The operations about the workflows of a project."""

    watched: WatchedWorkflows
    access: Access
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _stories: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STORIES_AT_ONCE))
    _held: HeldBytes = field(default_factory=lambda: HeldBytes(1024**2))

    def operations(self) -> list[Operation]:
        """What the API does."""

        async def workflows(request: Request) -> Response:
            """The workflows of the project that the token may read, and their stages."""
            caller = self.access.caller(request)
            found = [
                WorkflowSays(name, list(flow.stages), may(caller, CONTROL, name))
                for name, flow in self.watched.flows.items()
                if may(caller, READ, name)
            ]
            return json_answer(200, WorkflowsSay(found))

        async def workflow(request: Request) -> Response:
            """A workflow now: its master, its groups from stage to stage, leased and dead tasks.

            A workflow without a master is answered, too: `problem` says what to do.
            """
            caller, name = self._asked(request, READ)
            found = await _in_thread(
                self._places,
                lambda: self.watched.state(name, _authorization(request), may_control=may(caller, CONTROL, name)),
            )
            return json_answer(200, found)

        async def unit(request: Request) -> Response:
            """A unit: its present task, and its story as far as the journal is kept. Works without a master, too."""
            caller, name = self._asked(request, READ)
            number, allowed = _unit(request), may(caller, CONTROL, name)
            found = await _in_thread(
                self._stories,
                lambda: self.watched.unit(name, number, _authorization(request), may_control=allowed),
            )
            return json_answer(200, found)

        async def order(request: Request) -> Response:
            """Pause or resume a group (or `all`); retry or drop a dead unit. The journal keeps author and reason."""
            caller, name = self._asked(request, CONTROL)
            given, by = await self._given(request), caller.name or "local"
            await _in_thread(self._places, lambda: self.watched.order(name, given, by, _authorization(request)))
            return json_answer(200, OrderSays(given.order, given.target, by))

        return [
            _operation("GET", "", workflows, Says("The workflows.", WorkflowsSay)),
            _operation("GET", "/{workflow}", workflow, Says("How it goes.", StateSays), _WORKFLOW),
            _operation("GET", "/{workflow}/units/{unit}", unit, Says("The unit.", UnitSays), _WORKFLOW, _UNIT),
            _operation("POST", "/{workflow}/orders", order, Says("It is done.", OrderSays), _WORKFLOW, body=OrderGiven),
        ]

    def _asked(self, request: Request, verb: str) -> tuple[Caller, str]:
        """The caller, and the workflow of the path. Raises HTTPException."""
        caller, name = self.access.caller(request), request.path_params["workflow"]
        require(caller, verb, name)
        if name not in self.watched.flows:
            there = ", ".join(self.watched.flows) or "none"
            raise HTTPException(404, f"The project has no workflow {name[:100]!r}; there are: {there}.")
        return caller, name

    async def _given(self, request: Request) -> OrderGiven:
        try:
            content = Content.of(request.scope["headers"], _TYPES)
            with self._held.of_a_request() as hold:
                body = await read_body(request, _LIMITS, hold, is_packed=content.is_packed)
            given = msgspec.json.decode(body, type=OrderGiven)
        except UnsupportedError as error:
            raise HTTPException(415, str(error), CLOSE) from None
        except ClientDisconnect:
            raise HTTPException(400, "The body broke off; send it again.", CLOSE) from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise HTTPException(400, f"The body makes no sense: {error}") from None
        if not given.reason.strip() or len(given.reason) > MOST_REASON or not given.reason.isprintable():
            raise HTTPException(400, f"Give a reason: 1 to {MOST_REASON} printable characters.")
        return given


async def _in_thread(places: asyncio.Semaphore, work: Callable[[], Any]) -> Any:
    """Do `work` in a thread: it asks a master and the storage."""
    async with places:
        return await asyncio.to_thread(work)


def _authorization(request: Request) -> str | None:
    return request.headers.get("authorization")


def _unit(request: Request) -> int:
    text = request.path_params["unit"]
    if not text.isascii() or not text.isdecimal() or len(text) > _UNIT_DIGITS:
        raise HTTPException(400, f"{text[:50]!r} is no number of a unit.")
    return int(text)


def _operation(
    method: str, path: str, endpoint: Endpoint, says: Says, *parameters: dict[str, Any], body: type[Any] | None = None
) -> Operation:
    answers = {200: says, **_REFUSALS}
    if body is None:
        return Operation(method, f"{ROOT}{path}", _refusing(endpoint), answers, [*parameters, TOKEN_PARAMETER])
    (schema,), components = msgspec.json.schema_components([body], ref_template="{name}")
    given = {"required": True, "content": {"application/json": {"schema": components[schema["$ref"]]}}}
    answers |= {400: Says("The order makes no sense", Problem), 409: Says("It was refused; nothing changed", Problem)}
    return Operation(method, f"{ROOT}{path}", _refusing(endpoint), answers, [*parameters, TOKEN_PARAMETER], given)


def _refusing(endpoint: Endpoint) -> Endpoint:
    """Answer what the endpoint raises with the status that it has for a client."""

    @wraps(endpoint)
    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Refused as error:
            raise HTTPException(_STATUS.get(error.code, 503), str(error)) from None
        except NoWorkflowError as error:
            raise HTTPException(404, str(error)) from None
        except (UnreachableError, WorkflowError, BlackboardError) as error:
            raise retry_later(503, str(error), _AGAIN_SECONDS) from None

    return saying_bugs(answered)
