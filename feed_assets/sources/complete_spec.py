"""When the raw hours of a source are complete: the field `complete` of its YAML.

Not here: reading the control files that it names (`control_files`), and what follows (`dependencies`).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from feed_assets.sources.day_files import EXAMPLE, check_day_file


class Complete(BaseModel, frozen=True, extra="forbid"):
    """When an hour of raw data counts as complete. A flow with a trigger waits for it.

    With `basis: counted`, the partner says how many records each hour has, and the hour is complete when enough of them
    have landed. The partner puts a CSV file for each day, with the columns `hour` (0 to 23, UTC) and `records`, as
    `witness` says. An hour that the file does not name has no number yet. A newer file replaces an older one.
    """

    basis: Literal["assumed", "counted"] = "counted"
    """`assumed`: an hour is complete when `buffer_hours` have passed. `counted`: when enough records have landed."""

    witness: str | None = None
    """The key of a day's control file below the base, such as `counts/{yyyy}-{mm}-{dd}.csv`."""

    threshold_percent: Annotated[Decimal, Field(ge=0, le=100, decimal_places=3)] = Decimal("99.995")
    """The share of the counted records that must have landed, with at most three decimal places."""

    slack: Annotated[int, Field(ge=0)] = 0
    """How many records may be missing in any case: for small hours, of which one record is more than the threshold."""

    @property
    def threshold(self) -> int:
        """The threshold in parts per 100,000."""
        return int(self.threshold_percent * 1000)

    @field_validator("witness")
    @classmethod
    def _names_a_day(cls, witness: str | None) -> str | None:
        return None if witness is None else check_day_file(witness)

    @model_validator(mode="after")
    def _counted_has_a_witness(self) -> Self:
        if self.basis == "counted" and self.witness is None:
            raise ValueError(f"`basis: counted` needs a witness: name the partner's control file, as {EXAMPLE!r}")
        if self.basis == "assumed" and self.witness is not None:
            raise ValueError("`basis: assumed` takes no witness: write `basis: counted`, or leave the witness out")
        return self
