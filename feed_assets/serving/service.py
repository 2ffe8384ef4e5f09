"""Running an HTTP service: its routes, its life from the first request to the last, and its signals.

Here: what every service answers (`/health`, `/ready`, `/metrics`, `/openapi.json`, `/docs`), and ending after what is
under way. Not here: what a service is for, and what its connections and requests may cost (`connections`, `bodies`).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from socket import socket
from types import FrameType, TracebackType
from typing import Any, Final, Self

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from feed_assets.serving.answers import json_answer, show_refusal
from feed_assets.serving.connections import ConnectionLimits, allow_files, options
from feed_assets.serving.documents import Api, Operation, Says
from feed_assets.serving.pages import page

GRACE: Final = 30
"""Seconds that requests have to end after SIGTERM."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a service can do its work now, and the state that says why not."""

    is_ready: bool
    state: Any


@dataclass(frozen=True, slots=True)
class Service:
    """What a service does (`api`), whether it can (`ready`), and its figures, which `figures` brings up to date.

    The docstring of `ready` is the documentation of `/ready`. Each of `tasks` runs while the service does. `pages` are
    for people, and not in the document of the API.
    """

    api: Api
    ready: Callable[[], Readiness]
    figures: Callable[[], CollectorRegistry]
    tasks: Sequence[Callable[[], Awaitable[None]]] = field(default_factory=tuple)
    pages: Sequence[BaseRoute] = field(default_factory=tuple)


def application(service: Service) -> Starlette:
    """The ASGI application. GET is also HEAD, for load balancers."""

    async def health(_: Request) -> Response:
        """Whether the server runs."""
        return json_answer(200, {"status": "ok"})

    async def ready(_: Request) -> Response:
        readiness = service.ready()
        return json_answer(200 if readiness.is_ready else 503, readiness.state)

    async def metrics(_: Request) -> Response:
        """Figures for Prometheus."""
        return Response(generate_latest(service.figures()), media_type=CONTENT_TYPE_LATEST)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        running = [asyncio.ensure_future(each()) for each in service.tasks]
        yield
        for each in running:
            each.cancel()

    ready.__doc__ = service.ready.__doc__
    operations = (
        *service.api.operations,
        Operation("GET", "/health", health, {200: Says("It runs.", dict[str, str])}),
        Operation(
            "GET", "/ready", ready, {200: Says("It is."), 503: Says("Something is wrong; the log has the details.")}
        ),
        Operation("GET", "/metrics", metrics, {200: Says("The figures.", str, "text/plain")}),
    )
    api = Api(service.api.title, service.api.summary, operations)
    document = api.document()
    html = page(document)

    async def openapi(_: Request) -> Response:
        return json_answer(200, document)

    async def docs(_: Request) -> Response:
        return HTMLResponse(html)

    return Starlette(
        routes=[
            *(Route(each.path, each.endpoint, methods=[each.method]) for each in operations),
            Route("/openapi.json", openapi),
            Route("/docs", docs),
            *service.pages,
        ],
        exception_handlers={HTTPException: show_refusal},
        lifespan=lifespan,
    )


class Server:
    """Answers requests on a socket. Within the block, SIGTERM and SIGINT end only `run`, after what is under way.

    `tls` has the files of a certificate and its key.
    """

    def __init__(
        self, app: Starlette, listening: socket, limits: ConnectionLimits, *, tls: tuple[str, str] | None = None
    ) -> None:
        config = uvicorn.Config(
            app,
            **options(limits, tls),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
        self._server, self._listening = uvicorn.Server(config), listening
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        allow_files()
        # uvicorn handles signals while it runs, and raises them once more when it has ended.
        self._handlers = {each: signal.signal(each, self._end) for each in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def run(self) -> None:
        """Answer requests until a signal comes, or has come; then end those that are under way, within GRACE."""
        self._server.run([self._listening])

    @property
    def is_ending(self) -> bool:
        """Whether a signal has come: what is under way is awaited, for at most GRACE."""
        return self._server.should_exit

    def end(self) -> None:
        """End as after a signal. Any thread may call it."""
        self._server.should_exit = True

    def _end(self, _: int, __: FrameType | None) -> None:
        self.end()
