"""The HTTP API of data dependencies, below `/v1/dependencies`: what is complete, and why a flow waits.

Here: the operations, each of which asks `service` or the flows of the project. Not here: parameters (`parameters`),
types of answers (`answers`), who may ask (`verbs`), what every service has (`serving`), and pages (`web`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from feed_assets.datasets.instants import date_of, instant_of
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import EventsGoneError
from feed_assets.dependencies.gate.decision import InputState
from feed_assets.dependencies.gate.flow_port import Run
from feed_assets.dependencies.http.answers import (
    CalendarSays,
    DatasetsSay,
    DetailsSay,
    EventsSay,
    InputSays,
    PartSays,
    RunSays,
    SlotSays,
    SlotsSay,
    VerdictSays,
    calendar_says,
    dataset_says,
    event_says,
    mark_says,
    output_says,
    time_says,
    verdict_says,
)
from feed_assets.dependencies.http.api import ROOT, DependencyApi
from feed_assets.dependencies.http.calendar import Shown, slot_calendar
from feed_assets.dependencies.http.listing import listed_slots
from feed_assets.dependencies.http.marks import marking
from feed_assets.dependencies.http.parameters import GONE, MOST_EVENTS, REFUSALS, Parameter, Query, described, refusing
from feed_assets.dependencies.http.questions import asking
from feed_assets.dependencies.http.reports import Reports, reporting
from feed_assets.dependencies.http.starts import starting
from feed_assets.dependencies.http.verbs import Verb
from feed_assets.dependencies.outputs import output_of
from feed_assets.dependencies.service import Dependencies
from feed_assets.serving.answers import json_answer
from feed_assets.serving.documents import Endpoint, Operation, Says

SHOWN_EVENTS: Final = 50
"""How many events the history of a slot has."""
FIRST_EVENTS: Final = 100

_SLOT: Final = (Parameter("dataset", required=True), Parameter("member"), Parameter("grain"))
_START: Final = Parameter("start", required=True)
_RANGE: Final = (Parameter("from", required=True), Parameter("to"))
LETTERS: Final[Mapping[str, str]] = {str(each): each.name.lower() for each in Shown}


def operations(api: DependencyApi) -> list[Operation]:
    """What the API does."""
    reports = Reports(api)
    return [
        *_about_slots(api),
        *_about_ranges(api),
        *_about_changes(api),
        *_about_flows(api),
        *reporting(reports),
        *asking(reports),
        *starting(reports),
        *marking(reports),
    ]


def _about_slots(api: DependencyApi) -> list[Operation]:
    async def datasets(request: Request) -> Response:
        """The datasets that the token may read: their grains, their members, and how their slots become complete."""
        Query(request, ())
        caller = api.access.caller(request)
        found = [
            dataset_says(each, flow=api.flows.made_by(name), reads=api.flows.reads(name))
            for name, each in sorted(api.states.datasets.items())
            if caller.may(Verb.READ, name)
        ]
        return json_answer(200, DatasetsSay(found, time_says(instant_of(api.now())), max(api.recent.newest, 0)))

    async def slot(request: Request) -> Response:
        """What is known of a slot, from memory: complete or not, its revision, its numbers, what is missing."""
        query = Query(request, (*_SLOT, _START))
        _, declared = api.allowed(request, Verb.READ, query.text("dataset"))
        return json_answer(200, api.says(query.slot(declared)))

    async def details(request: Request) -> Response:
        """All about a slot: its answer, its events, the slots that it is made of and that are made of it, its runs."""
        query = Query(request, (*_SLOT, _START))
        caller, declared = api.allowed(request, Verb.READ, query.text("dataset"))
        found = query.slot(declared)
        events = [event_says(each) for each in api.recent.of(found, SHOWN_EVENTS)]

        def work() -> DetailsSay:
            runs, says, wrong = api.flows.runs(found), api.says(found), api.flows.wrong_files(found)
            return DetailsSay(
                slot=msgspec.structs.replace(says, why="; ".join(filter(None, (says.why, wrong)))),
                flow=api.flows.made_by(found.dataset),
                partition=api.flows.partition(found),
                reads=[_input(each) for each in api.flows.inputs(found) if caller.may(Verb.READ, each.slot.dataset)],
                read_by=[str(each) for each in api.flows.consumers(found) if caller.may(Verb.READ, each.dataset)],
                events=events,
                parts=_parts(api, found),
                marks=[mark_says(each) for each in api.states.quality.why_bad(found)],
                runs=None if runs is None else [_run(each) for each in runs],
                output=output_says(output_of(api.states, found)),
            )

        return json_answer(200, await api.asked(work))

    parameters = (*_SLOT, _START)
    return [
        _get("/datasets", datasets, DatasetsSay, "The datasets.", ()),
        _get("/slot", slot, SlotSays, "The slot.", parameters),
        _get("/slot/details", details, DetailsSay, "All about the slot.", parameters),
    ]


def _about_ranges(api: DependencyApi) -> list[Operation]:
    parameters = (*_SLOT, *_RANGE)

    async def slots(request: Request) -> Response:
        """What is known of each slot of some days. For many slots, ask for the calendar."""
        query = Query(request, parameters)
        _, declared = api.allowed(request, Verb.READ, query.text("dataset"))
        name, grain, member = declared.dataset.name, query.grain(), query.optional("member")
        first, last = (date_of(each) for each in query.days())

        def work() -> SlotsSay:
            return SlotsSay(listed_slots(api.states, name, first, last, grain=grain, member=member))

        return json_answer(200, await api.asked(work))

    async def calendar(request: Request) -> Response:
        """A letter for each slot of some days, by member: up to half a million."""
        query = Query(request, parameters)
        _, declared = api.allowed(request, Verb.READ, query.text("dataset"))
        grain, (first, last) = query.grain() or declared.dataset.base, query.days()
        clock, name, newest = instant_of(api.now()), declared.dataset.name, max(api.recent.newest, 0)

        def work() -> CalendarSays:
            found = slot_calendar(
                api.view(name),
                grain,
                first,
                last,
                clock=clock,
                member=query.optional("member"),
                progress=api.flows.progress,
                quality=api.quality,
            )
            return calendar_says(name, str(grain), found, letters=dict(LETTERS), newest=newest)

        return json_answer(200, await api.asked(work))

    return [
        _get("/slots", slots, SlotsSay, "The slots.", parameters),
        _get("/calendar", calendar, CalendarSays, "The calendar.", parameters),
    ]


def _about_changes(api: DependencyApi) -> list[Operation]:
    parameters = (Parameter("after"), Parameter("limit"), Parameter("wait"), Parameter("dataset"))

    async def events(request: Request) -> Response:
        """The events after a number, in order; with `wait`, the answer comes with the first event, or when time is up.

        Ask again with `next` as `after`: no event is left out or comes twice. Without `after`, the answer has no event,
        but the number from which to go on.
        """
        query = Query(request, parameters)
        caller = api.access.caller(request)
        if (dataset := query.optional("dataset")) is not None:
            caller.require(Verb.READ, dataset)
            api.declared(dataset)
        after, limit, seconds = query.number("after"), query.number("limit"), query.seconds("wait")
        limit = min(limit or FIRST_EVENTS, MOST_EVENTS)
        if after is None:
            return json_answer(200, EventsSay([], await asyncio.to_thread(api.states.newest)))
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            newest, read = await asyncio.to_thread(_read, api.states, after, limit)
            shown = [
                event_says(each)
                for each in read
                if (name := str(each.details.get("dataset", "")))
                and dataset in {None, name}
                and caller.may(Verb.READ, name)
            ]
            after = read[-1].sequence if read else max(after, newest)
            left = deadline - asyncio.get_running_loop().time()
            if shown or left <= 0 or await request.is_disconnected():
                return json_answer(200, EventsSay(shown, after))
            if len(read) < limit:
                await api.recent.wait(after, left)

    answers = {200: Says("The events.", EventsSay), **GONE, **REFUSALS}
    return [Operation("GET", f"{ROOT}/events", refusing(events), answers, described(parameters))]


def _about_flows(api: DependencyApi) -> list[Operation]:
    parameters = (Parameter("flow", required=True), Parameter("partition", required=True))

    async def explain(request: Request) -> Response:
        """Why a partition of a flow runs, or does not run yet: each stage of the gate in order, and each input."""
        query = Query(request, parameters)
        caller = api.access.caller(request)
        caller.require(Verb.READ, api.flows.dataset_of(query.text("flow")))
        verdict = await api.asked(lambda: api.flows.explain(query.text("flow"), query.text("partition")))
        return json_answer(200, verdict_says(verdict))

    return [_get("/explain", explain, VerdictSays, "The gate's answer.", parameters)]


def _get(path: str, endpoint: Endpoint, content: Any, meaning: str, parameters: Sequence[Parameter]) -> Operation:
    answers = {200: Says(meaning, content), **REFUSALS}
    return Operation("GET", f"{ROOT}{path}", refusing(endpoint), answers, described(parameters))


def _read(states: Dependencies, after: int, limit: int) -> tuple[int, list[Any]]:
    """The newest number, and the events after one; in this order, so that none comes in between."""
    newest = states.newest()
    if after > newest:
        raise EventsGoneError(
            f"after is {after}, and {newest} is the newest event: the database was replaced. Look at the answers, and "
            f"go on after {newest}.",
            newest,
        )
    return newest, states.events(after, limit)


def _parts(api: DependencyApi, slot: Slot) -> list[PartSays] | None:
    if (parts := api.parts(slot)) is None:
        return None
    return [PartSays(each.id, each.object, dict(each.records)[slot.start], each.stream) for each in parts]


def _input(given: InputState) -> InputSays:
    return InputSays(str(given.slot), given.complete, given.revision, str(given.quality), given.optional, given.why)


def _run(run: Run) -> RunSays:
    begun, ended = (None if each is None else time_says(instant_of(each)) for each in (run.begun, run.ended))
    return RunSays(run.id, run.status, begun, ended, list(run.assets))
