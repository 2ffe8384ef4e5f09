"""The HTTP service of a workflow: `POST /v1/<call>`, and reads.

Here: the operations and who may do them, readiness and figures. Not here: what a call does (`machine`), when it is
durable (`master`), and the figures (`figures`).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, get_args

import msgspec
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from feed_assets.serving.access import Access
from feed_assets.serving.answers import Problem, json_answer
from feed_assets.serving.bodies import BodyLimits, read_body
from feed_assets.serving.documents import Api, Endpoint, Operation, Says
from feed_assets.serving.holding import HeldBytes
from feed_assets.serving.service import Readiness, Service
from feed_assets.workflow.calls import (
    AnyCall,
    Command,
    Commit,
    Configure,
    Fail,
    Hello,
    Insert,
    Lease,
    Release,
    Renew,
    Reply,
    TaskView,
)
from feed_assets.workflow.figures import Figures
from feed_assets.workflow.master import HungUpError, Master
from feed_assets.workflow.replies import view
from feed_assets.workflow.roles import CONTROL, READ, WORK, require
from feed_assets.workflow.task_times import Committed, TaskTimes
from feed_assets.workflow.tasks import CONFIGURATION, OWN_GROUPS, Status, Task, name_problem
from feed_assets.workflow.workers_seen import WorkersSeen

MOST_BODY: Final = 4 * 1024 * 1024
MOST_HELD: Final = 256 * 1024 * 1024
MOST_LISTED: Final = 1_000
_LIMITS: Final = BodyLimits(MOST_BODY, MOST_BODY, 30.0)
_CALLS: Final[tuple[type[Any], ...]] = (Hello, Lease, Renew, Commit, Release, Fail, Insert, Configure, Command)
_ORDERS: Final = (Configure, Command)
_STATUS: Final = {
    "": 200, "Busy": 503, "Full": 503, "NotMaster": 421, "WrongMaster": 421, "TooLarge": 413, "Invalid": 400,
    "NotFound": 404, "Unauthorized": 403,
}  # fmt: skip
"""The status of each refusal; of others 409."""


class GroupView(msgspec.Struct, frozen=True):
    """How many tasks a group has, and since when (seconds since 1970) its oldest waiting task could have started."""

    name: str
    waiting: int
    leased: int
    dead: int
    gathering: int
    oldest: float | None
    is_paused: bool
    is_interdicted: bool
    is_full: bool
    is_spent: bool = False
    """Whether its tasks wait because the retries of the last minutes are used up."""


class Stats(msgspec.Struct, frozen=True):
    """A workflow at a position."""

    token: str
    epoch: int
    position: int
    sessions: int
    groups: list[GroupView]
    feeds: list[tuple[str, str]]
    """Which types have made tasks of which groups."""


class Listed(msgspec.Struct, frozen=True):
    """Tasks in the order of their ids; `after` is the next page's, None after the last."""

    token: str
    epoch: int
    position: int
    tasks: list[TaskView]
    after: int | None


class Ended(msgspec.Struct, frozen=True):
    """The last commits of each type that this master has seen, oldest first; those before it began are left out."""

    token: str
    epoch: int
    position: int
    commits: list[Committed]


class WorkflowApi:
    """The operations of the service of one workflow."""

    def __init__(self, name: str, master: Master, access: Access, figures: Figures | None = None) -> None:
        self.name, self.master, self.access = name, master, access
        self.figures = figures or Figures()
        self._seen, self._times = WorkersSeen(master.state), TaskTimes(master.state)
        self._held = HeldBytes(MOST_HELD)
        self._batch = msgspec.json.Decoder(list[AnyCall])

    def service(self, *tasks: Callable[[], Awaitable[None]]) -> Service:
        """The service; each of `tasks` runs as long as it does."""

        def ready() -> Readiness:
            """Whether calls are answered: not while the store has not said if it has the last entry."""
            undecided = self.master.is_undecided
            return Readiness(not undecided, {"epoch": self.master.machine.epoch, "undecided": undecided})

        summary = "Tasks that flow through stages, each committed exactly once."
        api = Api(f"feed_assets workflow {self.name}", summary, self.operations())
        return Service(api, ready, self._figures, [self.master.turn, *tasks])

    def operations(self) -> list[Operation]:
        """What the API does."""
        return [
            *(_posting(f"/v1/{each.__struct_config__.tag}", self._endpoint(each), Reply) for each in _CALLS),
            _posting("/v1/calls", self._calls(), list[Reply]),
            *self._reads(),
        ]

    def _endpoint(self, kind: type[Any]) -> Endpoint:
        decode = msgspec.json.Decoder(kind).decode
        verb = CONTROL if kind in _ORDERS else WORK

        async def endpoint(request: Request) -> Response:
            self._allow(request, verb)
            with self._held.of_a_request() as hold:
                body = await _body(request, hold)
                call = _decoded(decode, body)
                reply = await (self._leased(request, call) if kind is Lease else self.master.call(call))
            answer = reply.answer
            self._note(call, reply)
            headers = {"Retry-After": str(max(1, round(answer.retry_after)))} if answer.retry_after else None
            return json_answer(_STATUS.get(answer.refused, 409), reply, headers)

        endpoint.__name__, endpoint.__doc__ = str(kind.__struct_config__.tag), kind.__doc__
        return endpoint

    async def _leased(self, request: Request, call: Lease) -> Reply:
        """The reply to a lease, unless its client hangs up while it waits: a task would wait for a dead worker."""
        gone = asyncio.ensure_future(_hung_up(request))
        try:
            return await self.master.call(call, gone)
        except HungUpError:
            raise HTTPException(400, "The request was cut off.") from None
        finally:
            gone.cancel()

    def _calls(self) -> Endpoint:
        async def calls(request: Request) -> Response:
            """Several calls, each answered for itself; none of them waits."""
            caller = self.access.caller(request)
            with self._held.of_a_request() as hold:
                several = _decoded(self._batch.decode, await _body(request, hold))
                for each in several:
                    require(caller, CONTROL if isinstance(each, _ORDERS) else WORK, self.name)
                replies = await self.master.calls(several)
            for call, reply in zip(several, replies, strict=True):
                self._note(call, reply)
            return json_answer(200, replies)

        return calls

    def _reads(self) -> list[Operation]:
        async def stats(request: Request) -> Response:
            """The groups, and how many tasks they have."""
            self._allow(request, READ)
            return json_answer(200, await self.master.read(lambda _: self._stats()))

        async def listed(request: Request) -> Response:
            """Tasks, by id: all, or those of a `group` or a `status`; at most `limit` (1,000), after the id `after`."""
            self._allow(request, READ)
            return json_answer(200, await self.master.read(lambda _: self._listed(request)))

        async def unit(request: Request) -> Response:
            """The present version of a unit."""
            self._allow(request, READ)
            found = await self.master.read(lambda state: state.version_of(_number(request, "unit", 0)))
            if found is None:
                raise HTTPException(404, "There is no such unit: it is done, or never was.")
            return json_answer(200, {**self._here(), "task": self._seen.described(view(found))})

        async def ended(request: Request) -> Response:
            """How long the last tasks of each type had waited and took: commits after the position `after`."""
            self._allow(request, READ)
            after = _number(request, "after", 0)
            found = await self.master.read(lambda _: Ended(**self._here(), commits=self._times.after(after)))
            return json_answer(200, found)

        return [
            _getting("/v1/stats", stats, Stats),
            _getting("/v1/ended", ended, Ended, "after"),
            _getting("/v1/tasks", listed, Listed, "group", "status", "after", "limit"),
            _getting("/v1/unit", unit, dict[str, Any], "unit"),
        ]

    def _here(self) -> dict[str, Any]:
        machine = self.master.machine
        return {"token": machine.token, "epoch": machine.epoch, "position": machine.state.position}

    def _stats(self) -> Stats:
        machine, state = self.master.machine, self.master.state
        oldest, spent = machine.queues.oldest(), machine.spent_groups()
        groups = [
            GroupView(
                name,
                state.count(name, "waiting"),
                state.count(name, "leased"),
                state.count(name, "dead"),
                state.gathering[name],
                oldest.get(name),
                machine.is_ordered("pause", name),
                machine.is_ordered("interdict", name),
                machine.is_full(name),
                name in spent,
            )
            for name in sorted({*state.counts, *state.configurations})
        ]
        return Stats(**self._here(), sessions=len(state.sessions), groups=groups, feeds=sorted(state.edges))

    def _listed(self, request: Request) -> Listed:
        group, status = _group(request), _status(request)
        after = _number(request, "after", 0)
        most = min(_number(request, "limit", MOST_LISTED) or MOST_LISTED, MOST_LISTED)
        found = [each for each in self._found(group, status, after, most + 1) if each.id > after]
        tasks = [self._seen.described(view(each)) for each in found[:most]]
        return Listed(**self._here(), tasks=tasks, after=tasks[-1].id if len(found) > most else None)

    def _found(self, group: str | None, status: str | None, after: int, most: int) -> list[Task]:
        """Tasks by id: those after an id, at most so many, or all. Looks at no more tasks than it must."""
        state = self.master.state
        if group in OWN_GROUPS:
            own = state.configurations if group == CONFIGURATION else state.controls
            return sorted(own.values(), key=lambda each: each.id)
        counts: list[Counter[Status]] = [each for name, each in state.counts.items() if not group or name == group]
        there = sum(count for each in counts for name, count in each.items() if not status or name == status)
        # Tasks are in the order of their ids. A lease and its renewals give new ones: leased tasks are among the last.
        ids = reversed(state.tasks) if status == "leased" else iter(state.dead if status == "dead" else state.tasks)
        found: list[Task] = []
        seen = 0
        while seen < there and (status == "leased" or len(found) < most):
            task = state.tasks[next(ids)]
            if (task.group == group if group else task.group not in OWN_GROUPS) and status in (None, "", task.status):
                seen += 1
                if task.id > after:
                    found.append(task)
        return sorted(found, key=lambda each: each.id)

    def _figures(self) -> CollectorRegistry:
        stats, figures = self._stats(), self.figures
        figures.epoch.set(stats.epoch)
        figures.position.set(stats.position)
        figures.sessions.set(stats.sessions)
        figures.undecided.set(self.master.is_undecided)
        oldest = {each.name: each.oldest for each in stats.groups if each.oldest is not None}
        figures.show(stats.groups, oldest, time.time())
        return figures.registry

    def _note(self, call: AnyCall, reply: Reply) -> None:
        self.figures.count(call, reply)
        self._seen.note(call, reply)
        self._times.note(call, reply)

    def _allow(self, request: Request, verb: str) -> None:
        require(self.access.caller(request), verb, self.name)


async def _hung_up(request: Request) -> None:
    """Return when the client of a request, whose body was read, has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request, hold: Any) -> bytes:
    try:
        return await read_body(request, _LIMITS, hold, is_packed=request.headers.get("content-encoding") == "gzip")
    except ClientDisconnect:
        raise HTTPException(400, "The request was cut off.") from None


def _decoded(decode: Any, body: bytes) -> Any:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(400, f"This is no call: {error}. /docs says what it has.") from None


def _group(request: Request) -> str | None:
    group = request.query_params.get("group")
    if group and (problem := name_problem(group)):
        raise HTTPException(400, f"group is {group[:50]!r}: {problem}.")
    return group


def _status(request: Request) -> str | None:
    status = request.query_params.get("status")
    if status and status not in get_args(Status):
        raise HTTPException(400, f"status is {status[:50]!r}: it is {', '.join(get_args(Status))}.")
    return status


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > 18:  # noqa: PLR2004 - fits 64 bits
        raise HTTPException(400, f"{name} is {text[:50]!r}, and must be a whole number.")
    return int(text)


def _posting(path: str, endpoint: Endpoint, content: Any) -> Operation:
    refusals = {
        400: Says("It is no call.", Problem), 403: Says("The token does not allow it.", Problem),
        409: Says("It was refused; nothing has changed.", content), 413: Says("It is too large.", Problem),
        421: Says("Another master answers this.", content), 503: Says("Send it again later.", content),
    }  # fmt: skip
    return Operation("POST", path, endpoint, {200: Says("It was done.", content), **refusals})


def _getting(path: str, endpoint: Endpoint, content: Any, *parameters: str) -> Operation:
    described: Sequence[dict[str, Any]] = [
        {"name": each, "in": "query", "required": False, "schema": {"type": "string"}} for each in parameters
    ]
    answers = {200: Says("What there is.", content), 400: Says("A parameter is wrong.", Problem)}
    return Operation("GET", path, endpoint, answers, described)
