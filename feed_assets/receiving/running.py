"""Running a receiver: its parts, in the order in which they start and end.

Here: the whole of one process, until a signal. Not here: its options, and which source of settings they have (`cli`).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from socket import socket
from typing import Any

import uvicorn

from feed_assets.receiving.committing import Committer
from feed_assets.receiving.connections import ConnectionLimits, allow_files, options
from feed_assets.receiving.journal import Journal
from feed_assets.receiving.keeping import Keeper
from feed_assets.receiving.landing_segments import Place
from feed_assets.receiving.limits import Limits
from feed_assets.receiving.metrics import Metrics
from feed_assets.receiving.server import Receiver, create_app
from feed_assets.sources import Source
from feed_assets.state import Store

GRACE = 30
"""Seconds that requests have to end after SIGTERM."""

SWITCH_SECONDS = 0.0005
"""How soon a thread gives way: the thread that writes the journal waits for the thread that takes requests."""


def run(
    sources: Sequence[Source],
    store: Store,
    journal: Journal,
    place: Callable[[], Place],
    limits: Limits,
    listening: socket,
    *,
    now: Callable[[], datetime],
    with_tokens: bool,
    ready: Callable[[], None] = lambda: None,
    tls: tuple[str, str] | None = None,
    processes: Any = None,
) -> None:
    """Take requests on this socket until SIGTERM or SIGINT. Then end them, seal the journal, and end the lander.

    `place` is sent to the lander's process, which `processes`, a context of multiprocessing, starts. `tls` has the
    files of a certificate and its key. `ready` is called when no other receiver can take the journal any more. Raises
    JournalError, StoreError, and the errors of the journal's medium.
    """
    allow_files()
    metrics = Metrics()
    keeper = Keeper(journal, store, place, landed=metrics.land, processes=processes)
    committer = Committer(journal, store, keeper.add, limits, observe=metrics.observe)
    keeper.recorded = committer.forget
    receiver = Receiver(sources, store, committer, keeper, limits, metrics, with_tokens, now)
    receiver.refresh()
    committer.start()
    ready()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: None)  # uvicorn raises the signal again when all is done
    sys.setswitchinterval(SWITCH_SECONDS)
    keeper.start()
    try:
        config = uvicorn.Config(
            create_app(receiver),
            **options(ConnectionLimits(limits.body_seconds, limits.connections), tls),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
        uvicorn.Server(config).run([listening])
    finally:
        committer.close()
        keeper.stop()
