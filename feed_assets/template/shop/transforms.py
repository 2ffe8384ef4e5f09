"""The computation, as pure functions from DataFrames to DataFrames.

Here: which records are usable, and the revenue of a product. Not here: Dagster, reading or writing files, the clock.
"""

from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark

import feed_assets as fa

from . import kinds

HOME_CURRENCY = "EUR"


def judge_orders(_: object, records: DataFrame, day: date, earlier: DataFrame | None) -> DataFrame:
    """The orders of a day, each with its verdict: published, quarantined or duplicate."""
    return fa.judge(records, kinds.CLEAN_ORDERS, [fa.missing("order_id"), *_of_money()], day=day, earlier=earlier)


def judge_refunds(_: object, records: DataFrame, day: date, earlier: DataFrame | None) -> DataFrame:
    """The refunds of a day, each with its verdict."""
    return fa.judge(records, kinds.CLEAN_REFUNDS, [fa.missing("refund_id"), *_of_money()], day=day, earlier=earlier)


def _of_money() -> list[fa.Rule]:
    amount = F.col("amount")
    return [
        fa.missing("product_id"),
        fa.missing("currency"),
        fa.unparsable("amount"),
        ("no positive amount", amount.isNull() | (amount <= 0)),
    ]


def revenue(
    *, clean_orders: DataFrame, clean_refunds: DataFrame, exchange_rates: DataFrame, products: DataFrame
) -> DataFrame:
    """A row for each product that was ordered or refunded, with the columns of `kinds.REVENUE`."""
    rates = exchange_rates.groupBy("hour", "currency").agg(F.max("euros").alias("_rate"))
    moved = [
        records.select(
            "product_id",
            "currency",
            F.date_trunc("hour", "event_time").alias("hour"),
            (F.col("amount") * sign).alias("_amount"),
            F.lit(sign > 0).alias("_order"),
        )
        for records, sign in ((clean_orders, 1), (clean_refunds, -1))
    ]
    rate = F.when(F.col("currency") == HOME_CURRENCY, F.lit(1.0)).otherwise(F.col("_rate"))
    converted = moved[0].unionByName(moved[1]).join(rates, ["hour", "currency"], "left").withColumn("_euros", rate)
    return (
        converted.groupBy("product_id")
        .agg(
            F.count_if("_order").alias("orders"),
            F.count_if(~F.col("_order")).alias("refunds"),
            F.coalesce(F.sum(F.col("_amount") * F.col("_euros")), F.lit(0)).cast(kinds.TOTAL).alias("euros"),
            F.count_if(F.col("_euros").isNull()).alias("unconverted"),
        )
        .join(products.groupBy("product_id").agg(F.max("name").alias("name")), "product_id", "left")
        .select(*kinds.REVENUE.names)
    )
