"""Records of a project's own kind are judged and kept, whatever their columns are called and whatever they lack."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType, TimestampType

from feed_assets.blackboard.location import open_blackboard
from feed_assets.engine.judged_rows import FEW, published_rows, quarantined_rows
from feed_assets.engine.spark_schemas import declared_columns
from feed_assets.file_feed import Facts, Feed, claim
from feed_assets.quality.judging import judge, missing, unparsable
from feed_assets.steps.writing import write

DAY = date(2024, 1, 1)
ORDERS = StructType(
    [
        StructField("order_id", StringType()),
        StructField("event_time", TimestampType()),
        *(StructField(name, StringType()) for name in ("file", "record", "reason", "verdict")),
        StructField("line", LongType()),
        StructField("source", StringType()),
    ]
)


def orders(spark: SparkSession, *ids: str | None, unreadable: str = "NULL") -> DataFrame:
    """Records as `canonical` makes them, a line each."""
    frame = spark.createDataFrame(list(enumerate(ids, start=1)), "number BIGINT, order_id STRING")
    return frame.selectExpr(
        "order_id",
        "TIMESTAMP '2024-01-01 10:00:00.123456' AS event_time",
        "'the partner''s file' AS file",
        "'vinyl' AS record",
        "'too loud' AS reason",
        "'guilty' AS verdict",
        "100 + number AS line",
        "'shop' AS source",
        "'log.csv' AS _file",
        "number AS _line",
        "CAST(NULL AS STRING) AS _malformed",
        "CONCAT('{\"number\":', number, '}') AS _raw",
        f"CAST({unreadable} AS ARRAY<STRING>) AS _unparsable",
    )


def outcomes(judged: DataFrame) -> Counter[str]:
    return Counter(f"{row['_verdict']}: {row['_reason']}" for row in judged.collect())


def test_records_without_an_id_are_no_redeliveries_of_each_other(spark):
    judged = judge(orders(spark, "o1", "o1", None, None, " ", ""), ORDERS, [], day=DAY)

    assert outcomes(judged) == {
        "published: None": 1,
        "duplicate: redelivered": 1,
        "quarantined: missing order_id": 4,
    }


def test_a_rule_finds_its_column_also_among_others_that_cannot_be_read(spark):
    records = orders(spark, "o1", unreadable="array('line', 'record')")

    judged = judge(records, ORDERS, [unparsable("record")], day=DAY)

    assert outcomes(judged) == {"quarantined: unparsable record": 1}


def test_a_kind_needs_no_column_for_the_source_and_may_have_a_map(spark):
    schema = StructType([*ORDERS[:2], StructField("tags", MapType(StringType(), StringType()))])
    records = orders(spark, "o1", None).withColumn("tags", expr("map('colour', 'red')"))
    other = records.withColumn("source", expr("'another shop'"))

    judged = judge(records.unionByName(other), schema, [], day=DAY)

    assert outcomes(judged) == {"published: None": 2, "quarantined: missing order_id": 2}
    assert {row["source"] for row in quarantined_rows(judged).collect()} == {"shop", "another shop"}
    assert published_rows(judged).select(*schema.names).first()["tags"] == {"colour": "red"}


@pytest.mark.parametrize("refused", [3, FEW + 200], ids=["few", "more than a driver holds"])
def test_records_may_have_columns_called_as_those_of_the_quarantine(spark, tmp_path, refused):
    board = open_blackboard(str(tmp_path))
    claimed = claim(Feed(board, "orders/v1"), str(DAY), now=datetime(2024, 1, 2, tzinfo=UTC), owner="test")
    judged = judge(orders(spark, "o1", *[None] * refused), ORDERS, [missing("order_id")], day=DAY)

    quarantine, update = write(claimed, judged, Facts(schema=declared_columns(ORDERS)), read=refused + 1)

    assert update.facts.rows.published == 1
    (row,) = spark.read.parquet(f"{tmp_path}/orders/v1/{DAY}/{claimed.name}").collect()
    assert (row["reason"], row["verdict"], row["file"], row["line"]) == (
        "too loud",
        "guilty",
        "the partner's file",
        101,
    )
    assert update.facts.rows.reasons == {"quarantined: missing order_id": refused}
    folder = tmp_path / quarantine.claim.feed.location / str(DAY) / claimed.name
    kept = [json.loads(line) for file in folder.glob("part-*") for line in file.read_text().splitlines()]
    assert len(kept) == refused
    assert min(kept, key=lambda record: record["line"]) == {
        "event_time": "2024-01-01T10:00:00.123456Z",
        "source": "shop",
        "file": "log.csv",
        "line": 2,
        "reason": "missing order_id",
        "record": '{"number":2}',
    }
