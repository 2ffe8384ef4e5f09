"""The feeds among Dagster's assets."""

from __future__ import annotations

import dagster as dg
import pytest

from feed_assets.ads import AD_CATALOG
from feed_assets.io_manager import feed_metadata
from feed_assets.sensors.asset_graph import AssetFeedGraph


def test_two_assets_that_declare_one_feed_are_refused_by_name():
    one, other = (dg.AssetSpec(name, metadata=feed_metadata("same/v1", AD_CATALOG)) for name in ("one", "other"))

    with pytest.raises(dg.DagsterInvariantViolationError, match="one and other declare the same feed, same/v1: give"):
        AssetFeedGraph.of(dg.Definitions([one, other]).get_repository_def())
