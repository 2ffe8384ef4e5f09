"""What a flow waits for before it starts by itself: a value that an asset declares. Not here: the decision (`gate`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from feed_assets.datasets.days import is_day
from feed_assets.datasets.durations import duration, duration_text
from feed_assets.dependencies.errors import TriggerError
from feed_assets.dependencies.gate.extra_inputs import ExtraInput
from feed_assets.dependencies.gate.written import one_of
from feed_assets.dependencies.quality.marks import Accepts

_Choice = TypeVar("_Choice", bound=StrEnum)

SETTLE: Final = timedelta(minutes=10)
ALL: Final = "all"
ANY: Final = "any"
UTC_NAME: Final = "UTC"


class OnRerun(StrEnum):
    """What happens when an input gets a new revision after the flow has used the one before."""

    RERUN = "rerun"
    """The flow runs again, once no input was reopened for a while."""
    IGNORE = "ignore"
    """The result stays as it is, and says so."""
    ASK = "ask"
    """The result stays until a person answers whether the flow runs again."""


class Then(StrEnum):
    """What happens to a slot whose inputs are not complete after `at_most`."""

    FAIL = "fail"
    """It is given up, as failed."""
    SKIP = "skip"
    """It is given up: it is not needed."""
    RUN = "run"
    """It starts with the inputs that are complete."""


class CatchUp(StrEnum):
    """Which slots start when a flow that was paused goes on."""

    ALL = "all"
    LATEST = "latest"
    """Only the newest one that may start; the others start by a backfill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """What a flow waits for. Without a value of its own, `quality` is `passed` for inputs with checks, else `not_bad`.

    `settle` is how long no input may have been reopened before the flow runs again. `since` bounds first starts: slots
    that begin before it start by backfill only; None means as far back as sensors look. `also` are inputs that only the
    gate waits for. `complete` is how many of the input slots have to be complete: all, any, or a number. With
    `previous`, a slot waits until the one before it is done. `not_before` is a cron expression in `timezone`: a slot
    starts at its first tick after the slot's end, or later; "" for no such time. `at_most` after the slot's end, or
    after that tick, a slot without its inputs is given up or started, as `then` says. `at_once` is how many slots may
    run at a time; None: any number. Raises TriggerError.
    """

    quality: Accepts | None = None
    on_rerun: OnRerun = OnRerun.RERUN
    settle: timedelta = SETTLE
    since: date | None = None
    also: tuple[ExtraInput, ...] = ()
    complete: str | int = ALL
    previous: bool = False
    not_before: str = ""
    timezone: str = UTC_NAME
    at_most: timedelta | None = None
    then: Then = Then.FAIL
    catch_up: CatchUp = CatchUp.ALL
    at_once: int | None = None

    def __post_init__(self) -> None:
        if self.settle < timedelta(0):
            raise TriggerError(
                f"settle is {self.settle}: it is a duration of 0 or more, such as timedelta(minutes=10)."
            )
        if self.complete not in {ALL, ANY} and (not _is_number(self.complete) or int(self.complete) < 1):
            raise TriggerError(
                f"complete is {self.complete!r}: it is 'all', 'any', or how many inputs have to be complete, such as 3."
            )
        if self.at_most is not None and self.at_most < timedelta(0):
            raise TriggerError(f"at_most is {self.at_most}: it is a duration of 0 or more, such as '6h'.")
        if self.at_once is not None and (not _is_number(self.at_once) or self.at_once < 1):
            raise TriggerError(f"at_once is {self.at_once!r}: it is how many slots may run at a time, 1 or more.")
        if self.timezone != UTC_NAME and not self.not_before:
            raise TriggerError(
                f"timezone is {self.timezone!r}, but there is no not_before that it is for: leave it out."
            )
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise TriggerError(
                f"timezone is {self.timezone!r}: it is the name of a zone, such as Europe/Paris or UTC."
            ) from None

    @classmethod
    def of(
        cls,
        *,
        quality: str | None = None,
        on_rerun: str = OnRerun.RERUN,
        settle: timedelta | str = SETTLE,
        since: date | str | None = None,
        also: Iterable[ExtraInput] = (),
        complete: str | int = ALL,
        previous: bool = False,
        not_before: str | None = None,
        timezone: str = UTC_NAME,
        at_most: timedelta | str | None = None,
        then: str | None = None,
        catch_up: str = CatchUp.ALL,
        at_once: int | None = None,
    ) -> Trigger:
        """A trigger of what a person writes. Raises TriggerError, which names the values that exist."""
        if isinstance(since, str) and not is_day(since):
            raise TriggerError(f"since is {since!r}: it is a date such as 2026-11-27.")
        if then is not None and at_most is None:
            raise TriggerError(f"then is {then!r}, but there is no at_most after which it happens, such as '6h'.")
        if isinstance(also, ExtraInput):
            raise TriggerError("also is one input: write a list of them, such as also=[needs('clean-ads/v1.0')].")
        if not isinstance(previous, bool):
            raise TriggerError(f"previous is {previous!r}: it is True or False.")
        extra = tuple(also)
        for each in extra:
            if not isinstance(each, ExtraInput):
                raise TriggerError(f"also has {each!r}: write each input as needs('clean-ads/v1.0').")
        return cls(
            quality=None if quality is None else _one_of(Accepts, quality, "quality"),
            on_rerun=_one_of(OnRerun, on_rerun, "on_rerun"),
            settle=_duration(settle, "settle"),
            since=date.fromisoformat(since) if isinstance(since, str) else since,
            also=extra,
            complete=complete,
            previous=previous,
            not_before=not_before or "",
            timezone=timezone,
            at_most=None if at_most is None else _duration(at_most, "at_most"),
            then=_one_of(Then, then or Then.FAIL, "then"),
            catch_up=_one_of(CatchUp, catch_up, "catch_up"),
            at_once=at_once,
        )

    @property
    def may_miss(self) -> bool:
        """Whether the flow may start although an input is missing."""
        return self.complete != ALL or (self.at_most is not None and self.then is Then.RUN)

    @property
    def text(self) -> str:
        """What differs from a trigger without options, in few words; "" if nothing does."""
        plain, usual = self.to_plain(), Trigger().to_plain()
        texts = {
            "also": " and ".join(each.text for each in self.also),
            "settle": duration_text(self.settle),
            "at_most": "" if self.at_most is None else duration_text(self.at_most),
            "previous": "",
        }
        found = (f"{name} {texts.get(name, value)}".strip() for name, value in plain.items() if value != usual[name])
        return ", ".join(found)

    def to_plain(self) -> dict[str, Any]:
        """The values as JSON; `from_plain` reads them."""
        return {
            "quality": self.quality and str(self.quality),
            "on_rerun": str(self.on_rerun),
            "settle": self.settle.total_seconds(),
            "since": self.since and str(self.since),
            "also": [each.to_plain() for each in self.also],
            "complete": self.complete,
            "previous": self.previous,
            "not_before": self.not_before,
            "timezone": self.timezone,
            "at_most": None if self.at_most is None else self.at_most.total_seconds(),
            "then": None if self.at_most is None else str(self.then),
            "catch_up": str(self.catch_up),
            "at_once": self.at_once,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Trigger:
        """The trigger of such JSON. Raises TriggerError."""
        longest = plain["at_most"]
        return cls.of(
            **{
                **plain,
                "settle": timedelta(seconds=float(plain["settle"])),
                "also": [ExtraInput.from_plain(each) for each in plain["also"]],
                "at_most": None if longest is None else timedelta(seconds=float(longest)),
            }
        )


def _one_of(kind: type[_Choice], text: str, name: str) -> _Choice:
    try:
        return one_of(kind, text, name)
    except ValueError as error:
        raise TriggerError(f"{error}.") from None


def _duration(given: timedelta | str, name: str) -> timedelta:
    try:
        return duration(given)
    except ValueError as error:
        raise TriggerError(f"{name}: {error}.") from None


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
