"""The part of the HTTP API about quality: marks, and backfills. Each command may be sent again.

Here: the operations. Not here: what marks mean (`quality`), and items one by one (`reports`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.facts import Status
from feed_assets.dependencies.http.answers import BackfillsSay, MarksSay, backfill_says, known_mark_says
from feed_assets.dependencies.http.api import ROOT, DependencyApi
from feed_assets.dependencies.http.given import BackfillEnded, BackfillGiven, MarkEnded, MarkGiven
from feed_assets.dependencies.http.parameters import REFUSALS, Parameter, Query, described, refusing
from feed_assets.dependencies.http.reports import OutcomeSays, Reports, batch_operation, one_by_one
from feed_assets.dependencies.http.verbs import Verb
from feed_assets.dependencies.quality.marks import Author, Mark, SlotRevision
from feed_assets.serving.access import Caller
from feed_assets.serving.answers import json_answer
from feed_assets.serving.documents import Operation, Says


def marking(reports: Reports) -> list[Operation]:
    """The operations about quality."""
    return [
        _list_marks(reports.api),
        _set_marks(reports),
        _remove_marks(reports),
        _list_backfills(reports.api),
        _open_backfills(reports),
        _close_backfills(reports),
    ]


def _list_marks(api: DependencyApi) -> Operation:
    parameters = (Parameter("dataset"), Parameter("removed"))

    async def listed(request: Request) -> Response:
        """The marks that are set on slots of the datasets that the token may read, oldest first."""
        query = Query(request, parameters)
        may_read, removed = _readable(api, request, query), query.flag("removed")

        def work() -> MarksSay:
            api.states.refresh()
            found = [each for each in api.states.quality.marks(removed=removed) if may_read(each.on.slot.dataset)]
            return MarksSay([known_mark_says(each, api.states.answer(each.on.slot).revision) for each in found])

        return json_answer(200, await api.asked(work))

    answers = {200: Says("The marks.", MarksSay), **REFUSALS}
    return Operation("GET", f"{ROOT}/marks", refusing(listed), answers, described(parameters))


def _set_marks(reports: Reports) -> Operation:
    states, now = reports.api.states, reports.api.now

    async def mark(request: Request) -> Response:
        """Say that revisions of slots are bad. The same mark again, by its id or by its content, is known."""

        def fact(caller: Caller, each: MarkGiven) -> tuple[Slot, MarkGiven, Author]:
            return reports.given.slot(each), each, _author(caller)

        def take(all_: Sequence[tuple[Slot, MarkGiven, Author]]) -> list[OutcomeSays]:
            states.refresh()
            known = {each.id: each for each in states.quality.marks(removed=True)}
            return one_by_one(all_, lambda each: one(known, *each))

        def one(known: dict[str, Mark], slot: Slot, given: MarkGiven, author: Author) -> OutcomeSays:
            if (same := _same_mark(known, slot, given, author, states.answer(slot).revision or 1)) is not None:
                return OutcomeSays(Status.KNOWN, id=same)
            made = states.quality.mark(
                slot,
                reason=given.reason,
                author=author,
                evidence=given.evidence,
                revision=given.revision,
                mark_id=given.id,
                now=now(),
            )
            known[made.id] = made
            return OutcomeSays(Status.ACCEPTED, id=made.id)

        return await reports.batch(request, MarkGiven, Verb.MARK, fact, take)

    return batch_operation("/marks", mark, MarkGiven)


def _same_mark(known: Mapping[str, Mark], slot: Slot, given: MarkGiven, author: Author, present: int) -> str | None:
    """The id of the mark that was given before: by its id if it has one, else one that holds, with equal content."""
    content = (slot, author, given.reason)
    if given.id:
        found = known.get(given.id)
        if found is None or (found.on.slot, found.author, found.reason) != content:
            return None
        return found.id if given.revision in {None, found.on.revision} else None
    on = SlotRevision(slot, given.revision or present)
    holds = (each for each in known.values() if each.on == on and each.removal is None)
    return next((each.id for each in holds if (slot, each.author, each.reason) == content), None)


def _remove_marks(reports: Reports) -> Operation:
    states, now = reports.api.states, reports.api.now

    async def remove(request: Request) -> Response:
        """Take marks back, and from all that was computed from their slots. A mark that is removed stays so."""

        def one(given: MarkEnded, author: Author) -> OutcomeSays:
            if states.quality.known_mark(given.id).removal is not None:
                return OutcomeSays(Status.KNOWN, id=given.id)
            states.quality.unmark(given.id, reason=given.reason, author=author, now=now())
            return OutcomeSays(Status.ACCEPTED, id=given.id)

        await reports.change(states.refresh)
        return await reports.batch(
            request,
            MarkEnded,
            Verb.MARK,
            lambda caller, each: (each, _author(caller)),
            lambda all_: one_by_one(all_, lambda each: one(*each)),
            dataset=lambda each: states.quality.known_mark(each.id).on.slot.dataset,
        )

    return batch_operation("/marks/remove", remove, MarkEnded)


def _list_backfills(api: DependencyApi) -> Operation:
    parameters = (Parameter("dataset"),)

    async def listed(request: Request) -> Response:
        """The open backfills of datasets that the token may read, oldest first."""
        may_read = _readable(api, request, Query(request, parameters))

        def work() -> BackfillsSay:
            api.states.refresh()
            found = (each for each in api.states.quality.open_backfills() if may_read(each.slots[0].dataset))
            return BackfillsSay([backfill_says(each) for each in found])

        return json_answer(200, await api.asked(work))

    answers = {200: Says("The backfills.", BackfillsSay), **REFUSALS}
    return Operation("GET", f"{ROOT}/backfills", refusing(listed), answers, described(parameters))


def _open_backfills(reports: Reports) -> Operation:
    states, now = reports.api.states, reports.api.now

    async def open_(request: Request) -> Response:
        """Make slots again: they are reopened, and stay incomplete until the backfill is closed."""

        def fact(caller: Caller, each: BackfillGiven) -> tuple[list[Slot], BackfillGiven, Author]:
            return reports.given.slots(each, each.last), each, _author(caller)

        def one(slots: list[Slot], given: BackfillGiven, author: Author) -> OutcomeSays:
            for each in states.quality.backfills() if given.id else states.quality.open_backfills():
                content = ([*each.slots], each.opened.author, each.opened.reason)
                if given.id in {"", each.id} and content == (slots, author, given.reason):
                    return OutcomeSays(Status.KNOWN, id=each.id)
            opened = states.open_backfill(slots, reason=given.reason, author=author, backfill_id=given.id, now=now())
            return OutcomeSays(Status.ACCEPTED, id=opened.id)

        await reports.change(states.refresh)
        return await reports.batch(
            request, BackfillGiven, Verb.MARK, fact, lambda all_: one_by_one(all_, lambda each: one(*each))
        )

    return batch_operation("/backfills", open_, BackfillGiven)


def _close_backfills(reports: Reports) -> Operation:
    states, now = reports.api.states, reports.api.now

    async def close(request: Request) -> Response:
        """End backfills: their slots are made again, or what was there before stays."""

        def one(given: BackfillEnded, author: Author) -> OutcomeSays:
            if states.quality.backfill(given.id).closed is not None:
                return OutcomeSays(Status.KNOWN, id=given.id)
            states.close_backfill(given.id, reason=given.reason, author=author, abandoned=given.abandoned, now=now())
            return OutcomeSays(Status.ACCEPTED, id=given.id)

        await reports.change(states.refresh)
        return await reports.batch(
            request,
            BackfillEnded,
            Verb.MARK,
            lambda caller, each: (each, _author(caller)),
            lambda all_: one_by_one(all_, lambda each: one(*each)),
            dataset=lambda each: states.quality.backfill(each.id).slots[0].dataset,
        )

    return batch_operation("/backfills/close", close, BackfillEnded)


def _readable(api: DependencyApi, request: Request, query: Query) -> Callable[[str], bool]:
    """Whether the answer may be about a dataset: the one that is asked for, or any that the token may read."""
    caller, name = api.access.caller(request), query.optional("dataset")
    if name is not None:
        api.allowed(request, Verb.READ, name)
    return lambda dataset: name in {None, dataset} and caller.may(Verb.READ, dataset)


def _author(caller: Caller) -> Author:
    return Author.person(caller.name or "local")
