"""What the ad assets share: their group and owner, and the rules a run may change.

Here: names and settings that more than one asset module uses. Not here: anything about one asset, and what assets of
every kind share (`feed_assets.assets.cleaned`).
"""

import dagster as dg
from pydantic import Field

GROUP = "ads"
OWNERS = ["team:ad-data"]


class Rules(dg.ConfigurableResource[None]):
    """The rules of cleaning and attribution; a run may change them in its configuration."""

    repeated_click_seconds: float = Field(
        default=1.0,
        ge=0,
        description="Clicks of one user on one ad at most this long after the one before are repeats.",
    )
    attribution_window_hours: float = Field(
        default=24.0,
        gt=0,
        le=24,
        description="How long after it was shown an ad can be credited with a click. At most a day: "
        "a day's result reads the clicks of that day and the next.",
    )
