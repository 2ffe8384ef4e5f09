"""The description of a dataset that is no feed and no raw data of a kind: one YAML file of the project's `datasets`.

Here: the fields, their validation, and the dataset that they declare. Not here: finding and reading the files
(`loading`), and what witnesses say (`witnesses`).
"""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.durations import duration
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.names import NO_MEMBER, name_fault
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets.sources.day_files import EXAMPLE, check_day_file

FEED: Final = "feed:"
"""The beginning of a witness that is a feed; its location follows."""
RAW: Final = "raw"
"""The first name of the datasets that sources make: `raw/ads`."""


def _one_or_more(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


_Duration = Annotated[timedelta, BeforeValidator(lambda text: duration(str(text)))]
_Texts = Annotated[tuple[str, ...], BeforeValidator(_one_or_more)]


class Completeness(BaseModel, frozen=True, extra="forbid"):
    """When a slot at the finest grain counts as complete. Coarser slots are complete when all of their parts are.

    Slots have to be over in any case. Durations are a number and `s`, `min`, `h`, `d` or `w`, such as `30min`.
    """

    basis: Literal["assumed", "counted", "covered"]
    """`assumed`: when `buffer` has passed after its end. `counted`: when enough of the records that each witness counts
    are accounted for. `covered`: when parts cover all positions of the source up to the end positions of the slot.
    """

    witness: _Texts = ()
    """Who says how many records a slot has, or which end positions; one or a list.

    A name such as `kafka`: somebody reports under this name, by HTTP, Python or `feed-assets deps expect`.
    `feed:orders/v1.0`: the rows of the update in force of that feed, in its slot of the same time. A key below the base
    such as `counts/{yyyy}-{mm}-{dd}.csv`: a CSV file for each day, with the columns `start`, `member` (only where there
    are members) and `records`; for `covered` with `start`, `member`, `stream` and `end`. `start` is `15:05`, or with
    its date and offset `2026-11-27T15:05Z`, which a `calendar` other than UTC needs. A newer file replaces the numbers
    of an older one; of end positions, the first ones of a slot count.
    """

    threshold_percent: Annotated[Decimal, Field(ge=0, le=100, decimal_places=3)] = Decimal("99.995")
    """The share of the expected records that must be accounted for, with at most three decimal places."""

    slack: Annotated[int, Field(ge=0)] = 0
    """How many records may be missing in any case."""

    buffer: _Duration = timedelta(0)
    """`assumed`: how long after its end a slot is complete."""

    quiet: _Duration = timedelta(0)
    """`assumed`: for how long nothing new may have come."""

    grace: _Duration = timedelta(0)
    """`covered`: how long after a slot's end its end positions are taken, at the earliest."""

    @property
    def rule(self) -> Rule:
        """The rule of the slots."""
        return Rule(
            Basis(self.basis),
            self.witness if self.basis == "counted" else (),
            threshold=int(self.threshold_percent * 1000),
            slack=self.slack,
            buffer=self.buffer,
            quiet=self.quiet,
            grace=self.grace,
        )

    @property
    def feeds(self) -> tuple[str, ...]:
        """The locations of the feeds that are witnesses."""
        return tuple(each.removeprefix(FEED) for each in self.witness if each.startswith(FEED))

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the daily files that are witnesses."""
        return tuple(each for each in self.witness if "{" in each or "}" in each)

    @field_validator("witness")
    @classmethod
    def _can_be_witnesses(cls, witnesses: tuple[str, ...]) -> tuple[str, ...]:
        for each in witnesses:
            if "{" in each or "}" in each:
                check_day_file(each)
            elif fault := name_fault(each.removeprefix(FEED), path=True):
                raise ValueError(
                    f"{each!r} is no witness: {fault}. Name who reports, such as kafka; a feed, such as "
                    f"{FEED}orders/v1.0; or the files of days, such as {EXAMPLE}"
                )
        if twice := [each for each in dict.fromkeys(witnesses) if witnesses.count(each) > 1]:
            raise ValueError(f"{twice[0]} is named twice; name each witness once")
        return witnesses

    @model_validator(mode="after")
    def _fit_the_basis(self) -> Self:
        match self.basis:
            case "assumed":
                unused = {"witness", "threshold_percent", "slack", "grace"}
            case "counted":
                unused = {"buffer", "quiet", "grace"}
                if not self.witness:
                    raise ValueError("`basis: counted` needs a witness: name who says how many records a slot has")
            case "covered":
                unused = {"buffer", "quiet"}
                if self.feeds or len(self.witness) > 1:
                    raise ValueError(
                        "`basis: covered` takes one witness of end positions: a name, or files of days such as "
                        "ends/{yyyy}-{mm}-{dd}.csv; a feed has none"
                    )
        if wrong := sorted(unused & self.model_fields_set):
            raise ValueError(f"`basis: {self.basis}` takes no {', no '.join(wrong)}: leave it out, or change the basis")
        return self


class DatasetSpec(BaseModel, frozen=True, extra="forbid"):
    """A dataset: a topic, a table, or files of another system. `deps report` and `deps expect` say what is in it."""

    name: str
    """A path of names, such as `topics/orders`. No feed has this location, and it does not begin with `raw/`."""

    grain: Literal["5min", "10min", "hour", "day", "week", "month", "quarter"]
    """The length of the shortest slots, which parts and numbers are about. Longer ones come with it."""

    complete: Completeness
    """When a slot is complete."""

    levels: tuple[str, ...] = ()
    """The levels of a hierarchy, such as `[region, country, center]`."""

    members: tuple[str, ...] = ()
    """Who delivers, with a name for each level, such as `eu/fr/par1`. Without levels there are none."""

    calendar: str = "UTC"
    """The zone or the offset of days and longer slots, such as `Europe/Paris` or `UTC+08:00`."""

    first_day: date | None = None
    """The first day on which there is data.

    Default: the project's.
    """

    def declared(self, first_day: date) -> Declared:
        """The dataset, with the project's first day. Raises DatasetError if its grain, days or members cannot be."""
        calendar, first = Calendar(self.calendar), self.first_day or first_day
        paths = self.members or (() if self.levels else (NO_MEMBER,))
        tree = Hierarchy(self.levels, tuple(Member(path, first, calendar=calendar) for path in paths))
        return Declared(Dataset(self.name, Grain.named(self.grain).and_coarser, tree), self.complete.rule)

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        if fault := name_fault(name, path=True):
            raise ValueError(f"{name!r} is no name of a dataset: {fault}. Use a name such as topics/orders")
        if name.partition("/")[0] == RAW:
            raise ValueError(f"{name!r} is a name of raw data, which sources make: use another, such as topics/orders")
        return name

    @field_validator("calendar")
    @classmethod
    def _exists(cls, calendar: str) -> str:
        Calendar(calendar)  # its error is a ValueError that says what to write
        return calendar

    @model_validator(mode="after")
    def _fit_the_witnesses(self) -> Self:
        grain = Grain.named(self.grain)
        if self.complete.files and not grain.divides(Grain.DAY):
            raise ValueError(f"files of days say nothing about a {grain}: use another witness, or a shorter grain")
        if self.complete.feeds and self.levels:
            raise ValueError("a feed does not say how many records each member has: use another witness, or no levels")
        return self
