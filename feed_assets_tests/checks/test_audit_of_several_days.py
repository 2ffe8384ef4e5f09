"""An audit of several days in one run: each day has its own outcome."""

from __future__ import annotations

import shutil

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import StructType

from feed_assets import checks
from feed_assets.ads.expectations import for_clean
from feed_assets.ads.schemas import CLEAN_ADS, KINDS
from feed_assets.assets.external import raw_logs
from feed_assets.feed_events.declarations import declared_feed, feed_metadata
from feed_assets.partitions.days import daily, hourly
from feed_assets.sources.loading import load_sources
from feed_assets_tests.checks.damage import (
    all_but_one,
)
from feed_assets_tests.harness import (
    DAY,
    NEXT_DAY,
    ad,
    ads,
    between,
    messages,
)


def audited_copies(shop, schema=CLEAN_ADS):
    """An audited asset that takes and gives several days in one run, with the columns of this schema."""
    source = next(source for source in load_sources(shop.settings.sources_directory, KINDS) if source.kind == "ads")
    raw, days = raw_logs(source, hourly(shop.settings)), daily(shop.settings)

    def copy(records: DataFrame) -> DataFrame:
        text = {"impression_id": "id", "ad_id": "ad", "campaign_id": "campaign", "user_id": "user"}
        return records.select(
            *(functions.col(sent).alias(name) for name, sent in text.items()),
            functions.to_timestamp("time").alias("event_time"),
            functions.col("place").alias("placement_id"),
            functions.col("cost").cast("decimal(18,6)").alias("cost"),
            functions.lit("shop").alias("source"),
        )

    @dg.asset(
        ins={"records": dg.AssetIn(raw.key, input_manager_key="file_feed")},
        partitions_def=days,
        io_manager_key="file_feed",
        metadata=feed_metadata("copies/v1.0", schema, identity=["impression_id"], audited=True),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def copies(records: dict[str, DataFrame]) -> dict[str, DataFrame]:
        return {day: copy(frame) for day, frame in records.items()}

    expectations = for_clean(declared_feed(copies.metadata_by_key[copies.key]))
    return shop.with_assets(raw, copies, checks=[checks.audit(copies, expectations)])


def joint_evaluation(result, check):
    """What a run over several days came to for this check, beside the outcome of each day."""
    (joint,) = [
        each for each in result.get_asset_check_evaluations() if each.check_name == check and each.partition is None
    ]
    return joint


def test_a_run_over_several_days_publishes_the_good_ones_and_rejects_the_bad_one(shop):
    days = ["2019-11-23", DAY, NEXT_DAY]
    for day in days:
        shop.land(ads(2, day))
    shop.land([ad("twice", "2019-11-24 01:00:00"), ad("twice", "2019-11-24 02:00:00")], name="more")

    result = audited_copies(shop).run("copies", day=None, tags=between(days[0], days[-1]))

    assert not result.success
    assert [shop.record("copies/v1.0", day).state for day in days] == ["published", "rejected", "published"]
    assert [shop.latest("copies/v1.0", day) is None for day in days] == [False, True, False]
    assert joint_evaluation(result, "identity_unique").metadata["failed partitions"].value == DAY


def test_each_day_of_a_run_over_several_has_its_own_outcome_in_dagster(shop):
    for day in (DAY, NEXT_DAY):
        shop.land(ads(2, day))
    shop.land([ad("twice", "2019-11-24 01:00:00"), ad("twice", "2019-11-24 02:00:00")], name="more")

    audited_copies(shop).run("copies", day=None, tags=between(DAY, NEXT_DAY))

    key = dg.AssetCheckKey(dg.AssetKey("copies"), "identity_unique")
    evaluations = {
        record.event.dagster_event.event_specific_data.partition: record.event.dagster_event.event_specific_data
        for record in shop.instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
        if record.event and record.status != AssetCheckExecutionRecordStatus.PLANNED
    }
    assert {partition: evaluations[partition].passed for partition in (DAY, NEXT_DAY)} == {DAY: False, NEXT_DAY: True}
    assert evaluations[NEXT_DAY].target_materialization_data is not None


def test_a_run_over_several_days_can_be_repeated(shop):
    for day in (DAY, NEXT_DAY):
        shop.land(ads(2, day))
    copies = audited_copies(shop)
    first = copies.run("copies", day=None, tags=between(DAY, NEXT_DAY))
    made = shop.latest("copies/v1.0")

    second = copies.run("copies", day=None, tags=between(DAY, NEXT_DAY))

    assert (messages(first), messages(second)) == ([], [])
    assert shop.latest("copies/v1.0") > made


def test_a_check_over_several_days_blocks_for_the_one_that_is_bad_beside_one_that_cannot_be_told(shop):
    for day in (DAY, NEXT_DAY):
        shop.land(ads(2, day))
    copies = audited_copies(shop)
    copies.run("copies", day=None, tags=between(DAY, NEXT_DAY))
    shop.rewrite("copies/v1.0", all_but_one, NEXT_DAY)
    shutil.rmtree(shop.base / "copies/v1.0/.feed/records" / DAY)

    job = copies.definitions.resolve_implicit_global_asset_job_def()
    keys = copies.definitions.resolve_asset_graph().asset_check_keys
    result = job.get_subset(asset_selection=set(), asset_check_selection=keys).execute_in_process(
        instance=shop.instance, tags=between(DAY, NEXT_DAY), raise_on_error=False
    )

    assert joint_evaluation(result, "rows_accounted").severity == dg.AssetCheckSeverity.ERROR
    assert [shop.latest("copies/v1.0", day) is None for day in (DAY, NEXT_DAY)] == [False, True]


def test_a_column_that_was_declared_since_is_no_fault_of_what_is_published(shop):
    shop.land(ads(2))
    fewer = StructType([field for field in CLEAN_ADS if field.name != "placement_id"])
    assert audited_copies(shop, fewer).run("copies").success
    before = shop.latest("copies/v1.0")

    assert audited_copies(shop).check("copies").success
    assert shop.latest("copies/v1.0") == before
