"""Reading exactly the files of a list with Spark, without a request for any of them on the driver.

Here: how Spark gets names and sizes, and how many tasks read them. Not here: which files are read, and schemas. If
Spark gets paths, its driver asks the store about each, three requests a file in a bucket. So the list is written as the
log that Spark's own file sink for streams keeps beside its files (`_spark_metadata`): a reader of that folder takes
names and sizes from the log, and lists nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

from pyspark.sql import DataFrame, DataFrameReader, SparkSession, functions
from pyspark.sql.types import LongType, StructType

from feed_assets.engine.jvm import estimated_bytes
from feed_assets.engine.paths import to_read

_LOG = "_spark_metadata"

ONE_TASK: Final = 4 * 2**20
"""Bytes of files up to which one task reads them all. Spark then computes without exchanges, in one job an action.

From some 250,000 compressed records on, two cores gain more than an exchange costs (measured).
"""


def read_listed(
    reader: DataFrameReader, kind: str, sizes: Mapping[str, int], schema: StructType | None = None
) -> DataFrame:
    """The rows of these files, URI -> bytes; `kind` is Spark's name of their format. Spark skips hidden files.

    Without a `schema` Spark infers one. A file that is gone is an error when the frame is computed.
    """
    if schema is not None:
        # Without this, Spark would trust the schema of such a log, and not look for a NULL in a required column.
        reader = reader.schema(schema.toNullable())
    with TemporaryDirectory() as folder:
        log = Path(folder, _LOG)
        log.mkdir()
        lines = (json.dumps(_entry(uri, size)) for uri, size in sizes.items())
        (log / "0").write_text("\n".join(["v1", *lines]), encoding="utf-8")
        # A Spark that ignored the log would list the folder, and fail on this file instead of finding no rows.
        Path(folder, "ignored").write_text("This Spark ignores the list of files.")
        listed = to_read(Path(folder).as_uri())
        frame = reader.option("recursiveFileLookup", "true").format(kind).load(listed)
    return frame.coalesce(1) if sum(sizes.values()) <= ONE_TASK else frame


def fits_one_task(frame: DataFrame) -> bool:
    """Whether the files that a frame is computed from are so small, up to 4 MiB, that one task reads them all.

    Spark then joins without exchanges, and a broadcast would only add a job. Takes no job. False for a frame of unknown
    size, such as one made from Python's rows, and for most joins.
    """
    return estimated_bytes(frame) <= ONE_TASK


def row_count(spark: SparkSession, sizes: Mapping[str, int]) -> int:
    """How many rows these Parquet files, URI -> bytes, have. One Spark job, over the files' footers."""
    return _footers(spark, sizes).count() if sizes else 0


def rows_by_path(spark: SparkSession, sizes: Mapping[str, int], pattern: str) -> dict[str, int]:
    """How many rows these Parquet files have by the first group of a pattern that all their paths have.

    As `row_count`; grouping takes several times as long.
    """
    if not sizes:
        return {}
    # Spark would search each row's path.
    files = _footers(spark, sizes).groupBy("_metadata.file_path").agg(functions.count("*").alias("rows")).collect()
    counts: Counter[str] = Counter()
    for path, rows in files:
        (group,) = re.findall(pattern, path)
        counts[group] += rows
    return dict(counts)


def _footers(spark: SparkSession, sizes: Mapping[str, int]) -> DataFrame:
    """The rows of these Parquet files with one column, which no file has: Spark reads no value."""
    return read_listed(spark.read, "parquet", sizes, StructType().add("_no_column", LongType()))


def _entry(uri: str, size: int) -> dict[str, object]:
    url = f"s3a://{quote(uri.removeprefix('s3://'))}" if uri.startswith("s3://") else uri
    unused = {"isDir": False, "modificationTime": 0, "blockReplication": 1, "blockSize": 1, "action": "add"}
    return {"path": url, "size": size, **unused}
