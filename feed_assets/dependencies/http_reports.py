"""The part of the HTTP API that takes facts: parts, numbers, waivers, reopenings.

Here: bodies, and their items one by one. Each operation may be sent again: what is known already changes nothing. Not
here: what facts mean (`service`), and questions (`http`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.dependency_api import ROOT, DependencyApi
from feed_assets.dependencies.errors import DependencyError, RefusedFactError
from feed_assets.dependencies.facts import Ends, Number, Outcome, Part, Status
from feed_assets.dependencies.http_access import Caller, Verb
from feed_assets.dependencies.http_requests import REFUSALS, described, refusing
from feed_assets.serving.answers import CLOSE, Problem, json_answer
from feed_assets.serving.bodies import BodyLimits, read_body
from feed_assets.serving.content import Content, MediaTypes, UnsupportedError
from feed_assets.serving.documents import Endpoint, Operation, Says
from feed_assets.serving.grants import ALL
from feed_assets.serving.holding import HeldBytes

MOST_ITEMS: Final = 1_000
LIMITS: Final = BodyLimits(sent_bytes=4 * 1024**2, unpacked_bytes=16 * 1024**2, seconds=30.0)
HELD_BYTES: Final = 128 * 1024**2
TYPES: Final = MediaTypes(frozenset({"application/json"}), described="application/json in UTF-8")

Count = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")]
Reason = Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")]


class SlotGiven(msgspec.Struct, forbid_unknown_fields=True):
    """A slot by its words. Without `grain`, the form of `start` says it, or it is the base grain."""

    dataset: Text
    start: Text
    member: Text = NO_MEMBER
    grain: Text | None = None


class PartGiven(msgspec.Struct, forbid_unknown_fields=True):
    """An object that was put. `records` has the records for the start of each base slot; they landed, were quarantined,
    or dropped as duplicates. `ranges` are half-open ranges of positions of a `stream`. See `facts.Part`.
    """  # noqa: D205

    dataset: Text
    id: Text
    object: Text
    records: dict[Text, Count]
    member: Text = NO_MEMBER
    stream: Text = ""
    ranges: list[tuple[Count, Count]] = []
    generation: Text = ""
    writer: Text = ""
    epoch: Count = 0


class NumberGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """How many records a witness has counted for a base slot. A higher `version` replaces a lower one."""

    witness: Text
    records: Count
    final: bool = True
    version: Count = 0


class EndsGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """The end positions of all streams of a member, taken at a time after the slot's end and its grace."""

    ends: dict[Text, Count]
    taken: datetime
    begins: dict[Text, Count] = {}


class ReopenGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """A slot whose `revision` is to be over. At another revision nothing happens, so it may be sent again.

    With `hold`, a backfill is open: the slot stays incomplete until it is released.
    """

    revision: Count
    reason: Reason
    hold: bool = False


class ReleaseGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """A slot whose backfill is over. `equal_to`: it was abandoned, or found the content that was there."""

    equal_to: bool = False


class WaiverGiven(SlotGiven, forbid_unknown_fields=True, kw_only=True):
    """A slot that need not be complete. Every later answer repeats the reason."""

    reason: Reason


class WaiverEnded(msgspec.Struct, forbid_unknown_fields=True):
    """A waiver, by its id, that is taken back."""

    id: Text
    reason: Reason


class ReplaceGiven(msgspec.Struct, forbid_unknown_fields=True):
    """Parts that take the place of others, in one act. `equal_to`: their content is the same."""

    dataset: Text
    old: list[Text]
    new: list[PartGiven]
    member: Text = NO_MEMBER
    equal_to: bool = False


class OutcomeSays(msgspec.Struct, frozen=True):
    """What became of an item: `accepted`, `known` already, or `refused`, with the reason. `id`: that of a waiver."""

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
    held: HeldBytes = field(default_factory=lambda: HeldBytes(HELD_BYTES))
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def batch(
        self,
        request: Request,
        kind: type[_Item],
        verb: Verb,
        fact: Callable[[Caller, _Item], _Fact],
        take: Callable[[Sequence[_Fact]], Sequence[Outcome | OutcomeSays]],
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
                if not caller.may(verb, dataset := item.dataset):  # type: ignore[attr-defined]
                    raise RefusedFactError(f"this token does not {verb} {dataset!r}.")
                facts[number] = fact(caller, item)
            except (msgspec.MsgspecError, DependencyError, DatasetError, UnicodeDecodeError, RecursionError) as error:
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

    def slot(self, given: SlotGiven) -> Slot:
        """The slot that an item names. Raises DependencyError, DatasetError."""
        dataset = self.api.declared(given.dataset).dataset
        if given.grain is not None:
            return dataset.slot(given.start, given.member, Grain.named(given.grain))
        return dataset.slot(given.start, given.member, dataset.base if ":" in given.start else None)

    def part(self, given: PartGiven) -> Part:
        """The part of an item. Raises DependencyError, DatasetError."""
        dataset = self.api.declared(given.dataset).dataset
        starts = {dataset.slot(each, given.member, dataset.base).start: each for each in given.records}
        if len(starts) < len(given.records):
            raise RefusedFactError(f"part {given.id}: two texts name one slot; add their records.")
        return Part(
            given.dataset,
            given.member,
            given.id,
            given.object,
            given.stream,
            tuple(given.ranges),
            {start: given.records[text] for start, text in starts.items()},
            given.generation,
            given.writer,
            given.epoch,
        )


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
            lambda _, each: reports.part(each),
            lambda all_: states.report(all_, now=now()),
        )

    async def replace(request: Request) -> Response:
        """Retract parts and count new ones in their place, in one transaction. Sent again, it changes nothing."""
        caller, given = await reports.one(request, ReplaceGiven)
        caller.require(Verb.REPORT, given.dataset)
        new = [reports.part(each) for each in given.new]
        await reports.change(
            lambda: states.replace(given.dataset, given.member, given.old, new, now=now(), equal_to=given.equal_to)
        )
        return json_answer(200, OutcomeSays(Status.ACCEPTED))

    return [_batch("/parts", parts, PartGiven), post("/parts/replace", replace, ReplaceGiven)]


def _of_numbers(reports: Reports) -> list[Operation]:
    states, now = reports.api.states, reports.api.now

    async def numbers(request: Request) -> Response:
        """Say how many records base slots have at the source. Each number is answered on its own."""

        def fact(_: Caller, each: NumberGiven) -> Number:
            return Number(each.witness, reports.slot(each), each.records, each.final, each.version)

        return await reports.batch(request, NumberGiven, Verb.EXPECT, fact, lambda all_: states.expect(all_, now=now()))

    async def ends(request: Request) -> Response:
        """Say the end positions of streams after a slot, for datasets with the basis `covered`."""

        def fact(_: Caller, each: EndsGiven) -> Ends:
            if each.taken.tzinfo is None:
                raise RefusedFactError(f"taken is {each.taken}, without an offset: add Z for UTC.")
            return Ends(reports.slot(each), each.ends, each.taken, each.begins)

        return await reports.batch(request, EndsGiven, Verb.EXPECT, fact, lambda all_: states.expect(all_, now=now()))

    return [_batch("/numbers", numbers, NumberGiven), _batch("/ends", ends, EndsGiven)]


def _of_persons(reports: Reports) -> list[Operation]:
    states, now = reports.api.states, reports.api.now

    async def reopen(request: Request) -> Response:
        """Begin new revisions of slots, as one act for each slot, because something was wrong with the present ones."""

        def fact(caller: Caller, each: ReopenGiven) -> tuple[Slot, int, str, bool]:
            return reports.slot(each), each.revision, _signed(each.reason, caller), each.hold

        def take(all_: Sequence[tuple[Slot, int, str, bool]]) -> list[Outcome]:
            states.refresh()
            return [one(*each) for each in all_]

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

        def take(all_: Sequence[tuple[Slot, bool]]) -> list[Outcome]:
            for slot, equal in all_:
                states.release([slot], now=now(), equal_to=equal)
            return [Outcome(Status.ACCEPTED)] * len(all_)

        return await reports.batch(
            request, ReleaseGiven, Verb.MARK, lambda _, each: (reports.slot(each), each.equal_to), take
        )

    return [_batch("/reopen", reopen, ReopenGiven), _batch("/release", release, ReleaseGiven)]


def _of_waivers(reports: Reports) -> list[Operation]:
    states, now = reports.api.states, reports.api.now

    async def waive(request: Request) -> Response:
        """Say that slots need not be complete. The same reason for the same slot again is the same waiver."""

        def fact(caller: Caller, each: WaiverGiven) -> tuple[Slot, str, str]:
            return reports.slot(each), each.reason, caller.name or "local"

        def take(all_: Sequence[tuple[Slot, str, str]]) -> list[OutcomeSays]:
            states.refresh()
            return [one(*each) for each in all_]

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

    return [_batch("/waivers", waive, WaiverGiven), post("/waivers/end", unwaive, WaiverEnded)]


def _signed(reason: str, caller: Caller) -> str:
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


def _batch(path: str, endpoint: Endpoint, item: type[Any]) -> Operation:
    body = {"type": "array", "items": _schema(item), "maxItems": MOST_ITEMS}
    return _post(path, endpoint, body, OutcomesSay, "An outcome for each item.")


def post(path: str, endpoint: Endpoint, item: type[Any]) -> Operation:
    """An operation that takes one object."""
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
