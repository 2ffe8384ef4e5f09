"""Kinds of a project's own: orders, from their description to canonical columns, and what is said of mistakes."""

import json
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql.types import DecimalType, StringType, StructField, StructType, TimestampType

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.file_feed import Column
from feed_assets.sources.canonical import canonical
from feed_assets.sources.expressions import check_expressions
from feed_assets.sources.kinds import Kind, KindError
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_source, load_sources
from feed_assets.sources.raw import raw_frame, read_set
from feed_assets.sources.spec import Source, SpecError

ORDER_ID = Column("order_id", "string", nullable=False)
EVENT_TIME = Column("event_time", "timestamp", nullable=False)
CUSTOMER = Column("customer", "string", nullable=False)
AMOUNT = Column("amount", "decimal(12,2)")

ORDERS = Kind("orders", (ORDER_ID, EVENT_TIME, CUSTOMER, AMOUNT), identifier="order_id")
RETURNS = Kind("returns", (Column("return_id", "string"), EVENT_TIME), identifier="return_id")

SHOP_ORDERS = """\
name: shop
kind: orders
format: {type: csv, header: true, columns: [number, placed, customer, total]}
columns:
  event_time: to_timestamp(placed)
  customer: customer
  amount: total
identity: [number]
growth_threshold_percent: 5
lookback_days: 7
"""

DAY = date(2019, 11, 24)
NOW = datetime(2019, 12, 1, tzinfo=UTC)


@pytest.fixture
def described(tmp_path):
    """The source of a description, with one text in it replaced."""

    def load(old="", new="", kinds=(ORDERS, RETURNS)):
        path = tmp_path / "shop.yaml"
        path.write_text(SHOP_ORDERS.replace(old, new) if old else SHOP_ORDERS)
        return load_source(path, kinds)

    return load


def problem(error, tmp_path):
    return str(error.value).replace(f"{tmp_path}/", "")


def test_records_of_a_kind_of_ones_own_land_and_come_out_in_its_columns(spark, described, tmp_path):
    source, blackboard = described(), LocalBlackboard(tmp_path / "blackboard")
    log = tmp_path / "log.csv"
    log.write_text(
        "number,placed,customer,total\n"
        "1,2019-11-24 05:00:00,ann,12.50\n"
        "2,2019-11-24 06:00:00,bob,much\n"
        "3,2019-11-24 06:30:00,eve,\n"
        "4,never,ann,1\n"
    )

    landing = land(spark, blackboard, source, log, now=NOW)

    raw = raw_frame(spark, blackboard, source, read_set(blackboard, "orders/shop", DAY))
    frame = canonical(raw, source).orderBy("event_time")
    first, second, third = frame.collect()
    assert (source.key, landing.landed, landing.quarantined) == ("orders/shop", 3, {"no usable time": 1})
    assert set(landing.partitions) == {"2019-11-24/05", "2019-11-24/06"}
    assert [(field.name, field.dataType) for field in frame.schema][:5] == [
        ("order_id", StringType()),
        ("event_time", TimestampType()),
        ("customer", StringType()),
        ("amount", DecimalType(12, 2)),
        ("source", StringType()),
    ]
    assert (first.event_time.replace(tzinfo=UTC), first.customer, first.amount, first.source) == (
        datetime(2019, 11, 24, 5, tzinfo=UTC),
        "ann",
        Decimal("12.50"),
        "shop",
    )
    assert json.loads(first._raw)["number"] == "1"
    assert [row._unparsable for row in (first, second, third)] == [None, ["amount"], None]
    assert len({first.order_id, second.order_id, third.order_id}) == 3


def test_a_kind_says_where_the_name_of_the_source_goes(spark, described):
    kind = Kind("orders", (ORDER_ID, Column("source", "string"), *ORDERS.schema[1:]), identifier="order_id")
    raw = spark.sql(
        "SELECT '1' AS number, '2019-11-24' AS placed, 'ann' AS customer, '1' AS total, "
        "'log.csv' AS _file, 1L AS _line, CAST(NULL AS string) AS _malformed"
    )

    frame = canonical(raw, described(kinds=[kind]))

    assert frame.columns[:5] == ["order_id", "source", "event_time", "customer", "amount"]
    assert frame.collect()[0].source == "shop"
    with pytest.raises(SpecError, match=re.escape("columns.source: canonical orders have no such column")):
        described("  amount: total", "  source: total", kinds=[kind])


def test_an_expression_is_checked_against_the_kind_it_was_loaded_with(spark, described):
    dated = (ORDER_ID, EVENT_TIME, CUSTOMER, Column("amount", "date"))
    truth = ("amount: total", "amount: CAST(total AS BOOLEAN)")

    check_expressions(spark, described(*truth))

    with pytest.raises(SpecError, match=r"shop\.yaml:7: columns\.amount: Spark does not take"):
        check_expressions(spark, described(*truth, kinds=[Kind("orders", dated, identifier="order_id")]))


def test_an_unknown_kind_is_named_with_its_place_and_the_kinds_there_are(described, tmp_path):
    with pytest.raises(SpecError) as unknown:
        described("kind: orders", "kind: order")
    with pytest.raises(SpecError) as none_there:
        described(kinds=())

    assert problem(unknown, tmp_path) == "shop.yaml:2: kind: there is no kind 'order'; there are orders, returns"
    assert problem(none_there, tmp_path) == (
        "shop.yaml:2: kind: there is no kind 'orders'; there are none: declare a Kind"
    )


def test_a_column_that_the_kind_has_not_is_named_with_those_it_has(described, tmp_path):
    with pytest.raises(SpecError) as caught:
        described("  amount: total", "  price: total")

    assert problem(caught, tmp_path) == (
        "shop.yaml:7: columns.price: canonical orders have no such column; "
        "they have order_id, event_time, customer, amount"
    )


def test_every_required_column_that_is_missing_is_named(described, tmp_path):
    with pytest.raises(SpecError) as caught:
        described("  event_time: to_timestamp(placed)\n  customer: customer\n", "")

    assert problem(caught, tmp_path).splitlines() == [
        "shop.yaml:4: columns.customer: is missing; add an expression for it",
        "shop.yaml:4: columns.event_time: is missing; add an expression for it",
    ]


def test_a_source_keeps_its_kind_in_copies(described):
    source = described()

    assert source.declared_kind is ORDERS
    assert source.model_copy(update={"lookback_days": 3}).declared_kind is ORDERS
    assert Source.of(source.model_dump(), [ORDERS]).expressions == source.expressions


@pytest.mark.parametrize(
    ("name", "schema", "identifier", "message"),
    [
        ("Orders/2019", ORDERS.schema, "order_id", "kind 'Orders/2019': a kind's name becomes a path; use only"),
        ("", ORDERS.schema, "order_id", "kind '': a kind's name becomes a path; use only"),
        ("orders\n", ORDERS.schema, "order_id", "a kind's name becomes a path; use only"),
        ("orders", (ORDER_ID,), "order_id", "kind 'orders': records land by 'event_time'; add such a column"),
        ("orders", (ORDER_ID, Column("event_time", "timestamp")), "order_id", "a timestamp that is not nullable"),
        (
            "orders",
            (ORDER_ID, Column("event_time", "string", nullable=False)),
            "order_id",
            "a timestamp that is not nullable",
        ),
        ("orders", ORDERS.schema, "id", "the identifier 'id' is no column of type string"),
        ("orders", ORDERS.schema, "amount", "the identifier 'amount' is no column of type string"),
        (
            "orders",
            (EVENT_TIME, ORDER_ID),
            "order_id",
            "by the first column `quality.judge` finds what was delivered twice; put the identifier 'order_id' first",
        ),
        ("orders", (*ORDERS.schema, Column("_line", "bigint")), "order_id", "'_line' begins with _"),
        ("orders", (*ORDERS.schema, Column("Amount", "bigint")), "order_id", "two columns have one name"),
        ("orders", (*ORDERS.schema, Column("source", "bigint")), "order_id", "make it a string"),
    ],
)
def test_a_kind_that_cannot_be_used_is_refused_where_it_is_declared(name, schema, identifier, message):
    with pytest.raises(KindError, match=re.escape(message)):
        Kind(name, schema, identifier)


def test_a_kind_of_a_spark_schema_has_its_columns():
    schema = StructType(
        [
            StructField("order_id", StringType(), nullable=False, metadata={"comment": "Names this order."}),
            StructField("event_time", TimestampType(), nullable=False),
            StructField("customer", StringType(), nullable=False),
            StructField("amount", DecimalType(12, 2)),
        ]
    )

    kind = Kind.of_schema("orders", schema, identifier="order_id")

    assert kind.schema == (
        Column("order_id", "string", nullable=False, description="Names this order."),
        *ORDERS.schema[1:],
    )
    assert (kind.columns, kind.required, kind.parsed) == (
        {"order_id": "string", "event_time": "timestamp", "customer": "string", "amount": "decimal(12,2)"},
        ("event_time", "customer"),
        ("event_time", "amount"),
    )


def test_sources_of_a_kind_of_ones_own_load_where_there_is_no_spark(described, tmp_path):
    described()
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['dagster', 'pyspark', 'duckdb']))\n"
        "from pathlib import Path\n"
        "from feed_assets.file_feed import Column\n"
        "from feed_assets import Kind, load_sources\n"
        "columns = Column('order_id', 'string'), Column('event_time', 'timestamp', nullable=False)\n"
        "columns = *columns, Column('customer', 'string'), Column('amount', 'double')\n"
        "(source,) = load_sources(Path(sys.argv[1]), [Kind('orders', columns, identifier='order_id')])\n"
        "print(source.key, *source.expressions)"
    )

    run = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)

    assert (run.stdout, run.stderr) == ("orders/shop order_id event_time customer amount\n", "")


def test_two_kinds_of_one_name_are_refused(tmp_path):
    with pytest.raises(KindError, match="kind 'orders': two kinds have this name"):
        load_sources(tmp_path, [ORDERS, Kind("orders", RETURNS.schema, "return_id")])
