"""Schemas of feeds in Spark's types.

Here: from declared columns to a schema and back, and frames brought to one. Not here: which columns a feed has
(`datasets`).
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from feed_assets.file_feed import Column


def spark_schema(columns: Iterable[Column]) -> StructType:
    """The columns in Spark's types. Reading the names of types takes a running session."""
    return StructType(
        [
            StructField(
                column.name,
                DataType.fromDDL(column.type),
                nullable=column.nullable,
                metadata={"comment": column.description},
            )
            for column in columns
        ]
    )


def declared_columns(schema: StructType) -> tuple[Column, ...]:
    """The columns of a schema in Spark's types, as feeds and kinds declare them."""
    return tuple(
        Column(each.name, each.dataType.simpleString(), each.nullable, each.metadata.get("comment", ""))
        for each in schema
    )


def as_declared(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame's columns of this schema, in its order, with its types and comments.

    A NULL in a required column stays, for a check to find: Spark's types would say that there is none only if
    another value stood in its place. Raises AnalysisException where a column is missing or its type does not fit.
    """
    nullable = StructType([StructField(field.name, field.dataType, metadata=field.metadata) for field in schema])
    return frame.select(schema.names).to(nullable)
