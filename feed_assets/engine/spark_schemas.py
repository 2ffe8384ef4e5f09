"""Declared columns as Spark's schemas and back, and frames under a schema. Not here: a feed's columns (`datasets`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from feed_assets.engine.sql import is_field_name, parsable_type, stored_type
from feed_assets.file_feed import Column


def spark_schema(columns: Iterable[Column]) -> StructType:
    """The columns in Spark's types. Parsing the names of types needs a running session."""
    return StructType(
        [StructField(each.name, _type(each.type), each.nullable, {"comment": each.description}) for each in columns]
    )


@cache
def _type(name: str) -> DataType:
    # Spark reads no file as VARCHAR or CHAR.
    return DataType.fromDDL(parsable_type(stored_type(name)))


def unreadable_fields(schema: StructType) -> list[str]:
    """Names of fields of STRUCTs that `spark_schema` could not tell from the rest of a declared type."""
    return [name for column in schema for name in _field_names(column.dataType) if not is_field_name(name)]


def _field_names(of: DataType) -> Iterator[str]:
    inner: list[DataType] = []
    match of:
        case StructType():
            yield from of.names
            inner = [field.dataType for field in of]
        case ArrayType():
            inner = [of.elementType]
        case MapType():
            inner = [of.keyType, of.valueType]
    for each in inner:
        yield from _field_names(each)


def declared_columns(schema: StructType) -> tuple[Column, ...]:
    """The columns of a Spark schema, as feeds and kinds declare them."""
    return tuple(
        Column(each.name, each.dataType.simpleString(), each.nullable, each.metadata.get("comment", ""))
        for each in schema
    )


def as_declared(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame's columns of this schema, in its order, with its types and comments.

    All columns are nullable, so that a NULL in a required column stays for a check to find. Raises AnalysisException if
    a column is missing or its type does not fit.
    """
    nullable = StructType([StructField(field.name, field.dataType, metadata=field.metadata) for field in schema])
    # `to` takes a column that the frame lacks as NULL, and `select` says that it is missing.
    complete = frame if set(schema.names) <= set(frame.columns) else frame.select(schema.names)
    return complete.to(nullable)
