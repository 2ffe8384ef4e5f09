"""The kinds of records of the worked example: ads shown and clicks.

Here: their declarations. Not here: what a kind is (`sources.kinds`), and the columns (`schemas`).
"""

from __future__ import annotations

from typing import Final

from feed_assets.ads.schemas import CLEAN_ADS, CLEAN_CLICKS
from feed_assets.sources.kinds import Kind

ADS: Final = Kind.of_schema("ads", CLEAN_ADS, identifier="impression_id")
CLICKS: Final = Kind.of_schema("clicks", CLEAN_CLICKS, identifier="click_id")
KINDS: Final = (ADS, CLICKS)
