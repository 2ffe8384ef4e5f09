"""What a delivery sends: rows that are new or changed since the last delivery, and keys that vanished.

Here: encoding the rows of two updates, comparing them as encoded, and a file of what is to be sent, in the order of its
ordinals. It runs in this process by DuckDB, batch by batch; large updates are staged on Spark (`engine`). Not here:
when something is staged (`delivering`).

A staged file is Parquet with the columns of STAGED. The ordinal of a row is the number of rows in the files before it
plus its place in its file, so it does not depend on who reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb
import pyarrow as pa
from pyarrow import parquet

from feed_assets.blackboard.port import Blackboard
from feed_assets.delivery.encoding import ENCODED, Encoder, Place
from feed_assets.delivery.errors import BadRowsError, DeliveryError, DestinationError
from feed_assets.delivery.ledger import StagedFile
from feed_assets.delivery.records import DELETE, PUT
from feed_assets.delivery.streams.port import Limits
from feed_assets.engine.duckdb_database import in_memory
from feed_assets.engine.duckdb_sql import literal, quoted_name, suffix_of
from feed_assets.engine.fetched_files import fetch_update, with_uris
from feed_assets.file_feed.feed import Update
from feed_assets.file_feed.wording import first_line

BATCH_ROWS: Final = 16_384
DETAILS_BYTES: Final = 600
"""Room for what a record says of itself: names of destination and partition, numbers."""
STAGED: Final = pa.schema([("op", pa.string()), *ENCODED])
_ORDER: Final = "op, key"


@dataclass(frozen=True, slots=True)
class Staged:
    """What is to be sent: files with rows, and how many of them put and delete."""

    files: tuple[StagedFile, ...]
    puts: int
    deletes: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a delivery is made of.

    `update` is what the stream is to have; None: nothing. Rows equal to one of `base` are left out, if it is given.
    Keys of `gone` that `update` does not have are deleted.
    """

    update: Update | None
    base: Update | None
    gone: tuple[Update, ...]


def stage(comparison: Comparison, encoder: Encoder, limits: Limits, board: Blackboard, prefix: str) -> Staged:
    """Write what is to be sent to a file under `prefix`. Nothing is written if there is nothing to send.

    Raises BadRowsError for rows that cannot be sent, and for two of one key; DestinationError for columns.
    """
    with TemporaryDirectory(prefix="delivery-") as folder, in_memory(temp_directory=f"{folder}/spill") as database:
        try:
            tables = _Tables(database, Path(folder), encoder)
            new = tables.encoded("new", [comparison.update] if comparison.update else [])
            base = tables.encoded("base", [comparison.base] if comparison.base else [])
            same = comparison.gone == ((comparison.base,) if comparison.base else ())
            gone = base if same else tables.encoded("gone", comparison.gone)
            tables.require_one_of_each(new, comparison.update)
            file = Path(folder) / "staged.parquet"
            tables.write(file, new, base if comparison.base else None, gone)
            puts, deletes, longest = tables.counted(file)
        except duckdb.Error as error:
            raise DeliveryError(f"What is to be sent cannot be staged: {first_line(error)}") from None
        require_short(longest, limits)
        if not puts + deletes:
            return Staged((), 0, 0)
        key = f"{prefix}0.parquet"
        board.upload(key, file)
        return Staged((StagedFile(key, puts + deletes),), puts, deletes)


def as_staged(batch: pa.RecordBatch, encoder: Encoder) -> pa.RecordBatch:
    """The batch as STAGED, in which deletes have the columns of their keys only."""
    operations = batch.column(0).to_pylist()
    if DELETE not in operations:
        return batch.cast(STAGED)
    bodies = [
        body if op == PUT else encoder.key_only(body)
        for op, body in zip(operations, batch.column(3).to_pylist(), strict=True)
    ]
    return pa.RecordBatch.from_arrays([*batch.columns[:3], pa.array(bodies, pa.binary())], schema=STAGED)


def require_short(longest: int, limits: Limits) -> None:
    """Raise BadRowsError if the longest row, of so many bytes, is no record of the stream."""
    if longest + DETAILS_BYTES > limits.bytes_a_record:
        raise BadRowsError(
            f"A row has {longest:,} bytes as a record, and the stream takes {limits.bytes_a_record:,}, of which "
            f"{DETAILS_BYTES} are for its key and number. Nothing was sent. Send fewer columns, or raise the "
            "stream's largest record."
        )


def require_parquet(update: Update) -> None:
    """Raise DestinationError if the update has files of another format."""
    other = sorted({each.path for each in update.files if suffix_of(each.path) != "parquet"})
    if other:
        raise DestinationError(f"{update.uri}{other[0]} is no Parquet, and only Parquet can be delivered.")


def doubled(update: Update, key: Sequence[str], rows: int) -> BadRowsError:
    """The error about so many rows of one key."""
    return BadRowsError(
        f"{update.uri} has {rows} rows of one key ({', '.join(key)}), so nobody could say "
        "which one stays. Nothing was sent. Choose a `key` that is unique, such as the identity of the feed."
    )


def read_staged(board: Blackboard, file: StagedFile, columns: Sequence[str] = STAGED.names) -> Iterator[pa.RecordBatch]:
    """The rows of a staged file, as STAGED, in the order of their ordinals. Raises NotFoundError."""
    with TemporaryDirectory(prefix="delivery-") as folder:
        local = Path(folder) / "staged.parquet"
        board.download(file.key, local)
        with parquet.ParquetFile(local) as opened:
            yield from opened.iter_batches(BATCH_ROWS, columns=list(columns))


@dataclass(frozen=True, slots=True)
class _Tables:
    """Encoded rows as files of a folder, and what is made of them."""

    database: duckdb.DuckDBPyConnection
    folder: Path
    encoder: Encoder

    def encoded(self, name: str, updates: Sequence[Update]) -> Path:
        """A file with the rows of updates, encoded."""
        path = self.folder / f"{name}.parquet"
        with parquet.ParquetWriter(path, ENCODED, compression="zstd") as writer:
            for number, update in enumerate(updates):
                for batch, place in self._rows(update, self.folder / f"{name}-{number}"):
                    writer.write_batch(self.encoder.encode(batch, place))
        return path

    def _rows(self, update: Update, folder: Path) -> Iterator[tuple[pa.RecordBatch, Place]]:
        """Batches of rows of an update, and where each is."""
        require_parquet(update)
        columns = ", ".join(map(quoted_name, self.encoder.columns))
        for path, uri in fetch_update(update, folder).items():
            with _explained({path: uri}):
                self.encoder.require_types(parquet.read_schema(path))
                query = f"SELECT {columns} FROM read_parquet({literal(str(path))}, hive_partitioning = false)"  # noqa: S608 - quoted
                for number, batch in enumerate(_batches(self.database.cursor(), query)):
                    yield batch, Place(uri, number * BATCH_ROWS)

    def require_one_of_each(self, new: Path, update: Update | None) -> None:
        """Raise BadRowsError if two rows have the same key."""
        query = f"SELECT key, count(*) FROM {_file(new)} GROUP BY key HAVING count(*) > 1 ORDER BY key LIMIT 1"  # noqa: S608 - a literal
        if update is not None and (found := self.database.execute(query).fetchone()):
            raise doubled(update, self.encoder.key, found[1])

    def write(self, file: Path, new: Path, base: Path | None, gone: Path) -> None:
        """Write what is to be sent, in the order of operation and key."""
        unchanged = (
            f"WHERE NOT EXISTS (FROM {_file(base)} AS b WHERE b.key = n.key AND b.body = n.body)" if base else ""
        )
        puts = f"SELECT '{PUT}' AS op, n.key, n.shard_key, n.body FROM {_file(new)} AS n {unchanged}"  # noqa: S608 - literals
        vanished = f"WHERE g.key NOT IN (SELECT key FROM {_file(new)})"  # noqa: S608 - a literal
        deletes = (
            f"SELECT '{DELETE}' AS op, g.key, min(g.shard_key) AS shard_key, min(g.body) AS body "  # noqa: S608 - literals
            f"FROM {_file(gone)} AS g {vanished} GROUP BY g.key"
        )
        with parquet.ParquetWriter(file, STAGED, compression="zstd") as writer:
            for batch in _batches(self.database, f"{puts} UNION ALL {deletes} ORDER BY {_ORDER}"):
                writer.write_batch(as_staged(batch, self.encoder))

    def counted(self, file: Path) -> tuple[int, int, int]:
        """How many rows put and delete, and the bytes of the longest."""
        query = (
            f"SELECT count(*) FILTER (op = '{PUT}'), count(*), coalesce(max(octet_length(body)), 0) FROM {_file(file)}"  # noqa: S608 - a literal
        )
        puts, rows, longest = self.database.execute(query).fetchall()[0]
        return puts, rows - puts, longest


def _batches(database: duckdb.DuckDBPyConnection, query: str) -> Iterator[pa.RecordBatch]:
    """The rows of a query, some at a time."""
    yield from database.sql(query).to_arrow_reader(BATCH_ROWS)


def _file(path: Path) -> str:
    return f"read_parquet({literal(str(path))}, hive_partitioning = false)"


@contextmanager
def _explained(uris: dict[Path, str]) -> Iterator[None]:
    """Name files in messages by their URIs."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise DeliveryError(
            with_uris(f"{next(iter(uris.values()))} cannot be read: {first_line(error)}", uris)
        ) from None
    except DestinationError as error:
        raise DestinationError(f"{next(iter(uris.values()))}: {error}") from None
