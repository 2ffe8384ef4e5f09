"""Types of columns as text, in which records and promised schemas keep them, and back."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from feed_assets.engine.spark_schemas import declared_columns, spark_schema
from feed_assets.file_feed import Column

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="<>,:`\0"), min_size=1)


def nested(*names):
    """A type with fields of these names at each place where a type can have fields."""
    fields = StructType([StructField(name, DecimalType(10, 2)) for name in names])
    return StructType([StructField("a", ArrayType(fields)), StructField("b", MapType(StringType(), fields))])


def test_a_field_of_a_struct_may_have_a_name_that_spark_has_to_quote(spark):
    @settings(max_examples=50)
    @example({"content-type", "größe", "1e5", "price (eur)", "a.b", "varchar(3)", "select"})
    @given(st.sets(NAMES, min_size=1, max_size=5))
    def holds(names):
        schema = StructType([StructField("h", nested(*names), metadata={"comment": ""})])
        assert spark_schema(declared_columns(schema)) == schema

    holds()


def test_the_text_of_a_type_is_that_of_earlier_versions():
    schema = StructType([StructField("h", nested("x", "content-type"))])

    (column,) = declared_columns(schema)

    fields = "struct<x:decimal(10,2),content-type:decimal(10,2)>"
    assert column.type == f"struct<a:array<{fields}>,b:map<string,{fields}>>"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("varchar(10)", StringType()),
        ("array<char(3)>", ArrayType(StringType())),
        ("struct<a:bigint,b:varchar(1)>", StructType().add("a", LongType()).add("b", StringType())),
    ],
)
def test_texts_of_limited_length_are_read_as_texts(spark, text, read):
    assert declared_columns(StructType([StructField("v", VarcharType(10))]))[0].type == "varchar(10)"
    assert spark_schema([Column("v", text, nullable=True, description="")])["v"].dataType == read
