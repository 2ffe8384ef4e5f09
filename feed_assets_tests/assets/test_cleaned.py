"""A Dagster project of somebody's own: orders, cleaned by the asset that the library makes for any kind."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import dagster as dg
from pyspark.sql.types import DecimalType, StringType, StructField, StructType, TimestampType

from feed_assets.assets import cleaned, raw_logs
from feed_assets.io_manager import FileFeedIOManager, feed_metadata
from feed_assets.partitions import daily, hourly
from feed_assets.resources import BlackboardResource, SparkResource
from feed_assets.sources import Kind, load_sources
from feed_assets.sources.landing import land
from feed_assets_tests.harness import AS_OF, DAY, Installation, settings_below, write_sources

CLEAN_ORDERS = StructType(
    [
        StructField("order_id", StringType(), nullable=False),
        StructField("event_time", TimestampType(), nullable=False),
        StructField("customer", StringType()),
        StructField("amount", DecimalType(12, 2)),
        StructField("source", StringType(), nullable=False),
    ]
)
ORDERS = Kind.of_schema("orders", CLEAN_ORDERS, identifier="order_id")
LOCATION = "clean-orders/v1.0"

SHOP = """\
name: NAME
kind: orders
format: {type: csv, header: true, columns: [number, placed, who, total]}
columns: {event_time: to_timestamp(placed), customer: who, amount: total}
identity: [number]
growth_threshold_percent: 5
lookback_days: 7
"""


def judge(context, records, day, earlier):
    """Orders of at least the smallest amount; their customers in capitals."""
    evening = 0 if earlier is None else earlier.count()
    kept = records.where(f"amount >= {context.resources.smallest} AND to_date(event_time) = DATE'{day}'")
    return kept.selectExpr("order_id", "event_time", f"concat(customer, {evening}) AS customer", "amount", "source")


def test_a_project_cleans_a_kind_of_its_own_that_nothing_in_the_library_names(spark, tmp_path, dagster_instance):
    descriptions = [SHOP.replace("NAME", name) for name in ("corner", "market")]
    settings = settings_below(tmp_path / "base", write_sources(tmp_path / "sources", *descriptions))
    sources = load_sources(settings.sources_directory, [ORDERS])
    board = BlackboardResource.at(settings.base)
    for source, rows in zip(sources, ("1,2019-11-23 23:30:00,ann,5\n2,2019-11-24 05:00:00,bob,7", ""), strict=True):
        log = tmp_path / f"{source.name}.csv"
        log.write_text(f"number,placed,who,total\n{rows}\n3,2019-11-24 06:00:00,eve,9.5\n4,2019-11-24 06:00:00,eve,1\n")
        land(spark, board.blackboard, source, log, now=AS_OF)
    orders = cleaned(
        "clean_orders",
        ORDERS,
        sources,
        daily(settings),
        judge,
        metadata=feed_metadata(LOCATION, CLEAN_ORDERS, identity=["order_id"]),
        description="Orders that are large enough.",
        required_resource_keys={"smallest"},
    )

    result = dg.materialize(
        [*(raw_logs(source, hourly(settings)) for source in sources), orders],
        partition_key=DAY,
        instance=dagster_instance,
        resources={
            "smallest": dg.ResourceDefinition.hardcoded_resource(2),
            "file_feed": FileFeedIOManager(
                blackboard=board,
                spark=SparkResource.on(settings.spark_master),
                clock=settings.clock,
                sources={source.key: source for source in sources},
            ),
        },
    )

    assert result.success
    rows = Installation(settings, dagster_instance).rows(LOCATION)
    assert sorted((row["source"], row["event_time"], row["customer"], row["amount"]) for row in rows) == [
        ("corner", datetime(2019, 11, 24, 5, tzinfo=UTC), "bob1", Decimal("7.00")),
        ("corner", datetime(2019, 11, 24, 6, tzinfo=UTC), "eve1", Decimal("9.50")),
        ("market", datetime(2019, 11, 24, 6, tzinfo=UTC), "eve1", Decimal("9.50")),
    ]
    (lineage,) = result.get_asset_materialization_events()
    columns = lineage.materialization.metadata["dagster/column_lineage"].value.deps_by_column
    assert {dep.asset_key for dep in columns["amount"]} == {
        dg.AssetKey(["raw", "orders", name]) for name in ("corner", "market")
    }
