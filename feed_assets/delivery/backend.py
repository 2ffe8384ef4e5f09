"""Where a delivery is computed and sent: in this process, or, if it is large, where a `Backend` says.

Here: the port, the default, and which updates are large. Not here: comparing and writing rows (`staging`), sending them
(`sending`), and Spark (`feed_assets.spark_delivery`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol
from uuid import uuid4

from feed_assets.blackboard.port import Blackboard
from feed_assets.delivery.client.settings import Counters
from feed_assets.delivery.encoding import Encoder
from feed_assets.delivery.sending import Job, Rows
from feed_assets.delivery.staging import Comparison, Staged, stage
from feed_assets.delivery.streams.port import Limits
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.feed import Update

LARGE_ROWS: Final = 100_000
"""Rows from which on a delivery is large."""
BYTES_A_ROW: Final = 50
"""Of a Parquet file, if no record says how many rows an update has."""


class Backend(Protocol):
    """Stages and sends deliveries."""

    def stage(self, comparison: Comparison, encoder: Encoder, limits: Limits, board: Blackboard, prefix: str) -> Staged:
        """Write what is to be sent to files under `prefix`, as `staging.stage` does, and with its errors."""
        ...

    def send(self, job: Job) -> Counters:
        """Send the rows that are not acknowledged yet; returns what the senders did. Raises DeliveryError."""
        ...


class InThisProcess:
    """By DuckDB and one sender."""

    def stage(self, comparison: Comparison, encoder: Encoder, limits: Limits, board: Blackboard, prefix: str) -> Staged:
        """See `Backend.stage`."""
        return stage(comparison, encoder, limits, board, prefix)

    def send(self, job: Job) -> Counters:
        """See `Backend.send`."""
        with job.open_stream() as stream:
            return job.send(_told(job), stream, uuid4().hex)


def rows_about(updates: Iterable[Update]) -> int:
    """How many rows these updates have by their records; those without a record, by their bytes."""
    return sum(map(_rows_about, updates))


def _rows_about(update: Update) -> int:
    record = read_record(update.feed, update.partition, update.name)
    if record is not None and record.facts.rows is not None:
        return record.facts.rows.published
    return update.bytes // BYTES_A_ROW


def _told(job: Job) -> Rows:
    for batch in job.rows():
        yield batch
        job.told(batch[-1][0] + 1, job.begun.rows)
