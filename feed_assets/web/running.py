"""Running the service of data dependencies, workflows, runs and sources: its APIs and its pages, until a signal.

Here: the parts of one process. Not here: its options (`cli`), and its answers (`dependencies.http.operations`,
`workflow_operations`, `run_operations`, `source_operations`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from socket import socket
from typing import Final

from prometheus_client import CollectorRegistry, Gauge
from starlette.applications import Starlette

from feed_assets.blackboard.port import BlackboardError
from feed_assets.dependencies.errors import StateCopyError
from feed_assets.dependencies.gate.flow_port import FlowAnswers
from feed_assets.dependencies.http.api import DependencyApi
from feed_assets.dependencies.http.operations import operations
from feed_assets.dependencies.http.recent_events import RecentEvents
from feed_assets.dependencies.service import Dependencies
from feed_assets.dependencies.state_copy import StateCopy
from feed_assets.serving.access import Access
from feed_assets.serving.connections import ConnectionLimits
from feed_assets.serving.documents import Api
from feed_assets.serving.service import Readiness, Server, Service, application
from feed_assets.serving.tokens import KnownTokens
from feed_assets.state.address import StoreError
from feed_assets.state.store import Store
from feed_assets.web.pages import routes
from feed_assets.web.request_answers import RequestSays
from feed_assets.web.run_operations import RunsApi
from feed_assets.web.source_answers import SourceSays
from feed_assets.web.source_operations import SourcesApi
from feed_assets.web.watched_workflows import WatchedWorkflows
from feed_assets.web.workflow_operations import WorkflowsApi

COPY_SECONDS: Final = 5
"""How often what has changed is copied to the blackboard."""
_log = logging.getLogger(__name__)
TITLE: Final = "feed_assets dependencies"
SUMMARY: Final = (
    "Which slots of which datasets are complete and good, what may therefore start, how workflows go, how long runs "
    "take, and how sources stand."
)


@dataclass(slots=True)
class _Figures:
    """The figures of `/metrics`."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    datasets: Gauge = field(init=False)
    newest: Gauge = field(init=False)

    def __post_init__(self) -> None:
        name = "feed_assets_dependencies"
        self.datasets = Gauge(f"{name}_datasets", "Declared datasets", registry=self.registry)
        self.newest = Gauge(f"{name}_newest_event", "Number of the newest event", registry=self.registry)


@dataclass(slots=True)
class _Copying:
    """Keeps the copy of the state."""

    copy: StateCopy

    async def follow(self) -> None:
        """Copy what is new until this is cancelled. Each problem is logged once."""
        problem = ""
        while True:
            before, problem = problem, ""
            try:
                await asyncio.to_thread(self.copy.write)
            except (StateCopyError, StoreError, BlackboardError) as error:
                problem = str(error)
                if problem != before:
                    _log.error("The state database is not copied: %s", problem)
            await asyncio.sleep(COPY_SECONDS)


def create_app(
    store: Store,
    base: str,
    states: Dependencies,
    flows: FlowAnswers,
    *,
    now: Callable[[], datetime],
    tokens: KnownTokens,
    copy: StateCopy | None = None,
    workflows: WatchedWorkflows | None = None,
    deadlines: Mapping[str, time] | None = None,
    sources: Callable[[], list[SourceSays]] = list,
    requests: Callable[[str], RequestSays | None] = lambda _: None,
) -> Starlette:
    """The ASGI application. Its lifespan follows the events and the tokens, and keeps the `copy` of the state.

    `deadlines` are those of the series of the history of runs; `sources` says how sources stand, or raises StoreError;
    `requests` where the records of a request are, or raises BlackboardError.
    """
    recent, figures, access = RecentEvents(states, now), _Figures(), Access(tokens, now)
    api = DependencyApi(store, base, states, flows, access, recent, now)
    about_workflows = WorkflowsApi(workflows or WatchedWorkflows.of((), base), access)
    about_runs, about_sources = RunsApi(store, base, deadlines or {}, access), SourcesApi(sources, requests, access)

    def ready() -> Readiness:
        """Whether the events are followed, so that answers are current."""
        return Readiness(recent.is_current, {"follows_events": recent.is_current})

    def shown() -> CollectorRegistry:
        figures.datasets.set(len(states.datasets))
        figures.newest.set(max(recent.newest, 0))
        return figures.registry

    return application(
        Service(
            Api(
                TITLE,
                SUMMARY,
                [
                    *operations(api),
                    *about_workflows.operations(),
                    *about_runs.operations(),
                    *about_sources.operations(),
                ],
            ),
            ready,
            shown,
            [recent.follow, tokens.follow, *([] if copy is None else [_Copying(copy).follow])],
            routes(),
        )
    )


def run(
    store: Store,
    base: str,
    states: Dependencies,
    flows: FlowAnswers,
    listening: socket,
    *,
    now: Callable[[], datetime],
    ready: Callable[[], None] = lambda: None,
    tls: tuple[str, str] | None = None,
    copy: StateCopy | None = None,
    workflows: WatchedWorkflows | None = None,
    deadlines: Mapping[str, time] | None = None,
    sources: Callable[[], list[SourceSays]] = list,
    requests: Callable[[str], RequestSays | None] = lambda _: None,
) -> None:
    """Answer requests on this socket until SIGTERM or SIGINT. `tls` has the files of a certificate and its key.

    What changes is written to the `copy` of the state, every few seconds.

    `base` is the URI of the feeds' base. Raises StoreError if the tokens cannot be read.
    """
    tokens = KnownTokens(store)
    tokens.refresh()
    app = create_app(
        store,
        base,
        states,
        flows,
        now=now,
        tokens=tokens,
        copy=copy,
        workflows=workflows,
        deadlines=deadlines,
        sources=sources,
        requests=requests,
    )
    with Server(app, listening, ConnectionLimits(), tls=tls) as server:
        ready()
        server.run()
