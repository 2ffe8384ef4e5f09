"""A consumer with figures: `/metrics`, `/health` and `/ready`, while it consumes.

Here: one process with both. Not here: the routes (`serving`), and consuming (`consumer`).
"""

from __future__ import annotations

import threading
from socket import socket

from prometheus_client import CollectorRegistry

from feed_assets.delivery.consuming.consumer import Consumer
from feed_assets.serving.connections import ConnectionLimits
from feed_assets.serving.documents import Api
from feed_assets.serving.service import Readiness, Server, Service, application

TITLE = "feed_assets consumer"
SUMMARY = "How far the records of a stream are in their store."


def consume_and_serve(consumer: Consumer, listening: socket) -> int:
    """Consume, and answer requests on the socket, until SIGTERM or SIGINT; returns how many records were settled.

    Raises as `Consumer.run` does.
    """

    def ready() -> Readiness:
        """Whether no shard waits for a store or a repair, or is late."""
        waiting = dict(consumer.figures.waiting)
        late = consumer.figures.late(consumer.retention / 2, consumer.now())
        return Readiness(not waiting and not late, {"waiting": waiting, "late": late})

    def figures() -> CollectorRegistry:
        return consumer.figures.show(consumer.now())

    app = application(Service(Api(TITLE, SUMMARY), ready, figures))
    stop, settled, failed = threading.Event(), [0], list[BaseException]()
    with Server(app, listening, ConnectionLimits()) as server:

        def consume() -> None:
            try:
                settled[0] = consumer.run(stop)
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)
            server.end()

        thread = threading.Thread(target=consume, name="consumer")
        thread.start()
        server.run()
        stop.set()
        thread.join()
    if failed:
        raise failed[0]
    return settled[0]
