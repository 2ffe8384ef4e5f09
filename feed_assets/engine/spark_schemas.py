"""Declared columns as Spark's schemas and back, frames under a schema, and the columns of a Parquet file.

Not here: a feed's columns (`datasets`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructField,
    StructType,
)

from feed_assets.engine.jvm import java_machine, java_session
from feed_assets.engine.paths import to_read, to_write
from feed_assets.engine.sql import is_field_name, parsable_type, stored_type
from feed_assets.file_feed.record import Column

NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"
"""The setting with which Spark reads times in nanoseconds as numbers."""
_NANOS = "nanoseconds"
_NANOSECONDS = {"TIMESTAMP(NANOS,true)": "timestamp", "TIMESTAMP(NANOS,false)": "timestamp_ntz"}
_EVER_WIDER = (ByteType, ShortType, IntegerType, LongType), (FloatType, DoubleType)


def spark_schema(columns: Iterable[Column]) -> StructType:
    """The columns in Spark's types. Parsing the names of types needs a running session."""
    return StructType(
        [StructField(each.name, _type(each.type), each.nullable, {"comment": each.description}) for each in columns]
    )


@cache
def _type(name: str) -> DataType:
    # Spark reads no file as VARCHAR or CHAR.
    return DataType.fromDDL(parsable_type(stored_type(name)))


def keeps_values(sent: DataType, declared: str) -> bool:
    """Whether a column of files, read as the declared type, keeps each value: an INT as BIGINT, not a BIGINT as INT.

    Raises ParseException if Spark does not know the declared type.
    """
    wanted = _type(declared)
    if isinstance(sent, NullType):
        return True
    if isinstance(sent, DecimalType) and isinstance(wanted, DecimalType):
        whole_digits = wanted.precision - wanted.scale
        return wanted.scale >= sent.scale and whole_digits >= sent.precision - sent.scale
    for types in _EVER_WIDER:
        if type(sent) in types and type(wanted) in types:
            return types.index(type(wanted)) >= types.index(type(sent))
    return wanted.simpleString() == sent.simpleString()


def footer(spark: SparkSession, uri: str) -> Any:
    """What the footer of a Parquet file has, in Java's types: columns, and the writer's own entries. Takes no job.

    Raises Py4JJavaError.
    """
    with _footer_reader(spark, uri) as reader:
        return reader.getFileMetaData()


def with_null_columns(schema: StructType, spark: SparkSession, uri: str) -> StructType:
    """The schema that Spark infers of a Parquet file, with NullType for columns of Parquet's null type.

    Writers such as pandas choose it for a column without any value; Spark infers INT. Raises Py4JJavaError.
    """
    columns = {each.getName(): each.getLogicalTypeAnnotation() for each in footer(spark, uri).getSchema().getFields()}
    empty = {name for name, annotation in columns.items() if annotation and annotation.toString() == "UNKNOWN"}
    return StructType([StructField(each.name, NullType()) if each.name in empty else each for each in schema])


def with_nanoseconds(schema: StructType, spark: SparkSession, uri: str) -> StructType:
    """The schema with the columns marked that are times in nanoseconds, which Spark has no type for.

    With `NANOS_AS_LONG`, Spark reads them as numbers; `micros_of_nanos` makes times of them. Raises Py4JJavaError.
    """
    if not any(isinstance(each.dataType, LongType) for each in schema):
        return schema
    columns = {each.getName(): each.getLogicalTypeAnnotation() for each in footer(spark, uri).getSchema().getFields()}
    types = {name: _NANOSECONDS.get(str(each.toString())) for name, each in columns.items() if each}
    return StructType(
        [
            StructField(each.name, each.dataType, each.nullable, {_NANOS: types[each.name]})
            if types.get(each.name)
            else each
            for each in schema
        ]
    )


def is_nanoseconds(column: StructField) -> bool:
    """Whether `with_nanoseconds` has marked this column."""
    return _NANOS in column.metadata


def type_of(column: StructField) -> DataType:
    """The type of a column's values, as they are read in the end."""
    return _type(column.metadata[_NANOS]) if is_nanoseconds(column) else column.dataType


def micros_of_nanos(nanos: SparkColumn, column: StructField) -> SparkColumn:
    """The times of a marked column, cut off to microseconds. The session's time zone is UTC."""
    whole = (nanos - functions.pmod(nanos, functions.lit(1000))) / 1000
    return functions.timestamp_micros(whole.cast("bigint")).cast(column.metadata[_NANOS])


def stated_rows(spark: SparkSession, uri: str) -> int:
    """How many rows a Parquet file has by its footer. Takes no job. Raises Py4JJavaError."""
    with _footer_reader(spark, uri) as reader:
        return int(reader.getRecordCount())


@contextmanager
def _footer_reader(spark: SparkSession, uri: str) -> Iterator[Any]:
    java, configuration = java_machine(spark), java_session(spark).sessionState().newHadoopConf()
    path = java.org.apache.hadoop.fs.Path(to_write(uri))
    file = java.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, configuration)
    # Without these options, Hadoop reads its files of settings again.
    options = java.org.apache.parquet.HadoopReadOptions.builder(configuration).build()
    reader = java.org.apache.parquet.hadoop.ParquetFileReader.open(file, options)
    try:
        yield reader
    finally:
        reader.close()


def readable_columns(spark: SparkSession, uri: str) -> tuple[StructType, dict[str, PySparkException | Py4JJavaError]]:
    """The columns of a Parquet file that Spark can read, and for each other column Spark's error.

    For a file of which Spark infers no schema: there, one column of a type that it does not know is an error of all.
    Raises such an error if the file is no Parquet.
    """
    java = java_machine(spark)
    types = java.org.apache.spark.sql.execution.datasources.parquet
    converter = types.ParquetToSparkSchemaConverter(java_session(spark).sessionState().conf())
    readable: list[StructField] = []
    errors = {}
    for column in footer(spark, uri).getSchema().getFields():
        try:
            converted = converter.convert(java.org.apache.parquet.schema.MessageType(column.getName(), [column])).json()
            schema = StructType.fromJson(json.loads(converted))
            # Spark knows some types, such as TIME, and reads no file with them.
            readable += spark.read.schema(schema).parquet(to_read(uri)).schema
        except (PySparkException, Py4JJavaError) as error:
            errors[column.getName()] = error
    return StructType(readable), errors


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
