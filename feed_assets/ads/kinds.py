"""The kinds of records of the worked example: ads and clicks. Not here: their columns (`schemas`)."""

from __future__ import annotations

from typing import Final

from feed_assets.ads.schemas import CLEAN_ADS, CLEAN_CLICKS
from feed_assets.sources.kinds import Kind

ADS: Final = Kind.of_schema("ads", CLEAN_ADS, identifier="impression_id")
CLICKS: Final = Kind.of_schema("clicks", CLEAN_CLICKS, identifier="click_id")
KINDS: Final = (ADS, CLICKS)
