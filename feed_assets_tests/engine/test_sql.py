"""Texts in Spark's SQL mean themselves, whatever characters they have."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from feed_assets.engine.sql import text_literal


def test_a_text_in_sql_has_the_characters_that_were_given(spark):
    @settings(max_examples=20)
    @example(["", "\\N", "it's", "'", '"', "\\", "\\'", "a\nb", "`c`", "ä-\U0001f600", "r'x'"])
    @given(st.lists(st.text(), min_size=1, max_size=30))
    def holds(texts):
        (row,) = spark.range(1).selectExpr(*map(text_literal, texts)).collect()
        assert list(row) == texts

    holds()
