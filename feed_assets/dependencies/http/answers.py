"""What the API says, as types: each is in the document of the API. Not here: what is asked (`http`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from feed_assets.datasets.instants import moment_of
from feed_assets.datasets.slots import start_text
from feed_assets.dependencies.answers import Answer
from feed_assets.dependencies.gate.decision import Verdict
from feed_assets.dependencies.http.calendar import Calendar
from feed_assets.dependencies.outputs import SlotOutput
from feed_assets.dependencies.quality.marks import Backfill, Mark, QualityState, Signature
from feed_assets.dependencies.quality.states import MarkPath
from feed_assets.dependencies.rules import Declared
from feed_assets.dependencies.windows import Windows
from feed_assets.state.event_log import Event


class MemberSays(msgspec.Struct, frozen=True):
    """A member that delivers, from its first batch date to its last one, by the days of its zone."""

    path: str
    first: str
    last: str | None
    zone: str


MIXED: Final = "mixed"


class DatasetSays(msgspec.Struct, frozen=True):
    """A dataset. `threshold` is in parts per 100,000. `flow` is the asset that makes it, if that has a trigger.

    `basis` is `mixed` if it differs between members; `witnesses` are those of all of them.
    """

    name: str
    base: str
    grains: list[str]
    levels: list[str]
    members: list[MemberSays]
    basis: str
    witnesses: list[str]
    threshold: int
    checked: bool
    flow: str | None
    reads: list[str]


class DatasetsSay(msgspec.Struct, frozen=True):
    """The datasets that the token may read. `now` is the time of the installation, in UTC."""

    datasets: list[DatasetSays]
    now: str
    newest: int


class SlotSays(msgspec.Struct, frozen=True):
    """What is known of a slot. `revision` is 0 before the first completion.

    `accounted` and `expected` are records; `expected` is null if nobody has said it. `missing` counts base slots that
    are not complete. `waived` has the reasons of persons. `why` says what an incomplete slot waits for.
    """

    slot: str
    dataset: str
    member: str
    grain: str
    start: str
    begins: str
    ends: str
    complete: bool
    revision: int
    basis: str
    quality: str
    flags: list[str]
    accounted: int
    expected: int | None
    missing: int
    first_missing: list[str]
    waived: list[str]
    why: str


class SlotsSay(msgspec.Struct, frozen=True):
    """The slots of a range, by member and time."""

    slots: list[SlotSays]


class CalendarSays(msgspec.Struct, frozen=True):
    """A letter for each slot: `rows` has a member and its letters, one for each of `starts`; a space is no slot.

    `letters` says what they mean. `notes` are texts about single slots: row, column, text. `newest` is the number of
    the newest event in it.
    """

    dataset: str
    grain: str
    starts: list[str]
    rows: list[tuple[str, str]]
    notes: list[tuple[int, int, str]]
    letters: dict[str, str]
    newest: int


class EventSays(msgspec.Struct, frozen=True):
    """One change. `details` names the dataset, member, grain, and the range of slots from `first` to `last`."""

    sequence: int
    at: str
    kind: str
    details: dict[str, Any]


class EventsSay(msgspec.Struct, frozen=True):
    """Events in order. Ask next for those after `next`."""

    events: list[EventSays]
    next: int


class Gone(msgspec.Struct, frozen=True):
    """The events after this number are deleted. Look at the answers, then go on after `next`."""

    detail: str
    next: int


class StageSays(msgspec.Struct, frozen=True):
    """A stage of the gate; `holds` is null if a stage before it does not hold."""

    stage: str
    holds: bool | None
    why: str


class InputSays(msgspec.Struct, frozen=True):
    """A slot that a flow reads. `why` says what it waits for, or what is wrong with it."""

    slot: str
    complete: bool
    revision: int
    quality: str
    optional: bool
    why: str


class VerdictSays(msgspec.Struct, frozen=True):
    """Whether a slot of a flow may start, and the first stage that does not hold.

    `asks`: it waits for the answer of a person for the inputs of this `digest`. `gives_up`: why it does not start any
    more.
    """

    flow: str
    slot: str
    in_force: str | None
    may_start: bool
    sentence: str
    stages: list[StageSays]
    inputs: list[InputSays]
    asks: bool
    digest: str
    gives_up: str | None


class RunSays(msgspec.Struct, frozen=True):
    """A run of Dagster that computes the slot, or has computed it. Times are in UTC."""

    id: str
    status: str
    begun: str | None
    ended: str | None
    assets: list[str]


class PartSays(msgspec.Struct, frozen=True):
    """A part that was reported, and its records in this slot."""

    id: str
    object: str
    records: int
    stream: str


class MarkSays(msgspec.Struct, frozen=True):
    """Why a revision of a slot is bad, and who said so when. `slot` was marked; `how` says how the mark came here."""

    id: str
    reason: str
    by: str
    at: str
    slot: str
    how: str


class SignatureSays(msgspec.Struct, frozen=True):
    """Who did something, when, and why."""

    by: str
    at: str
    reason: str


class KnownMarkSays(msgspec.Struct, frozen=True):
    """A mark: this revision of this slot is bad. `present` is the slot's present revision."""

    id: str
    slot: str
    revision: int
    present: int
    reason: str
    evidence: str
    by: str
    at: str
    removed: SignatureSays | None


class MarksSay(msgspec.Struct, frozen=True):
    """Marks, oldest first."""

    marks: list[KnownMarkSays]


class BackfillSays(msgspec.Struct, frozen=True):
    """An open backfill: somebody makes these slots again."""

    id: str
    slots: list[str]
    opened: SignatureSays


class BackfillsSay(msgspec.Struct, frozen=True):
    """The open backfills, oldest first."""

    backfills: list[BackfillSays]


class OutputSays(msgspec.Struct, frozen=True):
    """The update in force of a feed's slot, and its rows. `run` made it; "" if that is unknown.

    `columns` has nulls, distinct values (an estimate), the smallest and the largest number or time of profiled feeds;
    times are in seconds since 1970, UTC. `unusual` says what was unusual beside recent weeks.
    """

    update: str
    run: str
    rows: int
    columns: dict[str, dict[str, int | float | None]]
    unusual: list[str]


class DetailsSay(msgspec.Struct, frozen=True):
    """Everything about a slot. `flow` and `partition` name the flow that makes it, for `explain`.

    `reads` are the slots that it is made of, `read_by` those that are made of it. `parts`: null where the dataset has
    no parts. `runs`: null if Dagster cannot be asked. `output`: null for raw data, and where no record tells the rows.
    """

    slot: SlotSays
    flow: str | None
    partition: str | None
    reads: list[InputSays]
    read_by: list[str]
    events: list[EventSays]
    parts: list[PartSays] | None
    marks: list[MarkSays]
    runs: list[RunSays] | None
    output: OutputSays | None


def mark_says(path: MarkPath) -> MarkSays:
    """A mark that makes a slot bad, as the API says it."""
    mark = path.mark
    at = moment_of(mark.signature.at).isoformat()
    return MarkSays(mark.id, mark.reason, str(mark.author), at, str(mark.on.slot), str(path))


def known_mark_says(mark: Mark, present: int) -> KnownMarkSays:
    """A mark and its slot's present revision, as the API says them."""
    said = signature_says(mark.signature)
    removed = signature_says(mark.removal) if mark.removal else None
    on = mark.on
    return KnownMarkSays(
        mark.id, str(on.slot), on.revision, present, said.reason, mark.evidence, said.by, said.at, removed
    )


def signature_says(signature: Signature) -> SignatureSays:
    """Who did something, as the API says it."""
    return SignatureSays(str(signature.author), moment_of(signature.at).isoformat(), signature.reason)


def backfill_says(backfill: Backfill) -> BackfillSays:
    """An open backfill, as the API says it."""
    return BackfillSays(backfill.id, [*map(str, backfill.slots)], signature_says(backfill.opened))


def output_says(output: SlotOutput | None) -> OutputSays | None:
    """What is known of the rows of a slot, as the API says it."""
    return None if output is None else OutputSays(**output.plain)


def dataset_says(declared: Declared, *, flow: str | None, reads: Iterable[str]) -> DatasetSays:
    """A dataset, as the API says it."""
    dataset, rule = declared.dataset, declared.rule
    rules = [declared.rule_of(each.path) for each in dataset.hierarchy.members]
    bases = {str(each.basis) for each in rules} or {str(rule.basis)}
    members = [
        MemberSays(each.path, str(each.first), str(each.last) if each.last else None, each.calendar.zone)
        for each in dataset.hierarchy.members
    ]
    return DatasetSays(
        name=dataset.name,
        base=str(dataset.base),
        grains=[str(each) for each in dataset.grains],
        levels=list(dataset.hierarchy.levels),
        members=members,
        basis=bases.pop() if len(bases) == 1 else MIXED,
        witnesses=sorted({witness for each in [rule, *rules] for witness in each.witnesses}),
        threshold=rules[0].threshold if len(set(rules)) == 1 else rule.threshold,
        checked=declared.checked,
        flow=flow,
        reads=list(reads),
    )


def slot_says(answer: Answer, windows: Windows, *, why: str, quality: QualityState) -> SlotSays:
    """A slot, as the API says it."""
    slot = answer.slot
    return SlotSays(
        slot=str(slot),
        dataset=slot.dataset,
        member=slot.member,
        grain=str(slot.grain),
        start=start_text(slot.grain, slot.start),
        begins=time_says(windows.begin(slot)),
        ends=time_says(windows.end(slot)),
        complete=answer.complete,
        revision=answer.revision,
        basis=str(answer.basis),
        quality=str(quality),
        flags=list(answer.flags),
        accounted=answer.accounted,
        expected=answer.expected,
        missing=answer.missing,
        first_missing=[str(each) for each in answer.first_missing],
        waived=list(answer.waived),
        why=why,
    )


def calendar_says(
    dataset: str, grain: str, calendar: Calendar, *, letters: dict[str, str], newest: int
) -> CalendarSays:
    """A calendar, as the API says it."""
    return CalendarSays(
        dataset, grain, list(calendar.starts), list(calendar.rows), list(calendar.notes), letters, newest
    )


def event_says(event: Event) -> EventSays:
    """An event, as the API says it: its base is that of the service."""
    details = {name: value for name, value in event.details.items() if name != "base"}
    return EventSays(event.sequence, event.at.isoformat(), event.kind, details)


def verdict_says(verdict: Verdict) -> VerdictSays:
    """The gate's answer, as the API says it."""
    case = verdict.case
    return VerdictSays(
        flow=case.flow,
        slot=str(case.slot),
        in_force=case.in_force,
        may_start=verdict.held is None and bool(case.behind),
        sentence=verdict.sentence,
        stages=[StageSays(str(each.stage), each.holds, each.why) for each in verdict.stages],
        inputs=[
            InputSays(str(each.slot), each.complete, each.revision, str(each.quality), each.optional, each.why)
            for each in case.inputs
        ],
        asks=verdict.asks,
        digest=case.digest,
        gives_up=verdict.gives_up,
    )


def time_says(instant: int) -> str:
    """An instant, as the API says it."""
    return f"{moment_of(instant):%Y-%m-%dT%H:%M:%SZ}"
