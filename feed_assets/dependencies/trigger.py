"""What a flow waits for before it starts by itself: a value that an asset declares. Not here: the decision (`gate`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

from feed_assets.datasets.days import is_day
from feed_assets.dependencies.marks import Accepts
from feed_assets.errors import FeedAssetsError

_Choice = TypeVar("_Choice", bound=StrEnum)

SETTLE: Final = timedelta(minutes=10)


class TriggerError(FeedAssetsError):
    """A trigger that cannot be; the message says what to write instead."""


class OnRerun(StrEnum):
    """What happens when an input gets a new revision after the flow has used the one before."""

    RERUN = "rerun"
    """The flow runs again, once no input was reopened for a while."""
    IGNORE = "ignore"
    """The result stays as it is, and says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """What a flow waits for. Without a value of its own, `quality` is `passed` for inputs with checks, else `not_bad`.

    `settle` is how long no input may have been reopened before the flow runs again. `since` bounds first starts: slots
    that begin before it start by backfill only; None means as far back as sensors look. Raises TriggerError.
    """

    quality: Accepts | None = None
    on_rerun: OnRerun = OnRerun.RERUN
    settle: timedelta = SETTLE
    since: date | None = None

    def __post_init__(self) -> None:
        if self.settle < timedelta(0):
            raise TriggerError(
                f"settle is {self.settle}: it is a duration of 0 or more, such as timedelta(minutes=10)."
            )

    @classmethod
    def of(
        cls,
        *,
        quality: str | None = None,
        on_rerun: str = OnRerun.RERUN,
        settle: timedelta = SETTLE,
        since: date | str | None = None,
    ) -> Trigger:
        """A trigger of what a person writes. Raises TriggerError, which names the values that exist."""
        if isinstance(since, str) and not is_day(since):
            raise TriggerError(f"since is {since!r}: it is a date such as 2026-11-27.")
        return cls(
            quality=None if quality is None else _one_of(Accepts, quality, "quality"),
            on_rerun=_one_of(OnRerun, on_rerun, "on_rerun"),
            settle=settle,
            since=date.fromisoformat(since) if isinstance(since, str) else since,
        )

    def to_plain(self) -> dict[str, Any]:
        """The values as JSON; `from_plain` reads them."""
        return {
            "quality": self.quality and str(self.quality),
            "on_rerun": str(self.on_rerun),
            "settle": self.settle.total_seconds(),
            "since": self.since and str(self.since),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Trigger:
        """The trigger of such JSON. Raises TriggerError."""
        settle = timedelta(seconds=float(plain["settle"]))
        return cls.of(quality=plain["quality"], on_rerun=plain["on_rerun"], settle=settle, since=plain["since"])


def _one_of(kind: type[_Choice], text: str, name: str) -> _Choice:
    try:
        return kind(text)
    except ValueError:
        raise TriggerError(f"{name} is {text!r}: it is one of {', '.join(kind)}.") from None
