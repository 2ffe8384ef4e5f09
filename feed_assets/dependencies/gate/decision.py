"""The gate: whether a slot of a flow may start now, and if not, which stage does not hold, with its numbers.

Here: one pure decision, stage by stage in a fixed order. Not here: the facts (`slot_states`, `quality`), whether an
input has changed since the flow used it (`late_data`), and starting the flow once (`starts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from feed_assets.datasets.slots import Slot, start_text
from feed_assets.dependencies.gate.trigger import ALL, ANY, CatchUp, OnRerun, Then, Trigger
from feed_assets.dependencies.quality.marks import Accepts, QualityState
from feed_assets.dependencies.quality.states import MarkPath
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.wording import counted

SHOWN: Final = 3
"""How many slots a reason names."""


class Stage(StrEnum):
    """The stages, in the order in which they are looked at."""

    TIME = "earliest time"
    DATA = "data"
    QUALITY = "quality"
    ONCE = "run, once"


@dataclass(frozen=True, slots=True)
class InputState:
    """A slot that a flow reads, as it is now.

    `optional` inputs may be missing. `checked`: the dataset declares checks. `marks` are why a bad slot is bad. `waits`
    says what an incomplete slot waits for. `reopened` is when its present revision began; None for the first. An input
    that does not `count` is read if it is there, and never waited for, such as the neighbours of a day. An `extra`
    input is only waited for. `accepts` is what the flow takes of this input; None: as its trigger says.
    """

    slot: Slot
    complete: bool
    revision: int
    quality: QualityState
    optional: bool = False
    checked: bool = False
    marks: Sequence[MarkPath] = ()
    waits: str = ""
    reopened: datetime | None = None
    counts: bool = True
    extra: bool = False
    accepts: Accepts | None = None

    @property
    def why(self) -> str:
        """What an incomplete slot waits for, or what is wrong with a bad one."""
        return self.waits or _first_of(each.sentence for each in self.marks)


@dataclass(frozen=True, slots=True)
class PreviousSlot:
    """The slot before this one of the same flow, which `begins` then. It is done if it is complete or given up."""

    slot: Slot
    begins: datetime
    done: bool
    why: str = ""


class Reply(StrEnum):
    """What a person answers to the question whether a flow runs again."""

    RERUN = "rerun"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Answered:
    """A person's answer, for exactly the inputs of this digest."""

    digest: str
    reply: Reply
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Paused:
    """The last pause of a flow; `until` is None while it lasts."""

    since: datetime
    until: datetime | None
    why: str


@dataclass(frozen=True, slots=True)
class Case:
    """A slot of a flow, and what is known of it.

    `in_force` is its update in force. `behind` says what has changed since that update, or why it was never made; ""
    means that there is nothing to do. `begins` is the first instant of the slot, and `ends` the first after it.
    `earliest` is the first tick of the trigger's cron expression after that. `previous` is given if the flow waits for
    the slot before. `answered` is the newest answer of a person. `paused` is the flow's last pause, and `next_ends`
    the end of the slot that follows this one. `alive` says which attempt at the slot lives, or why none may follow the
    last one yet, and `given_up` why it was given up although it has no result.
    """

    flow: str
    slot: Slot
    inputs: Sequence[InputState]
    in_force: str | None
    behind: str
    begins: datetime
    ends: datetime | None = None
    earliest: datetime | None = None
    previous: PreviousSlot | None = None
    answered: Answered | None = None
    paused: Paused | None = None
    next_ends: datetime | None = None
    alive: str = ""
    given_up: str = ""

    @property
    def digest(self) -> str:
        """What identifies the inputs as they are now: the slots that are complete, with their revisions."""
        return short_digest("\n".join(sorted(f"{each.slot}|{each.revision}" for each in self.inputs if each.complete)))


@dataclass(frozen=True, slots=True)
class StageAnswer:
    """Whether a stage holds, and why; None if a stage before it does not."""

    stage: Stage
    holds: bool | None
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """All stages of a case. It may start if all hold and there is something to do.

    `gives_up` says why the slot is to be given up by the rule of its trigger; None: it is not. `asks`: only the answer
    of a person is waited for.
    """

    case: Case
    stages: tuple[StageAnswer, ...]
    gives_up: str | None = None
    asks: bool = False

    @property
    def held(self) -> StageAnswer | None:
        """The first stage that does not hold."""
        return next((each for each in self.stages if each.holds is False), None)

    @property
    def sentence(self) -> str:
        """The answer to "why not yet?"."""
        if held := self.held:
            begin = "held by" if held.stage is Stage.QUALITY else "waits for"
            return f"{begin} {held.stage}: {held.why}"
        return f"may start: {self.case.behind}" if self.case.behind else "up to date"


def decide(case: Case, trigger: Trigger, *, now: datetime, lookback: timedelta) -> Verdict:
    """The stages of a case. `now` is the installation's time; without `since`, `lookback` bounds first starts."""
    stages: list[StageAnswer] = []
    since = trigger.since or (now - lookback).date()
    patient = _is_patient(case, trigger, now)
    missing = _missing(case, trigger)
    data = "" if not patient and trigger.then is Then.RUN and _may_do_without(case, missing.slots) else missing.why
    for stage, fault in (
        (Stage.TIME, _paused(case, trigger) or _too_early(case, since, now)),
        (Stage.DATA, data or _previous(case, since)),
        (Stage.QUALITY, _quality(case, trigger)),
        (Stage.ONCE, _again(case, trigger, now)),
    ):
        if any(each.holds is False for each in stages):
            stages.append(StageAnswer(stage, None, ""))
        else:
            stages.append(StageAnswer(stage, not fault, fault or _held_by(stage, case, trigger, now, missing.why)))
    held = next((each.stage for each in stages if each.holds is False), None)
    gives_up = None
    if held is Stage.DATA and not patient and not case.in_force and data:
        word = "skipped" if trigger.then is Then.SKIP else "failed"
        gives_up = f"{word}: not all inputs came {_late(case, trigger)}: {missing.why}"
    asks = held is Stage.ONCE and trigger.on_rerun is OnRerun.ASK and _reply(case) is None
    return Verdict(case, tuple(stages), gives_up, asks)


def _paused(case: Case, trigger: Trigger) -> str:
    """Why a slot of a flow that is paused, or was, does not start: with `latest`, only the newest is caught up."""
    pause = case.paused
    if pause is None:
        return ""
    if pause.until is None:
        return pause.why
    ended_in_it = case.ends is not None and pause.since <= case.ends <= pause.until
    is_latest = case.next_ends is None or case.next_ends > pause.until
    if trigger.catch_up is CatchUp.ALL or case.in_force or not ended_in_it or is_latest:
        return ""
    return (
        f"it ended while the flow was paused, until {pause.until:%Y-%m-%d %H:%M}, and the trigger catches up with the "
        "latest only; `feed-assets deps start` makes it"
    )


def _too_early(case: Case, since: date, now: datetime) -> str:
    """Why a slot does not start by itself at its age, or at this time."""
    if not case.in_force and case.begins.date() < since:
        return f"its trigger starts slots from {since} on; `feed-assets backfill` makes earlier ones"
    if case.ends is not None and now < case.ends:
        return f"it ends at {case.ends:%Y-%m-%d %H:%M}; it is {now:%Y-%m-%d %H:%M}"
    if case.earliest is not None and now < case.earliest:
        return f"it starts at {case.earliest:%Y-%m-%d %H:%M} or later; it is {now:%Y-%m-%d %H:%M}"
    return ""


def _is_patient(case: Case, trigger: Trigger, now: datetime) -> bool:
    """Whether the slot still waits for its inputs, as far as the trigger's `at_most` goes."""
    latest = _latest(case, trigger)
    return latest is None or now < latest


def _latest(case: Case, trigger: Trigger) -> datetime | None:
    """Until when the slot waits for its inputs; None: for ever."""
    begin = case.earliest or case.ends
    return None if trigger.at_most is None or begin is None else begin + trigger.at_most


class _Missing(NamedTuple):
    """The inputs that a slot waits for, and why those that there are do not suffice; "" if they do."""

    slots: Sequence[InputState]
    why: str


def _missing(case: Case, trigger: Trigger) -> _Missing:
    """What is missing of what the trigger wants, however long the slot has waited."""
    if not case.inputs:
        return _Missing((), "none of the datasets that it waits for has a slot there")
    missing = [each for each in case.inputs if each.counts and not each.complete]
    if trigger.complete == ALL:
        missing = [each for each in missing if not each.optional]
        fault = ""
    else:
        of = [each for each in case.inputs if each.counts]
        wanted = 1 if trigger.complete == ANY else int(trigger.complete)
        there = len(of) - len(missing)
        if there >= wanted:
            return _Missing((), "")
        fault = f"{there} of {counted(len(of), 'input')} complete, and it needs {wanted}: "
    named = _first_of(f"{_name(each)}: {each.waits or 'not complete'}" for each in missing)
    return _Missing(missing, f"{fault}{named or 'it has no more'}" if fault or named else "")


def _may_do_without(case: Case, missing: Sequence[InputState]) -> bool:
    """Whether a slot that waited long enough starts without these inputs.

    One must be missing, and one be there. A result that there is already waits for inputs that it may have used.
    """
    there = any(each.complete and each.counts and not each.extra for each in case.inputs)
    return bool(missing) and there and (case.in_force is None or all(not each.revision for each in missing))


def _late(case: Case, trigger: Trigger) -> str:
    return f"until {latest:%Y-%m-%d %H:%M}" if (latest := _latest(case, trigger)) else "in time"


def _previous(case: Case, since: date) -> str:
    """Why the slot before is waited for; one that does not start by itself is not."""
    before = case.previous
    if before is None or before.done or before.begins.date() < since:
        return ""
    return f"{before.slot}, the one before, is not done{f': {before.why}' if before.why else ''}"


def _quality(case: Case, trigger: Trigger) -> str:
    return _first_of(
        f"{_name(each)} is {each.quality}{f': {each.why}' if each.why else f', and the flow takes {accepted}'}"
        for each in case.inputs
        if each.complete and not (accepted := accepted_by(trigger, each)).accepts(each.quality)
    )


def accepted_by(trigger: Trigger, given: InputState) -> Accepts:
    """What a flow takes of an input: what its trigger says, or by whether the input has checks."""
    if given.accepts is not None:
        return given.accepts
    if trigger.quality is not None:
        return trigger.quality
    return Accepts.PASSED if given.checked else Accepts.NOT_BAD


def _again(case: Case, trigger: Trigger, now: datetime) -> str:
    """Why a flow that runs, or has a result, does not run again now."""
    if case.alive or not case.in_force:
        over = f"it was given up, {case.given_up}; `feed-assets deps start` makes it" if case.given_up else ""
        return case.alive or over
    if not case.behind:
        return ""
    if trigger.on_rerun is OnRerun.IGNORE:
        return f"update {case.in_force} stays, as the trigger ignores changes of inputs: {case.behind}"
    if trigger.on_rerun is OnRerun.ASK:
        return _asks(case)
    reopened = max((each.reopened for each in case.inputs if each.reopened), default=None)
    if reopened is None or now >= reopened + trigger.settle:
        return ""
    again = f"{reopened + trigger.settle:%Y-%m-%d %H:%M:%S}"
    return f"an input was reopened at {reopened:%H:%M:%S}; it runs again from {again} on, if no other is until then"


def _asks(case: Case) -> str:
    """What a person has to answer, or has answered; "" if the flow runs again."""
    answered = _reply(case)
    if answered is None:
        slot = f"{case.flow} {start_text(case.slot.grain, case.slot.start)}"
        how = f"`feed-assets deps answer {slot} rerun`, or `keep`"
        return f"asks: {case.behind}. Run again, or keep update {case.in_force}? Answer with {how}"
    if answered.reply is Reply.RERUN:
        return ""
    why = f": {answered.reason}" if answered.reason else ""
    return f"update {case.in_force} stays, as {answered.by} has answered{why}"


def _reply(case: Case) -> Answered | None:
    """The answer for the inputs as they are now."""
    return case.answered if case.answered is not None and case.answered.digest == case.digest else None


def _held_by(stage: Stage, case: Case, trigger: Trigger, now: datetime, missing: str) -> str:
    """What makes a stage hold. `missing` is why the inputs that there are do not suffice, if they do not."""
    match stage:
        case Stage.TIME:
            earliest = f"{case.earliest:%Y-%m-%d %H:%M} has passed" if case.earliest else "the trigger names none"
            return f"{earliest}; it is {now:%Y-%m-%d %H:%M}"
        case Stage.DATA:
            return _there(case, trigger, missing)
        case Stage.QUALITY:
            taken = sorted({str(accepted_by(trigger, each)) for each in case.inputs}) or [str(Accepts.ANY)]
            return f"the flow takes {', '.join(taken)}"
        case Stage.ONCE:
            return case.behind or "nothing has changed since it ran"


def _there(case: Case, trigger: Trigger, missing: str) -> str:
    """What makes the stage of data hold."""
    complete = f"{counted(sum(each.complete for each in case.inputs), 'input')} complete"
    if missing:
        return f"{complete}; it does not wait for others any more, as not all came {_late(case, trigger)}"
    if trigger.complete == ALL:
        return complete
    wanted = 1 if trigger.complete == ANY else trigger.complete
    return f"{complete}, of {sum(each.counts for each in case.inputs)}; it needs {wanted}"


def _name(given: InputState) -> str:
    return str(given.slot)


def _first_of(reasons: Iterable[str]) -> str:
    """The first reasons, and how many more there are; "" if there is none."""
    found = list(reasons)
    shown = "; ".join(found[:SHOWN])
    return f"{shown}; and {len(found) - SHOWN} more" if len(found) > SHOWN else shown
