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
    return publish(shop)


@pytest.fixture
def related(published, tmp_path):
    """The same day with its clicks, and its effectiveness published."""
    return relate(published, tmp_path)


@pytest.fixture(scope="module")
def shared_published(shared_shop):
    """The same as `published`, for tests that leave the same update in force."""
    return publish(shared_shop)


@pytest.fixture(scope="module")
def shared_related(shared_published, tmp_path_factory):
    """The same as `related`, for tests that leave the same updates in force."""
    return relate(shared_published, tmp_path_factory.mktemp("related"))


def publish(shop):
    shop.land(ads(10))
    result = shop.run("clean_ads")
    assert result.success, messages(result)
    shop.land(ads(10, start=10), name="late")
    return shop


def relate(published, scratch):
    published.publish(CLICKS, DAY, {}, scratch / "no clicks")
    result = published.run("ad_effectiveness")
    assert result.success, messages(result)
    return published
