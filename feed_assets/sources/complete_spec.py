"""When the raw hours of a source are complete: the field `complete` of its YAML.

Not here: reading the control files that it names (`control_files`), and what follows (`dependencies`).
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from feed_assets.blackboard.keys import check_key
from feed_assets.blackboard.port import InvalidKeyError

_PLACEHOLDERS: Final = ("{yyyy}", "{mm}", "{dd}")
_EXAMPLE: Final = "counts/{yyyy}-{mm}-{dd}.csv"


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

    def key(self, day: date) -> str:
        """The key of a day's control file below the base. Only with a witness."""
        names = {"{yyyy}": f"{day:%Y}", "{mm}": f"{day:%m}", "{dd}": f"{day:%d}"}
        return re.sub(r"\{\w+\}", lambda found: names[found[0]], self.witness or "")

    @property
    def folder(self) -> str:
        """The prefix of all control files: the part of `witness` before the first folder that names a date."""
        return (self.witness or "").partition("{")[0].rpartition("/")[0] + "/"

    @field_validator("witness")
    @classmethod
    def _names_a_day(cls, witness: str | None) -> str | None:
        if witness is None:
            return None
        if sorted(re.findall(r"\{[^}]*\}?|\}", witness)) != sorted(_PLACEHOLDERS):
            raise ValueError(f"{witness!r} must have each of {', '.join(_PLACEHOLDERS)} once, as {_EXAMPLE!r} has")
        if "/" not in witness.partition("{")[0]:
            raise ValueError(f"{witness!r} must lie in a folder of its own, as {_EXAMPLE!r} does")
        try:
            check_key(re.sub(r"[{}]", "", witness))
        except InvalidKeyError as error:
            raise ValueError(f"{witness!r} is no path below the base: {error}") from None
        return witness

    @model_validator(mode="after")
    def _counted_has_a_witness(self) -> Self:
        if self.basis == "counted" and self.witness is None:
            raise ValueError(f"`basis: counted` needs a witness: name the partner's control file, as {_EXAMPLE!r}")
        if self.basis == "assumed" and self.witness is not None:
            raise ValueError("`basis: assumed` takes no witness: write `basis: counted`, or leave the witness out")
        return self
