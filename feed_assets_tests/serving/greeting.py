"""A service that greets, for tests of what every service has, as a process. Not here: any expectation."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Gauge
from starlette.responses import Response

from feed_assets.serving.answers import json_answer
from feed_assets.serving.connections import ConnectionLimits
from feed_assets.serving.documents import Api, Operation, Says
from feed_assets.serving.service import Readiness, Server, Service, application
from feed_assets_tests.forked import start_server


def greetings(*, is_ready):
    """A service that greets."""

    async def greet(request) -> Response:
        """Greet `name`, who is <somebody>."""
        return json_answer(200, {"hello": request.path_params["name"]})

    def ready() -> Readiness:
        """Whether it is awake."""
        return Readiness(is_ready, {"asleep": not is_ready})

    registry = CollectorRegistry()
    Gauge("greetings", "How many", registry=registry).set(3)
    operation = Operation("GET", "/v1/greetings/{name:path}", greet, {200: Says("The greeting.", dict[str, str])})
    return Service(
        Api("Greetings", "It greets.", [operation]),
        ready,
        lambda: registry,
    )


def _serve(listening, *, is_ready, early):
    with Server(application(greetings(is_ready=is_ready)), listening, ConnectionLimits()) as server:
        if early:
            os.kill(os.getpid(), signal.SIGTERM)
        server.run()


@contextmanager
def serving(*, is_ready=True, early=False):
    listening = socket.create_server(("127.0.0.1", 0))
    start_server()
    process = multiprocessing.get_context("forkserver").Process(
        target=_serve, args=(listening,), kwargs={"is_ready": is_ready, "early": early}
    )
    process.start()
    port = listening.getsockname()[1]
    listening.close()
    try:
        yield process, port
    finally:
        process.kill()
        process.join()
