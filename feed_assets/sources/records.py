"""A partner's records as frames: fields of lines of text, or rows of Parquet, and null tokens.

Here: the formats. Not here: checking a file before it is read (see `partner_file`), and the place of records (see
`placing`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import NullType, StructType

from feed_assets.engine.moments import JSON_TIMES
from feed_assets.engine.spark_schemas import is_nanoseconds, micros_of_nanos
from feed_assets.engine.sql import quoted, text_literal
from feed_assets.sources.formats import RESERVED_COLUMNS, DelimitedFormat, JsonLinesFormat
from feed_assets.sources.line_breaks import BREAK
from feed_assets.sources.partner_file import SPLIT_BYTES, PartnerFile
from feed_assets.sources.spec import Source

LINE_SETTINGS = {
    # A partition for each split of a file, as a split of these bytes costs no less than it is allowed to.
    "spark.sql.files.maxPartitionBytes": str(SPLIT_BYTES),
    "spark.sql.files.openCostInBytes": str(SPLIT_BYTES),
    # A lower limit in `spark-defaults.conf` would put several splits, or files, into one partition.
    "spark.sql.files.maxPartitionNum": str(2**31 - 1),
    # A digest of nothing but digits is no number.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
"""Settings that a session needs to tell files apart and to number their lines."""

_IN_PARTITION = 2**33 - 1
_ORIGIN = ("_landing", "_file", "_line", "_record")

_MOST_FIELDS = 20_000
"""More fields in a line of CSV are malformed: from 20,480 on, Spark's parser raises an error instead."""
_VARIANT_OPTIONS = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}


def text_records(
    spark: SparkSession,
    files: Mapping[str, tuple[str, PartnerFile]],
    base: str,
    text: DelimitedFormat | JsonLinesFormat,
    columns: Sequence[str],
) -> DataFrame:
    """The records of UTF-8 text files, one for each line that is not blank, without the lines up to the header.

    `files` has for each landing the path of its file and the file; a path has a folder `_landing=...` below `base`.
    Their headers have the same `columns`, and as many without a name.

    The frame has the partner's columns, all STRING; `_landing`; `_file`, the partner's name of the file; `_line`, the
    number of the line in the file, from 1; `_record`, the line itself; and `_malformed`, the line again if it does not
    parse as declared: then the columns hold the values that could be read. The session must have `LINE_SETTINGS`.
    """
    value, split = functions.col("value"), functions.col("_metadata.file_block_start") / SPLIT_BYTES
    before = _of_file(files, lambda file: functions.array(*(functions.lit(lines) for lines in file.lines_before)))
    # Spark numbers the rows of each partition; each split is one.
    row = functions.monotonically_increasing_id().bitwiseAND(_IN_PARTITION)
    unmarked = functions.ltrim(value, functions.lit("\ufeff"))
    record = functions.rtrim(functions.make_valid_utf8(value), functions.lit("\r"))
    if isinstance(text, DelimitedFormat) and text.line_breaks:
        record = functions.translate(record, BREAK, "\n")
    lines = (
        spark.read.options(lineSep="\n", basePath=base)
        .text([path for path, _ in files.values()])
        .select("_landing", (before[split.cast("int")] + row + 1).alias("_line"), value)
        .where(functions.col("_line") > _of_file(files, lambda file: functions.lit(file.skip)))
        .withColumn("value", functions.when(functions.col("_line") == 1, unmarked).otherwise(value))
        .select(
            "_landing",
            _of_file(files, lambda file: functions.lit(file.name)).alias("_file"),
            "_line",
            record.alias("_record"),
            functions.is_valid_utf8(value).alias("_decoded"),
        )
        .where(functions.trim("_record") != "")
    )
    if isinstance(text, DelimitedFormat):
        sent = [file for _, file in files.values()]
        if any(file.nuls for file in sent):
            # Spark's parser leaves NUL out at the ends of fields.
            whole = ~functions.contains(functions.col("_record"), functions.lit("\0"))
            lines = lines.withColumn("_decoded", functions.col("_decoded") & whole)
        return _delimited(lines, text, columns, unnamed=max(file.unnamed for file in sent))
    return _json(lines, columns, long_numbers=any(file.long_numbers for _, file in files.values()))


def parquet_records(
    spark: SparkSession,
    files: Mapping[str, tuple[str, PartnerFile]],
    base: str,
    schema: StructType,
    declared: Mapping[str, str],
) -> DataFrame:
    """The rows of Parquet files of one schema, in columns as those of `text_records`; `_line` is the row's number.

    Columns keep their types, but times in nanoseconds lose what is below a microsecond. Columns of NullType get the
    type that is `declared`, or are left out. No row is malformed, and `_record` is the row as a JSON object.
    """
    empty = [each.name for each in schema if isinstance(each.dataType, NullType)]
    there = StructType([each for each in schema if each.name not in empty])
    rows = spark.read.option("basePath", base).schema(there).parquet(*(path for path, _ in files.values()))
    columns = [
        micros_of_nanos(functions.col(quoted(each.name)), each).alias(each.name)
        if is_nanoseconds(each)
        else functions.col(quoted(each.name))
        for each in there
    ]
    columns += [functions.lit(None).cast(declared[name]).alias(name) for name in empty if name in declared]
    return rows.select(
        *columns,
        "_landing",
        _of_file(files, lambda file: functions.lit(file.name)).alias("_file"),
        (functions.col("_metadata.row_index") + 1).alias("_line"),
        functions.to_json(functions.struct(*columns), JSON_TIMES).alias("_record"),
        functions.lit(None).cast("string").alias("_malformed"),
    )


def _of_file(files: Mapping[str, tuple[str, PartnerFile]], value: Callable[[PartnerFile], Column]) -> Column:
    """A value of the file that a record is of."""
    pairs = ((functions.lit(landing), value(file)) for landing, (_, file) in files.items())
    return functions.create_map(*chain.from_iterable(pairs))[functions.col("_landing")]


def with_nulls(frame: DataFrame, source: Source) -> DataFrame:
    """The same records, with NULL for the source's null tokens in the partner's text columns."""
    texts = {name for name, type_ in frame.dtypes if type_ == "string" and name not in RESERVED_COLUMNS}
    if not source.null_tokens or not texts:
        return frame
    tokens = ", ".join(map(text_literal, source.null_tokens))
    return frame.selectExpr(
        *(
            f"IF({column} IN ({tokens}), NULL, {column}) AS {column}" if name in texts else column
            for name, column in zip(frame.columns, map(quoted, frame.columns), strict=True)
        )
    )


def _delimited(lines: DataFrame, text: DelimitedFormat, columns: Sequence[str], *, unnamed: int) -> DataFrame:
    quote = text.quote_character
    options = {"sep": text.field_separator, "quote": quote, "columnNameOfCorruptRecord": "_faulty"}
    if quote:
        options["escape"] = text.escape or quote
    schema = ", ".join(f"{quoted(name)} STRING" for name in (*columns, "_faulty"))
    few = _has_few_fields(functions.col("_record"), text.field_separator)
    line = functions.col("_record")
    named = _named_fields(line, text, len(columns)) if unnamed else line
    fields = functions.from_csv(functions.when(few, named), schema, options)
    # `inline` instead of a plain column, so that no column parses the line a second time.
    parsed = lines.select("*", functions.inline(functions.array(fields)))
    sound = functions.col("_decoded") & few & functions.col("_faulty").isNull() & _quotes_enclose_fields(text)
    return parsed.select(
        # An empty field was sent: it differs from a missing one.
        *(
            functions.when(sound, functions.coalesce(column, functions.lit(""))).otherwise(column).alias(name)
            for name, column in ((name, functions.col(quoted(name))) for name in columns)
        ),
        *_ORIGIN,
        functions.when(~sound, functions.col("_record")).alias("_malformed"),
    )


def _named_fields(line: Column, text: DelimitedFormat, columns: int) -> Column:
    """A line without its empty fields behind those of the named columns.

    Programs such as Excel write such fields in the header and in some lines only. A value without a name stays, and
    makes its record malformed.
    """
    separator, mark = re.escape(text.field_separator), re.escape(text.quote_character)
    quoted_nothing = f"(?:{mark}{mark})?" if text.quote_character else ""
    body = functions.regexp_replace(line, rf"(?:{separator}{quoted_nothing})+\z", "")
    ended = _separators(functions.substr(line, functions.length(body) + 1), text)
    outside = _unescaped(line, text)
    if text.quote_character:
        outside = functions.regexp_replace(outside, f"{mark}[^{mark}]*{mark}", "")
    fields = _separators(outside, text) + 1
    missing = functions.least(fields, functions.lit(columns)) - (fields - ended)
    return functions.concat(
        body, functions.repeat(functions.lit(text.field_separator), functions.greatest(missing, functions.lit(0)))
    )


def _separators(line: Column, text: DelimitedFormat) -> Column:
    """How many separators a text has."""
    without = functions.replace(line, functions.lit(text.field_separator), functions.lit(""))
    characters = functions.length(line) - functions.length(without)
    return (characters / len(text.field_separator)).cast("int")


def _has_few_fields(line: Column, separator: str) -> Column:
    without = functions.replace(line, functions.lit(separator), functions.lit(""))
    separators = functions.octet_length(line) - functions.octet_length(without)
    most = _MOST_FIELDS * len(separator.encode())
    # Most lines are too short for so many.
    return (functions.octet_length(line) < most) | (separators < most)


def _quotes_enclose_fields(text: DelimitedFormat) -> Column:
    """Whether each field that begins with a quote ends with one, and the number of quotes is even.

    Spark accepts a last field whose closing quote was cut off. It keeps a field with text behind its closing
    quote as it is in the line, with all its quotes.
    """
    line, quote = functions.col("_record"), functions.lit(text.quote_character)
    if not text.quote_character:
        return functions.expr("true")
    plain = _unescaped(line, text)
    mark, separator = re.escape(text.quote_character), re.escape(text.field_separator)
    opening = rf"(^|{separator}){mark}"
    rest = functions.regexp_replace(plain, rf"{opening}[^{mark}]*{mark}(?={separator}|\z)", "$1")
    paired = functions.regexp_count(rest, functions.lit(mark)) % 2 == 0
    return ~functions.contains(line, quote) | (~rest.rlike(opening) & paired)


def _unescaped(line: Column, text: DelimitedFormat) -> Column:
    """A line without the quotes that belong to values, and without the escapes before them."""
    if text.escape:
        return functions.regexp_replace(line, rf"(?s){re.escape(text.escape)}.", "")
    if not text.quote_character:
        return line
    quote = functions.lit(text.quote_character)
    return functions.replace(line, functions.concat(quote, quote), functions.lit(""))


def _json(lines: DataFrame, columns: Sequence[str], *, long_numbers: bool) -> DataFrame:
    # As the first of two elements, a line must be one whole value; alone, Spark would ignore any text after the value.
    # A VARIANT keeps up to 38 digits of numbers.
    elements = functions.concat(functions.lit("["), "_record", functions.lit(",null]"))
    if long_numbers:
        elements = functions.when(~_has_long_number(functions.col("_record")), elements)
    parsed = lines.withColumn("_elements", functions.from_json(elements, "ARRAY<VARIANT>", _VARIANT_OPTIONS))
    sound = functions.coalesce(
        functions.col("_decoded")
        & (functions.size("_elements") == 2)  # noqa: PLR2004 - the line and the NULL
        & functions.ltrim(functions.col("_record"), functions.lit(" \t\r")).startswith("{"),
        functions.expr("false"),
    )
    value = functions.col("_elements")[0]
    return parsed.select(
        *(
            functions.when(sound, functions.try_variant_get(value, _json_path(name), "string")).alias(name)
            for name in columns
        ),
        *_ORIGIN,
        functions.when(~sound, functions.col("_record")).alias("_malformed"),
    )


def _has_long_number(record: Column) -> Column:
    """Whether a JSON object has a whole number of more than 38 digits, outside its texts."""
    unescaped = functions.regexp_replace(record, r"\\.", "")
    return functions.regexp_replace(unescaped, '"[^"]*"', "").rlike("(?<![0-9.])[0-9]{39}")


def _json_path(name: str) -> str:
    quote = "'" if '"' in name else '"'
    return f"$[{quote}{name}{quote}]"
