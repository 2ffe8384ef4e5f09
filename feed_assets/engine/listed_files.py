"""Reading exactly the files of a list with Spark, without a request for any of them on the driver.

Here: how Spark gets names and sizes, and how many tasks read them. Not here: which files are read, and schemas. If
Spark gets paths, its driver asks the store about each, three requests a file in a bucket. So the list is written as the
log that Spark's own file sink for streams keeps beside its files (`_spark_metadata`): a reader of that folder takes
names and sizes from the log, and lists nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql.types import StructType

from feed_assets.engine.paths import to_read

_LOG = "_spark_metadata"

ONE_TASK: Final = 8 * 2**20
"""Bytes of files up to which one task reads them all. Spark then computes without exchanges, in one job an action."""


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


def _entry(uri: str, size: int) -> dict[str, object]:
    url = f"s3a://{quote(uri.removeprefix('s3://'))}" if uri.startswith("s3://") else uri
    unused = {"isDir": False, "modificationTime": 0, "blockReplication": 1, "blockSize": 1, "action": "add"}
    return {"path": url, "size": size, **unused}
