"""The part of the HTTP API that takes facts: parts, numbers, waivers, reopenings.

Here: bodies, and their items one by one. Each operation may be sent again: what is known already changes nothing. Not
here: what facts mean (`service`), and questions (`http`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import DependencyError, RefusedFactError
from feed_assets.dependencies.facts import Ends, Number, Outcome, Status
from feed_assets.dependencies.http.api import ROOT, DependencyApi
from feed_assets.dependencies.http.given import (
    EndsGiven,
    GivenFacts,
    NumberGiven,
    PartGiven,
    ReleaseGiven,
    ReopenGiven,
    ReplaceGiven,
    WaiverEnded,
    WaiverGiven,
)
from feed_assets.dependencies.http.parameters import REFUSALS, described, refusing
from feed_assets.dependencies.http.verbs import Verb
from feed_assets.dependencies.quality.marks import QualityError
from feed_assets.serving.access import Caller
from feed_assets.serving.answers import CLOSE, Problem, json_answer
from feed_assets.serving.bodies import BodyLimits, read_body
from feed_assets.serving.content import Content, MediaTypes, UnsupportedError
from feed_assets.serving.documents import Endpoint, Operation, Says
from feed_assets.serving.grants import ALL
from feed_assets.serving.holding import HeldBytes

REFUSED: Final = (DependencyError, DatasetError, QualityError)
"""What the service raises for a fact or command that cannot be taken."""
MOST_ITEMS: Final = 1_000
LIMITS: Final = BodyLimits(sent_bytes=4 * 1024**2, unpacked_bytes=16 * 1024**2, seconds=30.0)
HELD_BYTES: Final = 128 * 1024**2
TYPES: Final = MediaTypes(frozenset({"application/json"}), described="application/json in UTF-8")


class OutcomeSays(msgspec.Struct, frozen=True):
    """What became of an item: `accepted`, `known` already, or `refused`, with the reason.

    `id` is that of a waiver, a mark or a backfill.
    """

    status: str
    message: str = ""
    id: str = ""


class OutcomesSay(msgspec.Struct, frozen=True):
    """An outcome for each item, in order."""

    outcomes: list[OutcomeSays]


_Item = TypeVar("_Item")
_Fact = TypeVar("_Fact")
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(slots=True)
class Reports:
    """Takes facts. One change at a time: a check and what follows from it belong together."""

    api: DependencyApi
    given: GivenFacts = field(init=False)
    held: HeldBytes = field(default_factory=lambda: HeldBytes(HELD_BYTES))
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.given = GivenFacts(self.api.states.datasets, listed_by=f"{ROOT}/datasets")

    async def batch(
        self,
        request: Request,
        kind: type[_Item],
        verb: Verb,
        fact: Callable[[Caller, _Item], _Fact],
        take: Callable[[Sequence[_Fact]], Sequence[Outcome | OutcomeSays]],
        *,
        dataset: Callable[[_Item], str] = attrgetter("dataset"),
    ) -> Response:
        """Take the items of a JSON array. Those that make no sense, or that the token does not allow, are refused."""
        caller = self.api.access.caller(request)
        outcomes: dict[int, Outcome | OutcomeSays] = {}
        facts: dict[int, _Fact] = {}
        try:
            body = await self._body(request)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it
        decode = msgspec.json.Decoder(kind).decode
        for number, raw in enumerate(_divided(body)):
            try:
                item = decode(raw)
                if not caller.may(verb, name := dataset(item)):
                    raise RefusedFactError(f"this token does not {verb} {name!r}.")
                facts[number] = fact(caller, item)
            except (msgspec.MsgspecError, *REFUSED, UnicodeDecodeError, RecursionError) as error:
                outcomes[number] = Outcome(Status.REFUSED, str(error))
        if facts:
            taken = await self.change(lambda: take(list(facts.values())))
            outcomes.update(zip(facts, taken, strict=True))
        return json_answer(200, OutcomesSay([_said(outcomes[number]) for number in sorted(outcomes)]))

    async def one(self, request: Request, kind: type[_Item]) -> tuple[Caller, _Item]:
        """The caller, and a body that is one object. Raises HTTPException."""
        caller = self.api.access.caller(request)
        try:
            return caller, msgspec.json.decode(await self._body(request), type=kind)
        except ClientDisconnect:
            raise HTTPException(400, "The body broke off; send it again.", CLOSE) from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise HTTPException(400, f"The body makes no sense: {error}") from None

    async def change(self, work: Callable[[], Any]) -> Any:
        """Do `work`, which changes something, in a thread."""
        async with self._turn:
            return await asyncio.to_thread(work)

    async def _body(self, request: Request) -> bytes:
        try:
            content = Content.of(request.scope["headers"], TYPES)
        except UnsupportedError as error:
            raise HTTPException(415, str(error), CLOSE) from None
        with self.held.of_a_request() as hold:
            return await read_body(request, LIMITS, hold, is_packed=content.is_packed)


def one_by_one(all_: Sequence[_Fact], take: Callable[[_Fact], Outcome | OutcomeSays]) -> list[OutcomeSays]:
    """The outcome of each command, in a transaction of its own."""

    def outcome(each: _Fact) -> Outcome | OutcomeSays:
        try:
            return take(each)
        except REFUSED as error:
            return Outcome(Status.REFUSED, str(error))

    return [_said(outcome(each)) for each in all_]


def reporting(reports: Reports) -> list[Operation]:
    """The operations that take facts."""
    return [*_of_parts(reports), *_of_numbers(reports), *_of_persons(reports), *_of_waivers(reports)]


def _of_parts(reports: Reports) -> list[Operation]:
    states, now = reports.api.states, reports.api.now

    async def parts(request: Request) -> Response:
        """Say which parts have landed. Each is answered on its own; a part that is known by its id counts once."""
        return await reports.batch(
            request,
            PartGiven,
            Verb.REPORT,
            lambda _, each: reports.given.part(each),
            lambda all_: states.report(all_, now=now()),
        )

    async def replace(request: Request) -> Response:
        """Retract parts and count new ones in their place, in one transaction. Sent again, it changes nothing."""
        caller, given = await reports.one(request, ReplaceGiven)
        caller.require(Verb.REPORT, given.dataset)
        new = [reports.given.part(each) for each in given.new]
        await reports.change(
            lambda: states.replace(given.dataset, given.member, given.old, new, now=now(), equal_to=given.equal_to)
        )
        return json_answer(200, OutcomeSays(Status.ACCEPTED))

    return [batch_operation("/parts", parts, PartGiven), one_operation("/parts/replace", replace, ReplaceGiven)]


def _of_numbers(reports: Reports) -> list[Operation]:
    states, now = reports.api.states, reports.api.now

    async def numbers(request: Request) -> Response:
        """Say how many records base slots have at the source. Each number is answered on its own."""

        def fact(_: Caller, each: NumberGiven) -> Number:
            return reports.given.number(each)

        return await reports.batch(request, NumberGiven, Verb.EXPECT, fact, lambda all_: states.expect(all_, now=now()))

    async def ends(request: Request) -> Response:
        """Say the end positions of streams after a slot, for datasets with the basis `covered`."""

        def fact(_: Caller, each: EndsGiven) -> Ends:
            return reports.given.ends(each)

        return await reports.batch(request, EndsGiven, Verb.EXPECT, fact, lambda all_: states.expect(all_, now=now()))

    return [batch_operation("/numbers", numbers, NumberGiven), batch_operation("/ends", ends, EndsGiven)]


def _of_persons(reports: Reports) -> list[Operation]:
    states, now = reports.api.states, reports.api.now

    async def reopen(request: Request) -> Response:
        """Begin new revisions of slots, as one act for each slot, because something was wrong with the present ones."""

        def fact(caller: Caller, each: ReopenGiven) -> tuple[Slot, int, str, bool]:
            return reports.given.slot(each), each.revision, signed(each.reason, caller), each.hold

        def take(all_: Sequence[tuple[Slot, int, str, bool]]) -> list[OutcomeSays]:
            states.refresh()
            return one_by_one(all_, lambda each: one(*each))

        def one(slot: Slot, revision: int, reason: str, hold: bool) -> Outcome:  # noqa: FBT001 - a value of a tuple
            answer = states.answer(slot)
            if answer.revision > revision or (answer.revision == revision and not answer.complete):
                return Outcome(Status.KNOWN, f"{slot} is at revision {answer.revision}.")
            if answer.revision < revision:
                return Outcome(Status.REFUSED, f"{slot} is at revision {answer.revision}, not yet at {revision}.")
            states.reopen([slot], reason=reason, now=now(), hold=hold)
            return Outcome(Status.ACCEPTED)

        return await reports.batch(request, ReopenGiven, Verb.MARK, fact, take)

    async def release(request: Request) -> Response:
        """End backfills that `reopen` has opened with `hold`."""

        def one(slot: Slot, equal: bool) -> Outcome:  # noqa: FBT001 - a value of a tuple
            states.release([slot], now=now(), equal_to=equal)
            return Outcome(Status.ACCEPTED)

        return await reports.batch(
            request,
            ReleaseGiven,
            Verb.MARK,
            lambda _, each: (reports.given.slot(each), each.equal_to),
            lambda all_: one_by_one(all_, lambda each: one(*each)),
        )

    return [batch_operation("/reopen", reopen, ReopenGiven), batch_operation("/release", release, ReleaseGiven)]


def _of_waivers(reports: Reports) -> list[Operation]:
    states, now = reports.api.states, reports.api.now

    async def waive(request: Request) -> Response:
        """Say that slots need not be complete. The same reason for the same slot again is the same waiver."""

        def fact(caller: Caller, each: WaiverGiven) -> tuple[Slot, str, str]:
            return reports.given.slot(each), each.reason, caller.name or "local"

        def take(all_: Sequence[tuple[Slot, str, str]]) -> list[OutcomeSays]:
            states.refresh()
            return one_by_one(all_, lambda each: one(*each))

        def one(slot: Slot, reason: str, by: str) -> OutcomeSays:
            for known in states.answer(slot).waived:
                text, _, id_ = known.removesuffix(")").rpartition(" (")
                if text == reason:
                    return OutcomeSays(Status.KNOWN, id=id_)
            return OutcomeSays(Status.ACCEPTED, id=states.waive([slot], reason=reason, by=by, now=now()))

        return await reports.batch(request, WaiverGiven, Verb.MARK, fact, take)

    async def unwaive(request: Request) -> Response:
        """Take a waiver back, by its id: slots whose rule does not hold are reopened. Needs the grant `mark:*`."""
        caller, given = await reports.one(request, WaiverEnded)
        caller.require(Verb.MARK, ALL)
        await reports.change(
            lambda: states.unwaive(given.id, reason=given.reason, by=caller.name or "local", now=now())
        )
        return json_answer(200, OutcomeSays(Status.ACCEPTED))

    return [batch_operation("/waivers", waive, WaiverGiven), one_operation("/waivers/end", unwaive, WaiverEnded)]


def signed(reason: str, caller: Caller) -> str:
    """A reason with the name of the token's owner."""
    return f"{reason} ({caller.name})" if caller.name else reason


def _divided(body: bytes) -> list[msgspec.Raw]:
    """The items of an array. Raises HTTPException."""
    try:
        items = _items(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(400, f"The body is no array of JSON: {error}. Nothing was taken.") from None
    if len(items) > MOST_ITEMS:
        raise HTTPException(413, f"The body has {len(items):,} items, more than {MOST_ITEMS:,}; send it in parts.")
    return items


def _said(outcome: Outcome | OutcomeSays) -> OutcomeSays:
    return outcome if isinstance(outcome, OutcomeSays) else OutcomeSays(str(outcome.status), outcome.message)


_MORE_REFUSALS: Final = {
    408: Says("The body came too slowly", Problem),
    413: Says("The body is too large, or has too many items", Problem),
    415: Says("The body has another type, charset or packing", Problem),
    429: Says("Too much is under way; send it again", Problem),
}


def batch_operation(path: str, endpoint: Endpoint, item: type[Any]) -> Operation:
    """An operation that takes an array, as the API's document has it."""
    body = {"type": "array", "items": _schema(item), "maxItems": MOST_ITEMS}
    return _post(path, endpoint, body, OutcomesSay, "An outcome for each item.")


def one_operation(path: str, endpoint: Endpoint, item: type[Any]) -> Operation:
    """An operation that takes one object, as the API's document has it."""
    return _post(path, endpoint, _schema(item), OutcomeSays, "It is done, or was done before.")


def _post(path: str, endpoint: Endpoint, body: dict[str, Any], content: Any, meaning: str) -> Operation:
    answers = {200: Says(meaning, content), **REFUSALS, **_MORE_REFUSALS}
    given = {"required": True, "content": {"application/json": {"schema": body}}}
    return Operation("POST", f"{ROOT}{path}", refusing(endpoint), answers, described(()), given)


def _schema(item: type[Any]) -> dict[str, Any]:
    """The schema of an item, without references."""
    (schema,), components = msgspec.json.schema_components([item], ref_template="{name}")
    found: dict[str, Any] = _resolved(schema, components)
    return found


def _resolved(schema: Any, components: dict[str, Any]) -> Any:
    if isinstance(schema, dict):
        if (name := schema.get("$ref")) is not None:
            return _resolved(components[name], components)
        return {key: _resolved(value, components) for key, value in schema.items()}
    return [_resolved(each, components) for each in schema] if isinstance(schema, list) else schema
