"""The part of the HTTP API about starts: forcing one, the attempts at a slot, and pausing flows.

Here: the operations. Not here: attempts and pauses (`starts`), the run of a forced start (a sensor), and bodies
(`reports`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from feed_assets.datasets.instants import instant_of
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.facts import Status
from feed_assets.dependencies.http.answers import time_says
from feed_assets.dependencies.http.api import ROOT
from feed_assets.dependencies.http.given import Text
from feed_assets.dependencies.http.parameters import REFUSALS, Parameter, Query, described, refusing
from feed_assets.dependencies.http.reports import OutcomeSays, Reports, one_operation
from feed_assets.dependencies.http.verbs import Verb
from feed_assets.serving.answers import json_answer
from feed_assets.serving.documents import Operation, Says
from feed_assets.starts.attempt import Attempt, AttemptRefusedError
from feed_assets.starts.attempts import Attempts
from feed_assets.starts.pauses import Pauses

_FLOW: Final = (Parameter("flow", required=True), Parameter("partition", required=True))


class StartGiven(msgspec.Struct, forbid_unknown_fields=True):
    """A partition of a flow to start, whatever the gate says."""

    flow: Text
    partition: Text
    reason: Text


class PauseGiven(msgspec.Struct, forbid_unknown_fields=True):
    """A flow that is to start nothing by itself."""

    flow: Text
    reason: Text


class ResumeGiven(msgspec.Struct, forbid_unknown_fields=True):
    """A flow that is to go on."""

    flow: Text


class AttemptSays(msgspec.Struct, frozen=True):
    """An attempt at a partition of a flow. `forced_by` is None if the gate requested it."""

    number: int
    state: str
    tries: int
    most: int
    requested: str
    started: str | None
    ended: str | None
    forced_by: str | None
    run: str | None
    reason: str


class AttemptsSay(msgspec.Struct, frozen=True):
    """The last attempts at a partition, oldest first."""

    attempts: list[AttemptSays]


def starting(reports: Reports) -> list[Operation]:
    """The operations about starts. Those that change something need the verb `start` of the flow's dataset."""
    api = reports.api
    known, pauses = Attempts(api.store, api.base, api.now), Pauses(api.store, api.base, api.now)

    async def attempts(request: Request) -> Response:
        """The last attempts at a partition of a flow: why each was requested, its run, and how it ended."""
        query = Query(request, _FLOW)
        feed = api.flows.dataset_of(query.text("flow"))
        api.access.caller(request).require(Verb.READ, feed)
        found = await api.asked(lambda: known.of(feed, query.text("partition")))
        return json_answer(200, AttemptsSay([_says(each) for each in found]))

    async def start(request: Request) -> Response:
        """Force the start of a partition: the next tick of the sensor asks Dagster for its run.

        It is refused with 409 while another attempt lives. Sent again with the same reason, it is `known`.
        """
        caller, given = await reports.one(request, StartGiven)
        feed = api.flows.dataset_of(given.flow)
        caller.require(Verb.START, feed)
        by = caller.name or "local"

        def work() -> Status:
            verdict = api.flows.explain(given.flow, given.partition)  # refuses a partition that there is not
            if verdict.case.ends is not None and verdict.case.ends > api.now():
                raise RefusedFactError(f"{given.flow} {given.partition} has not ended, so it cannot start.")
            newest = known.newest(feed, [given.partition]).get(given.partition)
            if newest is not None and newest.alive and (newest.forced, newest.reason) == (by, given.reason):
                return Status.KNOWN
            known.ask(feed, given.partition, by=by, reason=given.reason)
            return Status.ACCEPTED

        try:
            return json_answer(200, OutcomeSays(await reports.change(work)))
        except AttemptRefusedError as error:
            raise HTTPException(409, str(error)) from None

    async def pause(request: Request) -> Response:
        """Pause a flow: it starts nothing by itself. Runs under way go on, and nothing that is due is lost."""
        caller, given = await reports.one(request, PauseGiven)
        feed, by = api.flows.dataset_of(given.flow), caller.name or "local"
        caller.require(Verb.START, feed)

        def work() -> Status:
            lasts = (before := pauses.all().get(feed)) is not None and before.lasts
            pauses.pause(feed, by=by, reason=given.reason)
            return Status.KNOWN if lasts else Status.ACCEPTED

        return json_answer(200, OutcomeSays(await reports.change(work)))

    async def resume(request: Request) -> Response:
        """End the pause of a flow."""
        caller, given = await reports.one(request, ResumeGiven)
        feed, by = api.flows.dataset_of(given.flow), caller.name or "local"
        caller.require(Verb.START, feed)
        ended = await reports.change(lambda: pauses.resume(feed, by=by))
        return json_answer(200, OutcomeSays(Status.KNOWN if ended is None else Status.ACCEPTED))

    answers = {200: Says("The attempts.", AttemptsSay), **REFUSALS}
    return [
        Operation("GET", f"{ROOT}/attempts", refusing(attempts), answers, described(_FLOW)),
        one_operation("/starts", start, StartGiven),
        one_operation("/flows/pause", pause, PauseGiven),
        one_operation("/flows/resume", resume, ResumeGiven),
    ]


def _says(attempt: Attempt) -> AttemptSays:
    return AttemptSays(
        attempt.number,
        str(attempt.state),
        attempt.tries,
        attempt.most,
        time_says(instant_of(attempt.requested)),
        _time(attempt.started),
        _time(attempt.ended),
        attempt.forced or None,
        attempt.run or None,
        attempt.reason,
    )


def _time(at: datetime | None) -> str | None:
    return None if at is None else time_says(instant_of(at))
