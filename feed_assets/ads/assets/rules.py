"""The group, the owners and the rules of the ad assets."""

import dagster as dg
from pydantic import Field

GROUP = "ads"
OWNERS = ["team:ad-data"]


class Rules(dg.ConfigurableResource[None]):
    """The rules of cleaning and attribution; a run may change them in its configuration."""

    repeated_click_seconds: float = Field(
        default=1.0,
        ge=0,
        description="A click is a repeat if it follows the same user's click on the same ad within this time.",
    )
    attribution_window_hours: float = Field(
        default=24.0,
        gt=0,
        le=24,
        description="The longest time from an impression to a click that it is credited with. At most a day: "
        "a day's result reads the clicks of that day and the next.",
    )
