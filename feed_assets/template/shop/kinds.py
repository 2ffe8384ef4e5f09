"""The columns of every feed, and the kinds of records that partners send.

Here: names, types, and what a column means. Not here: how a value is computed (`transforms`, `sources/`).
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

from feed_assets.sources import Kind

AMOUNT = DecimalType(12, 2)
TOTAL = DecimalType(22, 2)


def _column(name: str, kind: DataType, comment: str, *, required: bool = True) -> StructField:
    return StructField(name, kind, nullable=not required, metadata={"comment": comment})


CLEAN_ORDERS = StructType(
    [
        _column("order_id", StringType(), "Names this order; unique in its day and source."),
        _column("event_time", TimestampType(), "When it was placed, UTC."),
        _column("product_id", StringType(), "What was ordered."),
        _column("currency", StringType(), "The currency of the amount, such as EUR."),
        _column("amount", AMOUNT, "What the customer pays."),
        _column("source", StringType(), "The partner's log it was read from."),
    ]
)
CLEAN_REFUNDS = StructType(
    [
        _column("refund_id", StringType(), "Names this refund; unique in its day and source."),
        _column("event_time", TimestampType(), "When the money went back, UTC."),
        _column("order_id", StringType(), "The order that it is for.", required=False),
        _column("product_id", StringType(), "What was ordered."),
        _column("currency", StringType(), "The currency of the amount, such as EUR."),
        _column("amount", AMOUNT, "What the customer gets back."),
        _column("source", StringType(), "The partner's log it was read from."),
    ]
)
ORDERS = Kind.of_schema("orders", CLEAN_ORDERS, identifier="order_id")
REFUNDS = Kind.of_schema("refunds", CLEAN_REFUNDS, identifier="refund_id")

EXCHANGE_RATES = StructType(
    [
        _column("hour", TimestampType(), "The hour that the rate holds for, UTC."),
        _column("currency", StringType(), "The currency, such as USD."),
        _column("euros", DoubleType(), "What one unit of it is worth in euros."),
    ]
)
PRODUCTS = StructType(
    [
        _column("product_id", StringType(), "The product."),
        _column("name", StringType(), "What customers call it.", required=False),
    ]
)
REVENUE = StructType(
    [
        _column("product_id", StringType(), "The product: every one that was ordered or refunded on the day."),
        _column("name", StringType(), "What customers call it, where the catalog names it.", required=False),
        _column("orders", LongType(), "How often it was ordered."),
        _column("refunds", LongType(), "How often it was refunded."),
        _column("euros", TOTAL, "Orders minus refunds, in euros."),
        _column("unconverted", LongType(), "Orders and refunds without an exchange rate: `euros` lacks them."),
    ]
)
