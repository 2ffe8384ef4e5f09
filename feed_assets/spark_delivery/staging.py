"""What a large delivery sends, as `delivery.staging` says, computed by Spark.

Rows of both updates are encoded in tasks, meet by their key in one exchange, and are compared there. The driver sees
counts, and the first problem. Staged files are in no order: their names and the places of their rows give the ordinals.
Not here: what is to be sent, and why (`delivery.staging`, `delivery.delivering`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import compute
from pyspark.errors import AnalysisException, PySparkTypeError
from pyspark.sql import Column, DataFrame, Observation, SparkSession, functions
from pyspark.sql.types import StructType

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import Blackboard
from feed_assets.delivery.encoding import ENCODED, Encoder, Place
from feed_assets.delivery.errors import BadRowsError, DeliveryError, DestinationError
from feed_assets.delivery.ledger import StagedFile
from feed_assets.delivery.records import DELETE, PUT
from feed_assets.delivery.staging import (
    STAGED,
    Comparison,
    Staged,
    as_staged,
    doubled,
    require_parquet,
    require_short,
)
from feed_assets.delivery.streams.port import Limits
from feed_assets.engine.listed_files import read_listed
from feed_assets.engine.spark_schemas import footer
from feed_assets.engine.sql import quoted
from feed_assets.engine.update_files import FOOTERS_AT_ONCE, parquet_schema, read_updates, write_files
from feed_assets.engine.value_errors import reason_of
from feed_assets.file_feed.feed import Update
from feed_assets.spark_delivery.failures import explained

_PATH, _ROW = "_path", "_row"
_ENCODED: Final = "STRUCT<key: STRING, shard_key: STRING, body: BINARY, problem: STRING>"
_ARROW: Final = pa.struct([*ENCODED, ("problem", pa.string())])


def stage(
    spark: SparkSession, comparison: Comparison, encoder: Encoder, limits: Limits, board: Blackboard, prefix: str
) -> Staged:
    """Write what is to be sent to files under `prefix`. Raises as `delivery.staging.stage` does."""
    seen = Observation()
    with explained("What is to be sent cannot be staged"):
        rows = _to_be_sent(spark, comparison, encoder, seen)
        if rows is None:
            return Staged((), 0, 0)
        written = write_files(rows, board.uri(prefix).rstrip("/"))
    sizes = {each.key: each.size for each in list_all(board, prefix)}
    found: dict[str, Any] = seen.get
    try:
        _require_sendable(found, comparison, encoder, limits)
        return _counted(spark, board, sizes, written.rows)
    except DeliveryError:
        board.delete(*sizes)
        raise


def _require_sendable(found: Mapping[str, Any], comparison: Comparison, encoder: Encoder, limits: Limits) -> None:
    """Raise BadRowsError for the first problem among what was seen of the rows."""
    if found["problem"] is not None:
        raise BadRowsError(found["problem"])
    if comparison.update is not None and found["doubles"] > 1:
        raise doubled(comparison.update, encoder.key, found["doubles"])
    require_short(found["longest"] or 0, limits)


def _to_be_sent(spark: SparkSession, comparison: Comparison, encoder: Encoder, seen: Observation) -> DataFrame | None:
    """What is to be sent, as STAGED; `seen` gets problems and the longest row. None without any update."""
    new = [_encoded(spark, each, encoder, is_new=True) for each in [comparison.update] if each is not None]
    gone = [_encoded(spark, each, encoder, is_new=False) for each in comparison.gone]
    if not new + gone:
        return None
    rows = reduce(DataFrame.unionByName, new + gone)
    is_new, is_gone = (functions.expr(each) for each in ("is_new", "NOT is_new"))
    # By key first: else each side would be sorted by key before the exchange as well.
    by_key = (
        rows.repartition("key")
        .groupBy("key")
        .agg(
            functions.max("problem").alias("problem"),
            functions.count_if(is_new & functions.col("key").isNotNull()).alias("rows"),
            *(_of(is_new, name).alias(name) for name in ("shard_key", "body")),
            *(_of(is_gone, name).alias(f"gone_{name}") for name in ("shard_key", "body")),
        )
    )
    # A key that vanished is deleted. A base is the only update whose keys may vanish, so its row is the one to compare.
    changed = "NOT (body <=> gone_body)" if comparison.base is not None else "true"
    compared = by_key.selectExpr(
        "problem",
        "rows",
        f"IF(rows = 0, '{DELETE}', '{PUT}') AS op",
        "key",
        "IF(rows = 0, gone_shard_key, shard_key) AS shard_key",
        "IF(rows = 0, gone_body, body) AS body",
        f"key IS NOT NULL AND (rows = 0 OR {changed}) AS is_sent",
    )
    observed = compared.observe(
        seen,
        functions.max("problem").alias("problem"),
        functions.max("rows").alias("doubles"),
        functions.expr("max(IF(is_sent, octet_length(body), 0))").alias("longest"),
    )
    sent = observed.where("is_sent").select(*STAGED.names)
    if gone:
        shortened = _in_tasks(_Deletes(encoder).shortened, "binary")
        sent = sent.withColumn("body", shortened(*STAGED.names))
    return sent


def _of(condition: Column, name: str) -> Column:
    return functions.min(functions.when(condition, functions.col(name)))


def _encoded(spark: SparkSession, update: Update, encoder: Encoder, *, is_new: bool) -> DataFrame:
    """The rows of an update as _ENCODED, and whether they are new. Raises DestinationError."""
    require_parquet(update)
    columns = [functions.col(quoted(each)).alias(each) for each in encoder.columns]
    place = [functions.col("_metadata.file_path").alias(_PATH), functions.col("_metadata.row_index").alias(_ROW)]
    _require_names(spark, update, encoder)
    try:
        rows = read_updates(spark, [update], parquet_schema(spark, update))
        encoder.require_types(rows.select(columns).limit(0).toArrow().schema)
    except (AnalysisException, PySparkTypeError) as error:
        raise DestinationError(f"{update.uri}: its columns cannot be sent: {reason_of(error)}.") from error
    except DestinationError as error:
        raise DestinationError(f"{update.uri}: {error}") from None
    encode = _in_tasks(_Encoding(encoder, tuple(update.uris())).encoded, _ENCODED)
    encoded = rows.select(encode(*place, *columns).alias("encoded"))
    return encoded.select("encoded.*", functions.lit(is_new).alias("is_new"))


def _require_names(spark: SparkSession, update: Update, encoder: Encoder) -> None:
    """Raise DestinationError if a file lacks a column: Spark would read NULL."""

    def missing(uri: str) -> str:
        names = [each.getName() for each in footer(spark, uri).getSchema().getFields()]
        lacks = [each for each in encoder.columns if each not in names]
        return f"{uri}: The feed has no {', '.join(lacks)}; it has {', '.join(names)}." if lacks else ""

    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        for problem in pool.map(missing, update.uris()):
            if problem:
                raise DestinationError(problem)


@dataclass(frozen=True)
class _Encoding:
    """Encodes rows in tasks."""

    encoder: Encoder
    uris: tuple[str, ...]

    def encoded(self, paths: pa.Array, numbers: pa.Array, *columns: pa.Array) -> pa.Array:
        """The rows as _ARROW; if one is bad, none of them but the problem."""
        batch = pa.RecordBatch.from_arrays(list(columns), list(self.encoder.columns))
        files = compute.run_end_encode(paths)
        found: list[pa.RecordBatch] = []
        start = 0
        try:
            for end, path in zip(files.run_ends.to_pylist(), files.values.to_pylist(), strict=True):
                place = Place(self._uri(path), numbers[start].as_py())
                found.append(self.encoder.encode(batch.slice(start, end - start), place))
                start = end
        except BadRowsError as error:
            return pa.array([{"problem": str(error)}, *[{}] * (len(batch) - 1)], _ARROW)
        encoded = pa.Table.from_batches(found, ENCODED).combine_chunks()
        arrays = [encoded.column(each).chunk(0) for each in ENCODED.names]
        return pa.StructArray.from_arrays([*arrays, pa.nulls(len(batch), pa.string())], fields=list(_ARROW))

    def _uri(self, path: str) -> str:
        """The file as users call it: Spark has other names for stores, and encodes characters."""
        return next((each for each in self.uris if _plain(each) == _plain(path)), path)


@dataclass(frozen=True)
class _Deletes:
    """Leaves the columns of keys to deletes, in tasks."""

    encoder: Encoder

    def shortened(self, *columns: pa.Array) -> pa.Array:
        """The bodies of rows with these columns of STAGED."""
        return as_staged(pa.RecordBatch.from_arrays(list(columns), STAGED.names), self.encoder).column("body")


def _in_tasks(function: Callable[..., pa.Array], type_: str) -> Callable[..., Column]:
    """A function of columns that tasks compute batch by batch; `mapInArrow` would need pandas."""
    made: Callable[..., Column] = functions.arrow_udf(function, type_)  # type: ignore[attr-defined] # the stub lacks it
    return made


def _plain(uri: str) -> tuple[str, str]:
    parts = urlsplit(uri)
    return parts.netloc, unquote(parts.path)


def _counted(spark: SparkSession, board: Blackboard, sizes: Mapping[str, int], written: int) -> Staged:
    """The staged files that have rows, by name. Deletes the others. Raises DeliveryError for other rows."""
    if not sizes:
        return Staged((), 0, 0)
    rows: dict[str, dict[str, int]] = {}
    schema = StructType().add("op", "string")
    listed = read_listed(spark.read, "parquet", {board.uri(key): size for key, size in sizes.items()}, schema)
    for name, op, count in listed.groupBy("_metadata.file_name", "op").count().collect():
        rows.setdefault(name, {})[op] = count
    names = {key: key.rpartition("/")[2] for key in sorted(sizes)}
    board.delete(*(key for key, name in names.items() if name not in rows))
    files = tuple(StagedFile(key, sum(rows[name].values())) for key, name in names.items() if name in rows)
    if sum(each.rows for each in files) != written:
        raise DeliveryError(f"{board.uri(names.popitem()[0])}: Spark reads other rows than it wrote: try again.")
    puts, deletes = (sum(each.get(op, 0) for each in rows.values()) for op in (PUT, DELETE))
    return Staged(files, puts, deletes)
