"""The process of a task master: a candidate, then the master, until a signal comes or a newer master reigns.

Here: the parts of one process, and their order. Not here: the options of its command (`cli`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from socket import socket
from typing import Final, NoReturn

from feed_assets.journal.group_commit import SWITCH_SECONDS
from feed_assets.processes.signals import stopped_by_signals
from feed_assets.serving.access import Access
from feed_assets.serving.connections import ConnectionLimits
from feed_assets.serving.service import Server, application
from feed_assets.serving.tokens import KnownTokens
from feed_assets.workflow import snapshots, sweep
from feed_assets.workflow.errors import StoppedError, SupersededError
from feed_assets.workflow.figures import Figures, MeasuredJournal
from feed_assets.workflow.master import Master
from feed_assets.workflow.places import Place
from feed_assets.workflow.reigns import take_over
from feed_assets.workflow.service import WorkflowApi
from feed_assets.workflow.snapshots import MUTATIONS, SECONDS
from feed_assets.workflow.state import State
from feed_assets.workflow.sweep import SWEEP_SECONDS

_LOOK_SECONDS: Final = 1.0
_LOAD: Final = "feed_assets.workflow.state:load"
_log = logging.getLogger(__name__)


def run_master(
    place: Place,
    listening: socket,
    url: str,
    *,
    tokens: KnownTokens,
    now: Callable[[], datetime],
    ready: Callable[[int], None] = lambda _: None,
    said: Callable[[str], None] = lambda _: None,
    tls: tuple[str, str] | None = None,
    failover_after: float | None = None,
) -> None:
    """Wait until this process is the master, and answer calls at `url` until SIGTERM or SIGINT.

    `ready` gets the epoch. `said` gets a sentence when something else than usual happens. Raises WorkflowError.
    """
    figures = Figures()
    with stopped_by_signals() as stop:
        try:
            reign, state = take_over(
                place, figures.timed(State.load), address=url, failover_after=failover_after, stop=stop, said=said
            )
        except StoppedError:
            return
    figures.replayed()
    journal = MeasuredJournal(reign, figures)
    master = Master(state, place.token, reign.epoch, journal, wall=time.time, ended=_end)
    api = WorkflowApi(place.name, master, Access(tokens, now), figures)
    making = SnapshotProcess(place, reign.epoch, state)
    app = application(api.service(making.follow, tokens.follow, lambda: _sweep_now_and_then(place)))
    sys.setswitchinterval(SWITCH_SECONDS)
    with reign.heart, Server(app, listening, ConnectionLimits(), tls=tls) as server:
        master.start()
        master.is_ending = lambda: server.is_ending
        reign.heart.tell(lambda newer: _end(SupersededError(f"Epoch {newer} has begun.")))
        ready(reign.epoch)
        server.run()
        master.close()
        reign.resign()


@dataclass(slots=True)
class SnapshotProcess:
    """Lets a process of its own make a snapshot when one is due, so that the master never stops for it."""

    place: Place
    epoch: int
    state: State
    position: int = field(init=False)
    since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.position = self.state.position

    def is_due(self) -> bool:
        """Whether enough has changed since the last one, or anything for long enough."""
        changed = self.state.position - self.position
        return changed >= MUTATIONS or (changed > 0 and time.monotonic() - self.since >= SECONDS)

    async def follow(self) -> None:
        """Make snapshots until this is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self.is_due():
                self.position, self.since = self.state.position, time.monotonic()
                await self.make()

    async def make(self) -> None:
        """Make a snapshot, and delete what it makes superfluous. A failure is logged: the next one covers more."""
        if problem := await _child(snapshots.__name__, self.place, str(self.epoch), _LOAD):
            _log.error("No snapshot was made: %s", problem)


async def _sweep_now_and_then(place: Place) -> None:
    """Let a process of its own delete files without owners, until this is cancelled. It reads what snapshots leave."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        if problem := await _child(sweep.__name__, place):
            _log.error("Files without owners were not deleted: %s", problem)


async def _child(module: str, place: Place, *arguments: str) -> str:
    """Run a module for a workflow in a process of its own; returns what went wrong, "" if nothing."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, place.board.uri(""), place.name, *arguments, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    return (said.decode(errors="replace").strip() or f"exit code {process.returncode}") if process.returncode else ""


def _end(error: Exception) -> NoReturn:
    """End this process without an answer to anybody: what memory has ahead of the journal ends with it."""
    _log.critical("This master ends: %s", error)
    logging.shutdown()
    os._exit(os.EX_TEMPFAIL)
