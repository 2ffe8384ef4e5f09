"""Days that were published, to be audited again, replaced or damaged."""

from __future__ import annotations

import pytest

from feed_assets_tests.harness import (
    CLICKS,
    DAY,
    ads,
    messages,
)


@pytest.fixture
def published(shop):
    """A day of ads that was published, and has grown since."""
    shop.land(ads(10))
    result = shop.run("clean_ads")
    assert result.success, messages(result)
    shop.land(ads(10, start=10), name="late")
    return shop


@pytest.fixture
def related(published, tmp_path):
    """The same day with its clicks, and its effectiveness published."""
    published.publish(CLICKS, DAY, {}, tmp_path / "no clicks")
    result = published.run("ad_effectiveness")
    assert result.success, messages(result)
    return published
