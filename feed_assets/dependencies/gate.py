"""The gate: whether a slot of a flow may start now, and if not, which stage does not hold, with its numbers.

Here: one pure decision, stage by stage in a fixed order. Not here: the facts (`slot_states`, `quality`), whether an
input has changed since the flow used it (`late_data`), and starting the flow once (`starts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.marks import Accepts, QualityState
from feed_assets.dependencies.quality_states import MarkPath
from feed_assets.dependencies.trigger import OnRerun, Trigger
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
    says what an incomplete slot waits for. `reopened` is when its present revision began; None for the first.
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

    @property
    def why(self) -> str:
        """What an incomplete slot waits for, or what is wrong with a bad one."""
        return self.waits or _first_of(each.sentence for each in self.marks)


@dataclass(frozen=True, slots=True)
class Case:
    """A slot of a flow, and what is known of it.

    `in_force` is its update in force. `behind` says what has changed since that update, or why it was never made; ""
    means that there is nothing to do. `begins` is the first instant of the slot.
    """

    flow: str
    slot: Slot
    inputs: Sequence[InputState]
    in_force: str | None
    behind: str
    begins: datetime


@dataclass(frozen=True, slots=True)
class StageAnswer:
    """Whether a stage holds, and why; None if a stage before it does not."""

    stage: Stage
    holds: bool | None
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """All stages of a case. It may start if all hold and there is something to do."""

    case: Case
    stages: tuple[StageAnswer, ...]

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
    for stage, fault in (
        (Stage.TIME, _too_early(case, trigger.since or (now - lookback).date())),
        (Stage.DATA, _data(case)),
        (Stage.QUALITY, _quality(case, trigger)),
        (Stage.ONCE, _again(case, trigger, now)),
    ):
        if any(each.holds is False for each in stages):
            stages.append(StageAnswer(stage, None, ""))
        else:
            stages.append(StageAnswer(stage, not fault, fault or _held_by(stage, case, trigger, now)))
    return Verdict(case, tuple(stages))


def _too_early(case: Case, since: date) -> str:
    """Why a slot that was never made does not start by itself at its age; a flow has no other earliest time."""
    if case.in_force or case.begins.date() >= since:
        return ""
    return f"its trigger starts slots from {since} on; `feed-assets backfill` makes earlier ones"


def _data(case: Case) -> str:
    missing = [each for each in case.inputs if not each.complete and not each.optional]
    return _first_of(f"{_name(each)}: {each.waits or 'not complete'}" for each in missing)


def _quality(case: Case, trigger: Trigger) -> str:
    return _first_of(
        f"{_name(each)} is {each.quality}{f': {each.why}' if each.why else f', and the flow takes {accepted}'}"
        for each in case.inputs
        if each.complete and not (accepted := accepted_by(trigger, each)).accepts(each.quality)
    )


def accepted_by(trigger: Trigger, given: InputState) -> Accepts:
    """What a flow takes of an input: what its trigger says, or by whether the input has checks."""
    if trigger.quality is not None:
        return trigger.quality
    return Accepts.PASSED if given.checked else Accepts.NOT_BAD


def _again(case: Case, trigger: Trigger, now: datetime) -> str:
    """Why a flow that has a result does not run again now."""
    if not case.in_force or not case.behind:
        return ""
    if trigger.on_rerun is OnRerun.IGNORE:
        return f"update {case.in_force} stays, as the trigger ignores changes of inputs: {case.behind}"
    reopened = max((each.reopened for each in case.inputs if each.reopened), default=None)
    if reopened is None or now >= reopened + trigger.settle:
        return ""
    again = f"{reopened + trigger.settle:%Y-%m-%d %H:%M:%S}"
    return f"an input was reopened at {reopened:%H:%M:%S}; it runs again from {again} on, if no other is until then"


def _held_by(stage: Stage, case: Case, trigger: Trigger, now: datetime) -> str:
    """What makes a stage hold."""
    match stage:
        case Stage.TIME:
            return f"the trigger names none; it is {now:%Y-%m-%d %H:%M}"
        case Stage.DATA:
            return f"{counted(sum(each.complete for each in case.inputs), 'input')} complete"
        case Stage.QUALITY:
            taken = sorted({str(accepted_by(trigger, each)) for each in case.inputs}) or [str(Accepts.ANY)]
            return f"the flow takes {', '.join(taken)}"
        case Stage.ONCE:
            return case.behind or "nothing has changed since it ran"


def _name(given: InputState) -> str:
    return str(given.slot)


def _first_of(reasons: Iterable[str]) -> str:
    """The first reasons, and how many more there are; "" if there is none."""
    found = list(reasons)
    shown = "; ".join(found[:SHOWN])
    return f"{shown}; and {len(found) - SHOWN} more" if len(found) > SHOWN else shown
