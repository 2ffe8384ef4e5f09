"""A partner's records as frames: lines of text divided into fields, or rows of Parquet, and what counts as nothing.

Here: the formats. Not here: checking a file before it is read (see `partner_file`), and where records go
(see `landing`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, functions

from feed_assets.sources.spec import (
    RESERVED_COLUMNS,
    DelimitedFormat,
    JsonLinesFormat,
    Source,
    quoted,
)

SINGLE_FILE_SETTINGS = {
    # One partition, whatever the size, so that counting its lines gives their true numbers.
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.maxPartitionBytes": str(2**62),
}
"""What the session must be set to where lines are numbered."""

_VARIANT_OPTIONS = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


def text_records(
    spark: SparkSession, uri: str, text: DelimitedFormat | JsonLinesFormat, columns: Sequence[str], *, skip: int
) -> DataFrame:
    """The records of one UTF-8 text file, one for each line that is not blank, after the first `skip` lines.

    Out come the partner's columns, all STRING; `_line`, the number of the line in the file, from 1;
    `_record`, the line itself; and `_malformed`, the line again where it does not parse as declared, in
    which case the columns hold as much as could be read. The session must have `SINGLE_FILE_SETTINGS`.
    """
    value = functions.col("value")
    lines = (
        spark.read.option("lineSep", "\n")
        .text(uri)
        .select((functions.monotonically_increasing_id() + 1).alias("_line"), value)
        .where(functions.col("_line") > skip)
        .withColumn(
            "value",
            functions.when(functions.col("_line") == 1, functions.ltrim(value, functions.lit("\ufeff"))).otherwise(
                value
            ),
        )
        .select(
            "_line",
            functions.rtrim(functions.make_valid_utf8(value), functions.lit("\r")).alias("_record"),
            functions.is_valid_utf8(value).alias("_decoded"),
        )
        .where(functions.trim("_record") != "")
    )
    if isinstance(text, DelimitedFormat):
        return _delimited(lines, text, columns)
    return _json(lines, columns)


def parquet_records(spark: SparkSession, uri: str) -> DataFrame:
    """The rows of one Parquet file as `text_records` gives those of text; `_line` is the row's number, from 1.

    Columns keep their types, none is malformed, and `_record` is the row as a JSON object.
    """
    rows = spark.read.parquet(uri)
    columns = [functions.col(quoted(name)) for name in rows.columns]
    return rows.select(
        *columns,
        (functions.col("_metadata.row_index") + 1).alias("_line"),
        functions.to_json(functions.struct(*columns)).alias("_record"),
        functions.lit(None).cast("string").alias("_malformed"),
    )


def with_nulls(frame: DataFrame, source: Source) -> DataFrame:
    """The same records, with NULL where a text column of the partner holds one of the source's null tokens."""
    tokens = list(source.null_tokens)
    texts = [name for name, type_ in frame.dtypes if type_ == "string" and name not in RESERVED_COLUMNS]
    if not tokens or not texts:
        return frame
    columns = {name: functions.col(quoted(name)) for name in texts}
    return frame.withColumns({name: functions.when(~column.isin(tokens), column) for name, column in columns.items()})


def _delimited(lines: DataFrame, text: DelimitedFormat, columns: Sequence[str]) -> DataFrame:
    quote = text.quote_character
    options = {"sep": text.field_separator, "quote": quote, "columnNameOfCorruptRecord": "_faulty"}
    if quote:
        options["escape"] = quote
    schema = ", ".join(f"{quoted(name)} STRING" for name in (*columns, "_faulty"))
    fields = functions.from_csv("_record", schema, options)
    # Generated rather than selected, so that no column parses the line a second time.
    parsed = lines.select("*", functions.inline(functions.array(fields)))
    sound = functions.col("_decoded") & functions.col("_faulty").isNull() & _quotes_are_paired(quote)
    return parsed.select(
        # An empty field was sent, and differs from one that is not there.
        *(
            functions.when(sound, functions.coalesce(column, functions.lit(""))).otherwise(column).alias(name)
            for name, column in ((name, functions.col(quoted(name))) for name in columns)
        ),
        "_line",
        "_record",
        functions.when(~sound, functions.col("_record")).alias("_malformed"),
    )


def _quotes_are_paired(quote: str) -> Column:
    """Spark takes a last field whose closing quote was cut off; in a whole line quotes come in pairs."""
    if not quote:
        return functions.expr("true")
    line = functions.col("_record")
    without = functions.replace(line, functions.lit(quote), functions.lit(""))
    return (functions.length(line) - functions.length(without)) % 2 == 0


def _json(lines: DataFrame, columns: Sequence[str]) -> DataFrame:
    # As the first of two elements, a line must be one whole value: what follows it would be ignored
    # otherwise. A VARIANT keeps numbers to their last digit.
    elements = functions.concat(functions.lit("["), "_record", functions.lit(",null]"))
    parsed = lines.withColumn("_elements", functions.from_json(elements, "ARRAY<VARIANT>", _VARIANT_OPTIONS))
    sound = functions.coalesce(
        functions.col("_decoded")
        & (functions.size("_elements") == 2)  # noqa: PLR2004 - the line and the NULL
        & functions.ltrim("_record").startswith("{"),
        functions.expr("false"),
    )
    value = functions.col("_elements")[0]
    return parsed.select(
        *(
            functions.when(sound, functions.try_variant_get(value, _json_path(name), "string")).alias(name)
            for name in columns
        ),
        "_line",
        "_record",
        functions.when(~sound, functions.col("_record")).alias("_malformed"),
    )


def _json_path(name: str) -> str:
    quote = "'" if '"' in name else '"'
    return f"$[{quote}{name}{quote}]"
