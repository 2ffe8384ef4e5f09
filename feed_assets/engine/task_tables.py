"""Files of a workflow's tasks as DataFrames. Not here: the tasks, and which files they name (`workflow`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

from pyspark.sql import DataFrame, SparkSession

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import Blackboard
from feed_assets.engine.listed_files import read_listed
from feed_assets.engine.update_files import (
    COMPRESSION_SUFFIXES,
    READERS,
    UnreadableFormatError,
    WriteMismatchError,
    write_files,
)


@dataclass(frozen=True, slots=True)
class SparkTables:
    """Reads and writes the files of tasks below a blackboard's root. `spark` starts the session when it is needed."""

    board: Blackboard
    spark: Callable[[], SparkSession]

    def read(self, keys: Sequence[str]) -> DataFrame:
        """The rows of Parquet, CSV, TSV or JSON files, keys below the base, with the columns that the files have.

        CSV has a header, and its types are guessed from the values. A LIST for each folder, or a GET for a single file.
        Raises UnreadableFormatError, NotFoundError.
        """
        sizes = self._sizes(keys)
        frames = []
        for kind in sorted({_kind(each) for each in keys}):
            reader = self.spark().read
            if kind in ("csv", "tsv"):
                separator = "," if kind == "csv" else "\t"
                reader = reader.options(header=True, inferSchema=True, sep=separator, escape='"', enforceSchema=False)
            files = {self.board.uri(each): sizes[each] for each in keys if _kind(each) == kind}
            frames.append(read_listed(reader, "csv" if kind == "tsv" else kind, files))
        return reduce(DataFrame.unionByName, frames)

    def write(self, table: DataFrame, folder: str) -> tuple[str, ...]:
        """Write rows as Parquet files below a folder, a key that ends in `/`; returns their keys. A LIST."""
        written = write_files(table, self.board.uri(folder).rstrip("/"))
        # A session that this project has not set up writes marks and checksums, too: their names begin with . or _.
        keys = tuple(each.key for each in list_all(self.board, folder) if not _name(each.key).startswith((".", "_")))
        if len(keys) != written.files:
            raise WriteMismatchError(
                f"{self.board.uri(folder)} has {len(keys)} files, and Spark wrote {written.files}: do the work again."
            )
        return keys

    def _sizes(self, keys: Sequence[str]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for folder, group in groupby(sorted(keys), key=lambda each: each.rpartition("/")[0]):
            wanted = list(group)
            if folder and len(wanted) > 1:
                found = {each.key: each.size for each in list_all(self.board, f"{folder}/")}
                sizes.update((each, found[each]) for each in wanted if each in found)
            sizes.update((each, self.board.read(each, limit=1).entry.size) for each in wanted if each not in sizes)
        return sizes


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _kind(key: str) -> str:
    name = key
    for each in COMPRESSION_SUFFIXES:
        name = name.removesuffix(each)
    kind = next((kind for ending, kind in READERS.items() if name.endswith(ending)), None)
    if kind is None:
        raise UnreadableFormatError(
            f"{key} is no table: name it after its format, such as orders.csv or orders.parquet."
        )
    return kind
