"""What the UI shows of a day whose update was rejected or invalidated: the update in force, and why it is that one."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from feed_assets_tests.harness import (
    ADS,
    BOTH_CLEAN,
    DAY,
    NEXT_DAY,
    ad,
    ads,
    click,
    failed_checks,
)

CLEAN, DERIVED = dg.AssetKey("clean_ads"), dg.AssetKey("ad_effectiveness")
BAD = [ad(f"bad{number}", cost="?") for number in range(5)]


class Seen:
    """What the UI asks Dagster about one installation."""

    def __init__(self, shop):
        self.instance = shop.instance
        self.graph = shop.definitions.resolve_asset_graph()

    def latest(self, key, day=DAY):
        """The latest materialization of a day."""
        where = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[day])
        return self.instance.fetch_materializations(where, limit=1).records[0].asset_materialization

    def failed(self, key):
        """The days whose partition is shown as failed."""
        days = self.graph.get(key).partitions_def
        status = get_and_update_asset_status_cache_value(self.instance, key, days)
        return sorted(status.deserialize_failed_partition_subsets(days).get_partition_keys())

    def failed_checks(self, key):
        """The checks of an asset whose latest evaluation is shown as failed, or as never come to."""
        keys = [each for each in self.graph.asset_check_keys if each.asset_key == key]
        found = {each.name: self.instance.event_log_storage.get_asset_check_execution_history(each, 1) for each in keys}
        return sorted(name for name, (newest,) in found.items() if newest.status.value != "SUCCEEDED")

    def unsynced(self, key, day=DAY):
        """Why a day is shown as out of date."""
        resolver = CachingStaleStatusResolver(self.instance, self.graph, LoadingContextForTest(self.instance))
        return [(cause.key.partition_key, cause.reason) for cause in resolver.get_stale_causes(key, day)]


@pytest.fixture
def good_ads(shop):
    """Two days whose ads are published, and the update of the first."""
    for day in (DAY, NEXT_DAY):
        shop.land([row | {"id": f"{day}{row['id']}"} for row in ads(10, day)])
        assert shop.run("clean_ads", day=day).success
    return shop.latest(ADS)


@pytest.fixture
def good_day(shop):
    """Two days that are published with their clicks and effectiveness, and the update of the first."""
    for day in (DAY, NEXT_DAY):
        shop.land([row | {"id": f"{day}{row['id']}"} for row in ads(10, day)])
        shop.land_clicks([click(f"k{day}", f"{day} 12:00:30", user="u3")])
        assert shop.run(*BOTH_CLEAN, day=day).success
    for day in (DAY, NEXT_DAY):
        assert shop.run("ad_effectiveness", day=day).success
    return shop.latest(ADS)


def shown(event):
    return {name: value.value for name, value in event.metadata.items()}


def test_a_rejected_day_shows_the_update_that_stays_in_force(shop, good_day):
    seen = Seen(shop)
    before = shown(seen.latest(CLEAN))
    assert (before["state"], before["update"], before["dagster/row_count"]) == ("in force", good_day, 10)
    assert (seen.failed(CLEAN), seen.unsynced(DERIVED), seen.unsynced(DERIVED, NEXT_DAY)) == ([], [], [])
    figures = shown(seen.latest(DERIVED))
    shop.land(BAD, name="bad")

    result = shop.run("clean_ads", "ad_effectiveness")

    assert failed_checks(result) == ["quarantined_share"]
    rejected = shop.record(ADS).update
    staged, event = result.asset_materializations_for_node("clean_ads")[0], seen.latest(CLEAN)
    assert not {"path", "dagster/row_count"} & set(staged.metadata)
    assert rejected in staged.metadata["show files"].value
    # The event that the UI shows is that of the update before, and says what happened.
    assert event.tags["dagster/data_version"] == good_day
    assert shown(event) == before | {"rejected update": rejected, "reason": shown(event)["reason"]}
    assert "quarantined_share" in event.description
    assert f"Update {good_day} is in force" in event.description
    # The day itself has failed, and nobody else: not what this run left out, and not the neighbours.
    assert (seen.failed(CLEAN), seen.failed(DERIVED)) == ([DAY], [])
    assert (seen.failed_checks(CLEAN), seen.failed_checks(DERIVED)) == (["quarantined_share"], [])
    assert (seen.unsynced(DERIVED), seen.unsynced(DERIVED, NEXT_DAY)) == ([], [])
    left_out = seen.latest(DERIVED)
    assert "Not made again" in left_out.description
    assert {name: value for name, value in shown(left_out).items() if name != "reason"} == figures

    # Mended, the day is an ordinary one again.
    (shop.base / "raw/ads/shop_ads" / DAY / "12/bad.parquet").unlink()
    assert shop.run("clean_ads").success
    assert seen.failed(CLEAN) == []
    assert "rejected update" not in seen.latest(CLEAN).metadata


def test_a_day_that_was_only_ever_rejected_shows_that_nothing_is_in_force(shop):
    shop.land([*ads(2), *BAD])

    shop.run("clean_ads", "ad_effectiveness")

    seen = Seen(shop)
    event = seen.latest(CLEAN)
    assert event.metadata["state"].value == "nothing in force"
    assert not {"path", "dagster/row_count", "files"} & set(event.metadata)
    assert "dagster/data_version" not in (event.tags or {})
    assert "Nothing is in force" in event.description
    assert (seen.failed(CLEAN), seen.failed(DERIVED)) == ([DAY], [DAY])


def test_an_update_that_is_audited_again_and_fails_gives_way_to_the_one_before(shop, good_ads):
    shop.land(ads(5, start=20), name="late")
    assert shop.run("clean_ads").success
    shop.rewrite(ADS, lambda table: table.slice(0, 3))
    newest = shop.latest(ADS)

    shop.check("clean_ads")

    seen = Seen(shop)
    event = seen.latest(CLEAN)
    assert event.tags["dagster/data_version"] == good_ads
    assert event.metadata["invalidated update"].value == newest
    assert event.metadata["dagster/row_count"].value == 10
    assert seen.failed(CLEAN) == [DAY]
