"""The columns of every feed, and the kinds of records that partners send.

Here: names, types and meanings of columns. Not here: how to compute a value (`transforms`, `sources/`).
"""

from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import feed_assets as fa

AMOUNT = DecimalType(12, 2)
TOTAL = DecimalType(22, 2)


def _column(name: str, kind: DataType, comment: str, *, required: bool = True) -> StructField:
    return StructField(name, kind, nullable=not required, metadata={"comment": comment})


CLEAN_ORDERS = StructType(
    [
        _column("order_id", StringType(), "The order; unique in its day and source."),
        _column("event_time", TimestampType(), "When the customer ordered, UTC."),
        _column("product_id", StringType(), "The ordered product."),
        _column("currency", StringType(), "The currency of the amount, such as EUR."),
        _column("amount", AMOUNT, "The price that the customer pays."),
        _column("source", StringType(), "The source of the record."),
    ]
)
CLEAN_REFUNDS = StructType(
    [
        _column("refund_id", StringType(), "The refund; unique in its day and source."),
        _column("event_time", TimestampType(), "When the money went back, UTC."),
        _column("order_id", StringType(), "The refunded order.", required=False),
        _column("product_id", StringType(), "The ordered product."),
        _column("currency", StringType(), "The currency of the amount, such as EUR."),
        _column("amount", AMOUNT, "The money that the customer gets back."),
        _column("source", StringType(), "The source of the record."),
    ]
)
ORDERS = fa.Kind.of_schema("orders", CLEAN_ORDERS, identifier="order_id")
REFUNDS = fa.Kind.of_schema("refunds", CLEAN_REFUNDS, identifier="refund_id")

EXCHANGE_RATES = StructType(
    [
        _column("hour", TimestampType(), "The hour of the rate, UTC."),
        _column("currency", StringType(), "The currency, such as USD."),
        _column("euros", DoubleType(), "The value of one unit in euros."),
    ]
)
PRODUCTS = StructType(
    [
        _column("product_id", StringType(), "The product."),
        _column("name", StringType(), "The name for customers.", required=False),
    ]
)
REVENUE = StructType(
    [
        _column("product_id", StringType(), "A product that was ordered or refunded on the day."),
        _column("name", StringType(), "The name in the catalog.", required=False),
        _column("orders", LongType(), "The number of its orders."),
        _column("refunds", LongType(), "The number of its refunds."),
        _column("euros", TOTAL, "Orders minus refunds, in euros."),
        _column("unconverted", LongType(), "The orders and refunds that `euros` lacks, as they have no exchange rate."),
    ]
)
