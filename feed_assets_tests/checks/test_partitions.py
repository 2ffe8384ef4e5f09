"""Audited assets of any partitions, and what they read of one another: hours, weeks, names, dimensions, none."""

import warnings

import dagster as dg
import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from feed_assets import checks
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import FeedInput
from feed_assets_tests.harness import DAY, NEXT_DAY, between, failed_checks, messages

SCHEMA = StructType(
    [
        StructField("id", StringType(), nullable=False),
        StructField("at", TimestampType()),
        StructField("n", LongType()),
    ]
)
START = "2019-11-20"
HOURS = dg.HourlyPartitionsDefinition(f"{START}-00:00", end_date="2019-11-26-00:00")
DAYS = dg.DailyPartitionsDefinition(START, end_date="2019-11-26")
AREAS = dg.StaticPartitionsDefinition(["eu", "us & ca", "a{b}*"])
BOTH = dg.MultiPartitionsDefinition({"day": DAYS, "area": AREAS})
NAMED = dg.DynamicPartitionsDefinition(name="campaigns")

KINDS = {
    "hours": (HOURS, f"{DAY}-05:00", f"{DAY} 05:59:59"),
    "days": (DAYS, DAY, f"{DAY} 23:59:59"),
    "weeks": (dg.WeeklyPartitionsDefinition("2019-10-06"), DAY, "2019-11-30 12:00:00"),
    "months": (dg.MonthlyPartitionsDefinition("2019-10-01"), "2019-11-01", "2019-11-30 12:00:00"),
    "areas": (AREAS, "us & ca", "1999-01-01 00:00:00"),
    "campaigns": (NAMED, "summer 100%", "1999-01-01 00:00:00"),
    "both": (BOTH, dg.MultiPartitionKey({"day": DAY, "area": "eu"}), f"{DAY} 12:00:00"),
    "whole": (None, None, "1999-01-01 00:00:00"),
}


def rows(at: str, *, count: int = 1, number: int = 1) -> DataFrame:
    """So many rows of this time."""
    session = SparkSession.active()
    columns = functions.col("id").cast("string").alias("id"), functions.lit(at).cast("timestamp").alias("at")
    return session.range(count).select(*columns, functions.lit(number).cast("long").alias("n"))


def root(name, partitions, at):
    """An asset without inputs: a row of this time, for every partition of a run."""

    @dg.asset(
        name=name,
        partitions_def=partitions,
        io_manager_key="file_feed",
        metadata=feed_metadata(f"{name}/v1.0", SCHEMA, identity=["id"], audited=True),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def asset(context: dg.AssetExecutionContext):
        if not context.has_partition_key and context.has_partition_key_range:
            return {key: rows(at) for key in context.partition_keys}
        return rows(at)

    return asset


def derived(name, of, partitions, mapping=None, *, optional=False):
    """An asset that copies all that it reads of another, and is published at once."""

    @dg.asset(
        name=name,
        ins={"read": dg.AssetIn(of.key, partition_mapping=mapping, metadata={"feed/optional": optional})},
        partitions_def=partitions,
        io_manager_key="file_feed",
        metadata=feed_metadata(f"{name}/v1.0", SCHEMA, identity=["id"]),
    )
    def asset(read: DataFrame):
        return read

    return asset


@pytest.fixture
def every_kind(shop):
    """Each kind of partitions with an audited asset, and assets that read these."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        assets = {name: root(name, partitions, at) for name, (partitions, _, at) in KINDS.items()}
        audits = [
            checks.audit(asset, [checks.schema_as_declared(), checks.not_empty(), checks.times_inside("at")])
            for asset in assets.values()
        ]
        readers = [
            derived("days_of_hours", assets["hours"], DAYS, optional=True),
            derived("whole_of_days", assets["days"], None),
            derived("areas_again", assets["areas"], AREAS),
            derived("days_of_both", assets["both"], DAYS, optional=True),
            derived("both_of_days", assets["days"], BOTH),
        ]
        shop.instance.add_dynamic_partitions("campaigns", ["summer 100%", "bad/name"])
        return shop.with_assets(*assets.values(), *readers, checks=audits)


def test_an_audited_asset_without_inputs_is_published_whatever_its_partitions_are(every_kind):
    for name, (_, key, _) in KINDS.items():
        result = every_kind.run(name, day=key)

        assert result.success, (name, messages(result))
        partition = None if key is None else str(key)
        assert every_kind.latest(f"{name}/v1.0", partition) is not None
        event = every_kind.instance.get_latest_materialization_event(dg.AssetKey(name))
        materialization = event.asset_materialization
        assert materialization.metadata["dagster/row_count"].value == 1
        assert {each.partition for each in result.get_asset_check_evaluations()} == {partition}
        (inside,) = [each for each in result.get_asset_check_evaluations() if each.check_name == "times_inside_at"]
        timeless = name in {"areas", "campaigns", "whole"}
        assert ("stands for no time" in inside.description) == timeless, inside.description


def test_partitions_read_one_another_through_mappings(every_kind):
    assert every_kind.run("hours", day=f"{DAY}-05:00").success
    assert failed_checks(every_kind.run("hours", day=f"{DAY}-06:00")) == ["times_inside_at"]
    days = every_kind.run("days", day=None, tags=between(DAY, NEXT_DAY))
    assert every_kind.latest("days/v1.0", DAY) is not None, messages(days)
    assert every_kind.latest("days/v1.0", NEXT_DAY) is None
    areas = every_kind.run("areas", day=None, tags=between("eu", "a{b}*"))
    assert areas.success, messages(areas)
    assert every_kind.run("both", day=dg.MultiPartitionKey({"day": DAY, "area": "a{b}*"})).success

    for name, day in {
        "days_of_hours": DAY,
        "whole_of_days": None,
        "areas_again": "a{b}*",
        "days_of_both": DAY,
        "both_of_days": dg.MultiPartitionKey({"day": DAY, "area": "eu"}),
    }.items():
        result = every_kind.run(name, day=day)
        assert result.success, (name, messages(result))
        record = every_kind.record(f"{name}/v1.0", None if day is None else str(day))
        read = [each for each in record.facts.inputs if isinstance(each, FeedInput) and each.update]
        assert len(read) == record.facts.rows.published == 1, name


def test_an_input_of_the_same_partition_that_is_missing_is_named(every_kind):
    logged = " ".join(messages(every_kind.run("areas_again", day="us & ca")))

    assert "areas/v1.0 has no valid update of us & ca" in logged


def test_a_name_that_cannot_be_a_partition_of_a_feed_is_refused_with_the_reason(every_kind):
    result = every_kind.run("campaigns", day="bad/name")

    assert "'bad/name' cannot be a partition: it has a path separator" in " ".join(messages(result))


def test_the_usual_number_of_rows_is_that_of_the_partitions_before_or_of_the_updates_before(shop):
    sizes = {f"{DAY}-03:00": 4, f"{DAY}-04:00": 4, f"{DAY}-05:00": 9, None: 4}

    def sized(name, partitions):
        @dg.asset(
            name=name,
            partitions_def=partitions,
            io_manager_key="file_feed",
            metadata=feed_metadata(f"{name}/v1.0", SCHEMA, audited=True),
        )
        def asset(context: dg.AssetExecutionContext):
            return rows(f"{DAY} 00:00:00", count=sizes[context.partition_key if partitions else None])

        return asset

    usual = checks.row_count_near_median(factor=2)
    assets = [sized("hourly", HOURS), sized("single", None)]
    installation = shop.with_assets(*assets, checks=[checks.audit(asset, [usual]) for asset in assets])

    runs = [installation.run("hourly", day=key) for key in sizes if key] + [installation.run("single", day=None)]
    sizes[None] = 1
    runs.append(installation.run("single", day=None))

    assert [failed_checks(result) for result in runs] == [[], [], [usual.name], [], [usual.name]]
    (description,) = [each.description for each in runs[2].get_asset_check_evaluations()]
    assert description == "9 rows, the median of the 2 before is 4, limit a factor of 2."
    assert installation.latest("single/v1.0", None) is not None
