"""A reader of one shard of Kinesis: iterators, the limits of reads, and records that are gone.

Kinesis says nothing when a position was trimmed: it goes on with the oldest record that is left. So a reader that may
be behind starts *at* the last record it has read, and asks whether that is still there.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from feed_assets.delivery.errors import RecordsLostError
from feed_assets.delivery.streams.kinesis_failures import ExpiredIteratorError, LostShardError
from feed_assets.delivery.streams.port import Batch, Read

if TYPE_CHECKING:
    from collections.abc import Callable

    from types_boto3_kinesis import KinesisClient
    from types_boto3_kinesis.type_defs import GetRecordsOutputTypeDef, StreamDescriptionSummaryTypeDef

READS_A_SECOND: Final = 5
BYTES_A_SECOND: Final = 2_000_000
_LEAST_RETENTION: Final = timedelta(hours=24)
_MARGIN: Final = timedelta(minutes=10)

Found = TypeVar("Found")


class Asked(Protocol):
    """The stream of a reader."""

    @property
    def name(self) -> str:
        """Its name in AWS."""
        ...

    @property
    def title(self) -> str:
        """Its address, for messages."""
        ...

    def ask(self, operation: str, call: Callable[[KinesisClient], Found]) -> Found:
        """Call boto3. Raises StreamError, NotSentError, LostShardError."""
        ...

    def describe(self) -> StreamDescriptionSummaryTypeDef:
        """What AWS says about the stream. Raises StreamError, NotSentError."""
        ...


class KinesisReader:
    """Reads a shard, in order. For one thread."""

    def __init__(self, stream: Asked, shard: str, after: str | None) -> None:
        self._stream = stream
        self._shard = shard
        self._last = after
        self._last_arrived: datetime | None = None
        self._read_all_at: datetime | None = None
        self._retention: timedelta | None = None
        self._iterator: str | None = None
        self._is_checking = False
        self._has_ended = False
        self._next_read = 0.0
        self._behind = 0.0

    def next(self) -> Batch:
        """The next records, perhaps none. Waits as long as the shard's limits of reads demand.

        Raises RecordsLostError, StreamError, NotSentError. After the last batch, all others are empty.
        """
        if self._has_ended:
            return Batch((), 0.0, is_end=True)
        try:
            if self._may_be_trimmed():
                self._iterator = None
            return self._read()
        except LostShardError as error:
            self._stream.describe()  # if there is no stream, that is the error
            raise RecordsLostError(
                f"{self._stream.title}: shard {self._shard} is gone, and with it all records after "
                f"{self._last or 'its beginning'}. {error}",
                is_gone=True,
            ) from error

    def _read(self) -> Batch:
        if self._iterator is None:
            self._iterator = self._new_iterator()
        time.sleep(max(0.0, self._next_read - time.monotonic()))
        self._next_read = time.monotonic() + 1 / READS_A_SECOND
        try:
            answer = self._stream.ask("GetRecords", partial(_get_records, self._iterator))
        except ExpiredIteratorError:
            self._iterator = None
            return Batch((), self._behind, is_end=False)
        self._iterator = answer.get("NextShardIterator")
        self._has_ended = self._iterator is None
        records = [
            Read(each["SequenceNumber"], each["PartitionKey"], each["Data"], each["ApproximateArrivalTimestamp"])
            for each in answer["Records"]
        ]
        size = sum(len(record.data) + len(record.key.encode()) for record in records)
        # From the answer on: the stream counts a request when it comes, some time after it was sent.
        self._next_read = time.monotonic() + max(1 / READS_A_SECOND, size / BYTES_A_SECOND)
        self._behind = answer.get("MillisBehindLatest", 0) / 1000
        if self._is_checking:
            records = self._checked(records)
        if records:
            self._last, self._last_arrived = records[-1].sequence, records[-1].arrived
        self._read_all_at = None if self._behind else datetime.now(UTC)
        return Batch(records, self._behind, self._has_ended)

    def _new_iterator(self) -> str:
        last = self._last
        had_all = self._read_all_at is not None and datetime.now(UTC) - self._read_all_at < _LEAST_RETENTION - _MARGIN
        self._is_checking = last is not None and not had_all
        name, shard = self._stream.name, self._shard

        def call(client: KinesisClient) -> str:
            if last is None:
                found = client.get_shard_iterator(StreamName=name, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
            else:
                found = client.get_shard_iterator(
                    StreamName=name,
                    ShardId=shard,
                    ShardIteratorType="AFTER_SEQUENCE_NUMBER" if had_all else "AT_SEQUENCE_NUMBER",
                    StartingSequenceNumber=last,
                )
            return found["ShardIterator"]

        return self._stream.ask("GetShardIterator", call)

    def _may_be_trimmed(self) -> bool:
        """Whether the reader is so far behind that the stream may have dropped what comes next."""
        if self._last_arrived is None or self._read_all_at is not None or self._is_checking:
            return False
        age = datetime.now(UTC) - self._last_arrived
        if age < _LEAST_RETENTION - _MARGIN:
            return False
        if self._retention is None:
            self._retention = timedelta(hours=self._stream.describe()["RetentionPeriodHours"])
        return age > self._retention - _MARGIN

    def _checked(self, records: list[Read]) -> list[Read]:
        """The records without the one that was read before. Raises RecordsLostError if that is gone."""
        if not records and self._behind and not self._has_ended:
            return []
        self._is_checking = False
        if records and records[0].sequence == self._last:
            return records[1:]
        self._iterator, self._has_ended = None, False  # who reads again is told again
        left = (
            f"The oldest that is left is {records[0].sequence}, of {records[0].arrived}" if records else "None is left"
        )
        raise RecordsLostError(
            f"{self._stream.title}: shard {self._shard}: records after {self._last} were dropped unread. "
            f"{left}. Publish or replay what is missing, and accept the loss."
        )


def _get_records(iterator: str, client: KinesisClient) -> GetRecordsOutputTypeDef:
    return client.get_records(ShardIterator=iterator)
