"""Running a receiver: its parts, in the order in which they start and end.

Here: the whole of one process, until a signal. Not here: its options, and which source of settings they have (`cli`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from socket import socket
from typing import Any

from feed_assets.journal.group_commit import SWITCH_SECONDS
from feed_assets.journal.segments import Segments
from feed_assets.receiving.committing import Committer
from feed_assets.receiving.door import can_be_pushed
from feed_assets.receiving.keeping import Keeper
from feed_assets.receiving.landing_segments import Place
from feed_assets.receiving.limits import Limits
from feed_assets.receiving.metrics import Metrics
from feed_assets.receiving.server import Receiver, create_app
from feed_assets.serving.connections import ConnectionLimits
from feed_assets.serving.service import Server
from feed_assets.serving.signatures import Verifier
from feed_assets.sources.spec import Source
from feed_assets.state.store import Store


def run(
    sources: Sequence[Source],
    store: Store,
    journal: Segments,
    place: Callable[[], Place],
    limits: Limits,
    listening: socket,
    *,
    now: Callable[[], datetime],
    with_tokens: bool,
    ready: Callable[[], None] = lambda: None,
    tls: tuple[str, str] | None = None,
    processes: Any = None,
    verifiers: Mapping[str, Verifier] | None = None,
) -> None:
    """Take requests on this socket until SIGTERM or SIGINT. Then end them, seal the journal, and end the lander.

    `place` is sent to the lander's process, which `processes`, a context of multiprocessing, starts. `tls` has the
    files of a certificate and its key. `ready` is called when no other receiver can take the journal any more.
    `verifiers` check signatures, by the key of a source. Raises JournalError, StoreError, and the errors of the
    journal's medium.
    """
    metrics = Metrics(source.key for source in sources if can_be_pushed(source))
    keeper = Keeper(journal, store, place, landed=metrics.land, processes=processes)
    committer = Committer(journal, store, keeper.add, limits, observe=metrics.observe)
    keeper.recorded, keeper.tallies = committer.forget, committer.tallies
    receiver = Receiver(sources, store, committer, keeper, limits, metrics, with_tokens, now, verifiers=verifiers or {})
    receiver.refresh()
    committer.start()
    ready()
    sys.setswitchinterval(SWITCH_SECONDS)
    with Server(
        create_app(receiver), listening, ConnectionLimits(limits.body_seconds, limits.connections), tls=tls
    ) as server:
        keeper.start()
        try:
            server.run()
        finally:
            committer.close()
            keeper.stop()
