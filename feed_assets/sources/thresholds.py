"""The growth from which a run is worth its cost, by source.

Here: the threshold in percent from costs and history, with every number. Not here: where the history comes from
(`late_data.processing_history`), and the comparison of growth with the threshold (`growth`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

GB = 10**9
HOUR = 3600
DEFAULT_PERCENT = Decimal(5)
"""The threshold of a source with costs while there is no history, unless it states one."""
LEAST_DAYS = 3
"""Days of history below which their average says nothing."""

_Amount = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]


class GrowthCosts(BaseModel, frozen=True, extra="forbid"):
    """What a run costs and what late data is worth, in one currency. A GB is 10^9 bytes of raw files."""

    cost_per_gb: _Amount
    """The cost of processing a GB."""

    cost_per_hour: _Amount = Decimal(0)
    """The cost of an hour of run time."""

    value_per_late_gb: Annotated[Decimal, Field(gt=0, allow_inf_nan=False)]
    """What a GB of late data is worth."""

    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
    """The currency of all amounts, such as EUR."""


@dataclass(frozen=True, slots=True)
class Processed:
    """A day of a source that was processed: the bytes of its raw files, and how long the run took; None if unknown."""

    bytes: int
    seconds: float | None


class Basis(StrEnum):
    """The basis of a threshold from costs."""

    HISTORY = "history"
    NO_HISTORY = "no history"
    """Fewer than LEAST_DAYS days are known, or the day had no data: the source's default counts."""


@dataclass(frozen=True, slots=True)
class CostOfRun:
    """The numbers behind a threshold from costs. Averages are of `days` other days, and None without history."""

    basis: Basis
    days: int
    mean_bytes: int | None
    mean_seconds: float | None
    cost_of_a_run: Decimal | None
    costs: GrowthCosts

    @property
    def sentence(self) -> str:
        """The numbers for people."""
        costs, currency = self.costs, self.costs.currency
        if self.cost_of_a_run is None or self.mean_bytes is None:
            if self.days >= LEAST_DAYS:
                return "the default, as the day had no data when it was processed"
            return f"the default, as only {self.days} other days are known, and costs need {LEAST_DAYS}"
        run_time = "" if self.mean_seconds is None else f" in {self.mean_seconds:.0f} s"
        return (
            f"a run costs {self.cost_of_a_run.normalize():f} {currency}: on average {self.mean_bytes / GB:,.3f} GB"
            f"{run_time}, of {self.days} days, at {costs.cost_per_gb} {currency} a GB"
            f"{f' and {costs.cost_per_hour} {currency} an hour' if costs.cost_per_hour else ''}; a late GB is worth "
            f"{costs.value_per_late_gb} {currency}"
        )


def threshold_of(
    costs: GrowthCosts, default_percent: Decimal, baseline_bytes: int, history: Sequence[Processed]
) -> tuple[Decimal, CostOfRun]:
    """The growth in percent from which late data is worth at least what a run costs on average.

    A run costs the mean of `history`: its bytes by `cost_per_gb`, and its run times, as far as known, by
    `cost_per_hour`. With too little history, or if nothing was processed, it is `default_percent`.
    """
    if len(history) < LEAST_DAYS or not baseline_bytes:
        return default_percent, CostOfRun(Basis.NO_HISTORY, len(history), None, None, None, costs)
    times = [each.seconds for each in history if each.seconds is not None]
    seconds = sum(times) / len(times) if times else None
    with localcontext(prec=50):
        size = Decimal(sum(each.bytes for each in history)) / len(history)
        cost = costs.cost_per_gb * size / GB + costs.cost_per_hour * Decimal(seconds or 0) / HOUR
        percent = 100 * cost / (costs.value_per_late_gb * baseline_bytes / GB)
        shown = CostOfRun(Basis.HISTORY, len(history), int(size), seconds, round(cost, 6), costs)
    return percent, shown
