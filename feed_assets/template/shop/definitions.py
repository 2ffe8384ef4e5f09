"""The module that Dagster loads: all assets and their audits.

Here: which assets exist. Not here: columns (`kinds`), computation (`transforms`), rules of audits (`expectations`).
"""

from datetime import date
from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

import feed_assets as fa

from . import expectations, kinds, transforms

project = fa.Project.of(
    kinds.ORDERS, kinds.REFUNDS, sources=Path(__file__).parent / "sources", first_day=date(2024, 1, 1)
)


def clean(kind: fa.Kind, schema: StructType, judge: fa.Judge) -> dg.AssetsDefinition:
    """An asset with one day of all sources of this kind, published as the feed `clean-<kind>/v1.0`."""
    feed = fa.feed_metadata(f"clean-{kind.name}/v1.0", schema, identity=["source", kind.identifier], audited=True)
    about = f"The {kind.name} of a day (UTC), without duplicates."
    return fa.cleaned(
        f"clean_{kind.name}", kind, project.sources, project.days, judge, metadata=feed, description=about
    )


clean_orders = clean(kinds.ORDERS, kinds.CLEAN_ORDERS, transforms.judge_orders)
clean_refunds = clean(kinds.REFUNDS, kinds.CLEAN_REFUNDS, transforms.judge_refunds)

# Other teams publish these two feeds: exchange rates by hour, products without partitions. Both are optional inputs.
rates_feed = fa.feed_metadata("exchange-rates/v1.0", kinds.EXCHANGE_RATES)
exchange_rates = dg.AssetSpec("exchange_rates", partitions_def=project.hours, metadata=rates_feed)
products = dg.AssetSpec("products", metadata=fa.feed_metadata("products/v1.0", kinds.PRODUCTS))
others = dg.AssetIn(input_manager_key="file_feed", metadata={fa.OPTIONAL: True})


@dg.asset(
    ins={"clean_orders": dg.AssetIn(), "clean_refunds": dg.AssetIn(), "exchange_rates": others, "products": others},
    partitions_def=project.days,
    io_manager_key="file_feed",
    metadata=fa.feed_metadata("revenue/v1.0", kinds.REVENUE, identity=["product_id"], audited=True),
)
def revenue(**feeds: DataFrame) -> DataFrame:
    """The revenue of each product on a day, in euros."""
    return transforms.revenue(**feeds)


defs = project.definitions(
    assets=[exchange_rates, products, clean_orders, clean_refunds, revenue],
    asset_checks=[
        fa.checks.audit(clean_orders, expectations.of_records("order_id")),
        fa.checks.audit(clean_refunds, expectations.of_records("refund_id")),
        fa.checks.audit(revenue, expectations.OF_REVENUE),
    ],
)
