"""The data source `feed_delivery`: tasks of Spark that send staged rows to a stream.

It is internal: it needs an open edition, and the rows that `staged_rows` reads. Its options are names, as Spark's plans
show them; executors find keys and storage by their own environment. A task ends when each of its rows is acknowledged,
so rows are in the stream before Spark commits, and a commit does nothing. Attempts that fail, are repeated or run twice
send the same ids, and leave out what any attempt has got acknowledged. Not here: a sender (`delivery.sending`).

Senders have equal, static shares of each shard's rate, so each gets as many rows: they are divided by a hash of the
ordinal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.location import open_blackboard
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.errors import NotDeliveredError
from feed_assets.delivery.ledger import Begun, Ledger
from feed_assets.delivery.sending import Job, Rows
from feed_assets.engine.jvm import make_active
from feed_assets.engine.listed_files import read_listed
from feed_assets.engine.sql import text_literal
from feed_assets.file_feed.feed import Feed
from feed_assets.spark_delivery.failures import explained

if TYPE_CHECKING:
    import pyarrow as pa

    from feed_assets.blackboard.port import Blackboard

NAME: Final = "feed_delivery"
COLUMNS: Final = ("_ordinal", "op", "shard_key", "body")
_STAGED: Final = StructType().add("op", "string").add("shard_key", "string").add("body", "binary")
_registering: Final = Lock()
_registered: Final[WeakKeyDictionary[SparkSession, dict[str, str]]] = WeakKeyDictionary()
_OF_CONSUMERS: Final = {"store", "space", "settled_by"}
"""Fields of a destination that no sender needs; a store's address may have a password."""


class FeedDelivery(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """See `DataSource.name`."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's signature
        """See `DataSource.writer`. Raises NotDeliveredError for other columns, and if the edition is not open."""
        if overwrite or tuple(schema.names) != COLUMNS:
            raise NotDeliveredError(f"{NAME} appends rows with {', '.join(COLUMNS)}: use `feed-assets deliver run`.")
        _job(self.options)
        return _Writer(dict(self.options))


@dataclass(frozen=True)
class _Sent(WriterCommitMessage):
    """Each row of the task is acknowledged. The ledger says by whom."""


@dataclass(frozen=True)
class _Writer(DataSourceArrowWriter):
    """Sends the rows of one task."""

    options: dict[str, str]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """See `DataSourceArrowWriter.write`. Raises DeliveryError."""
        task = TaskContext.get()
        if task is None:
            raise NotDeliveredError(f"{NAME} writes in tasks of Spark only.")
        job = _job(self.options)
        holder = f"{self.options['run']}-{task.taskAttemptId()}"
        with job.open_stream() as stream:
            job.send(rows_of(iterator), stream, holder, senders=int(self.options["senders"]))
        return _Sent()


def send(spark: SparkSession, job: Job, run: str, senders: int) -> None:
    """Send the rows of a delivery by so many tasks. Acknowledgements have holders that begin with `run`.

    Raises DeliveryError: that of a task, if it has one.
    """
    _register(spark)
    with explained(f"Edition {job.begun.edition} of {job.to.name} cannot be sent, and stays open"):
        rows = staged_rows(spark, job.ledger.feed.blackboard, job.begun)
        divided = rows.coalesce(1) if senders == 1 else rows.repartition(senders, COLUMNS[0])
        divided.write.format(NAME).mode("append").options(**options_of(job, run, senders)).save()


def _register(spark: SparkSession) -> None:
    """Let the session know the data source; again only if the environment of tasks has changed.

    Spark drops the source for a moment then, in which another thread would not find it.
    """
    environment = dict(spark.sparkContext.environment)
    make_active(spark)
    with _registering:
        if _registered.get(spark) != environment:
            spark.dataSource.register(FeedDelivery)
            _registered[spark] = environment


def staged_rows(spark: SparkSession, board: Blackboard, begun: Begun) -> DataFrame:
    """The rows of a delivery with their ordinals, which do not depend on how Spark divides the files."""
    folder = f"{begun.files[0].key.rpartition('/')[0]}/"
    sizes = {each.key: each.size for each in list_all(board, folder)}
    ordinal, firsts = 0, []
    for file in begun.files:
        firsts.append(f"({text_literal(file.key.rpartition('/')[2])}, {ordinal}L)")
        ordinal += file.rows
    first = spark.sql(f"SELECT * FROM VALUES {', '.join(firsts)} AS firsts (_file, _first)")  # noqa: S608 - literals
    found = {board.uri(each.key): sizes.get(each.key, 0) for each in begun.files}
    rows = read_listed(spark.read, "parquet", found, _STAGED).selectExpr(
        "_metadata.file_name AS _file", "_metadata.row_index AS _row", *COLUMNS[1:]
    )
    return rows.join(functions.broadcast(first), "_file").selectExpr("_first + _row AS _ordinal", *COLUMNS[1:])


def options_of(job: Job, run: str, senders: int) -> dict[str, str]:
    """The options with which a task finds the delivery."""
    named = {} if job.begun.partition is None else {"partition": job.begun.partition}
    return {
        "base": job.ledger.feed.blackboard.uri(""),
        "destination": job.to.model_dump_json(exclude=_OF_CONSUMERS, by_alias=True),
        "folder": str(job.folder.absolute()),
        "edition": str(job.begun.edition),
        "run": run,
        "senders": str(senders),
        **named,
    }


def _job(options: Mapping[str, Any]) -> Job:
    """The delivery that options name. Raises NotDeliveredError if its edition is not open."""
    to = Destination.model_validate_json(options["destination"])
    ledger = Ledger(Feed(open_blackboard(options["base"]), to.feed), to.name)
    number = int(options["edition"])
    edition = next((each for each in ledger.of(options.get("partition")) if each.number == number), None)
    if edition is None or edition.has_ended:
        raise NotDeliveredError(f"Edition {number} of {to.name} is not open: it has ended, or never began.")
    return Job(ledger, to, Path(options["folder"]), ledger.began(edition))


def rows_of(batches: Iterator[pa.RecordBatch]) -> Rows:
    """The rows of batches with the columns of COLUMNS."""
    for batch in batches:
        yield list(zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True))
