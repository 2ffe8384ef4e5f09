"""Rules for records of any kind, over columns with any names."""

from __future__ import annotations

import pytest

from feed_assets.engine.sql import quoted
from feed_assets.quality.judging import missing

NAMES = ["order_id", "Order id", "user", "it's", "a`b", "select", "größe"]


def applies(frame, rule):
    reason, condition = rule
    return reason, [row[0] for row in frame.select(condition).collect()]


@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_missing_if_it_has_no_visible_character(spark, name):
    texts = ["a", " a", "\t\n", "", None, "\u00e4", "!"]
    frame = spark.createDataFrame([(text,) for text in texts], "text STRING").toDF(name)

    column = quoted(name) if "`" in name else name
    assert applies(frame, missing(column)) == (f"missing {column}", [False, False, True, True, True, False, False])


def test_a_field_of_a_struct_is_named_after_its_column(spark):
    frame = spark.sql("SELECT named_struct('city', city) AS address FROM VALUES ('Rome'), (' ') AS (city)")

    assert applies(frame, missing("address.city")) == ("missing address.city", [False, True])
