from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from feed_assets.ads.schemas import AD_CATALOG, AD_EFFECTIVENESS, CLEAN_ADS, CLEAN_CLICKS
from feed_assets.engine.judged_rows import QUARANTINE
from feed_assets.engine.spark_schemas import as_declared
from feed_assets_tests.ads.events import described

SCHEMAS = {
    "clean_ads": CLEAN_ADS,
    "clean_clicks": CLEAN_CLICKS,
    "ad_catalog": AD_CATALOG,
    "ad_effectiveness": AD_EFFECTIVENESS,
    "quarantine": QUARANTINE,
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_every_column_says_in_a_sentence_what_it_holds(schema: StructType) -> None:
    for field in schema:
        comment = field.metadata["comment"]
        assert comment[0].isupper() or comment.startswith("cost /")
        assert comment.endswith(".")


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_frame_is_given_exactly_the_declared_columns_order_types_and_comments(
    spark: SparkSession, schema: StructType
) -> None:
    columns = [f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in reversed(schema.fields)]
    loose = spark.range(0).selectExpr("id AS something_else", *columns)

    assert described(as_declared(loose, schema).schema) == described(schema)


def test_a_null_in_a_required_column_stays_for_a_check_to_find(spark: SparkSession) -> None:
    columns = [f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in CLEAN_CLICKS]

    (row,) = as_declared(spark.range(1).selectExpr(*columns), CLEAN_CLICKS).collect()

    assert set(row) == {None}


def test_a_frame_without_a_declared_column_is_refused_by_its_name(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="click_id"):
        as_declared(spark.range(1), CLEAN_CLICKS)


def test_a_column_of_a_type_that_does_not_fit_is_refused(spark: SparkSession) -> None:
    columns = [f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in CLEAN_ADS]
    with_text = spark.range(1).selectExpr(*columns).selectExpr("* EXCEPT (cost)", "'cheap' AS cost")

    with pytest.raises(AnalysisException, match="cost"):
        as_declared(with_text, CLEAN_ADS)
