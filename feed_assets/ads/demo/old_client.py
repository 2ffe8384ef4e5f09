"""How not to send rows from Spark to Kinesis: a client that sends in the background, and for which nobody waits.

Here: the client that the delivery of feeds replaces, to measure what it loses. Not here: anything to build upon; use
`feed_assets.delivery`. A queue absorbs bursts, worker threads fill requests, keep below a rate, and send again what was
refused. In a service that lives on, every record arrives. In a Spark task, `put` has returned for all rows long before
they are sent. The task succeeds, its process ends, and so do the threads, with all rows that they still hold.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Final

import boto3

REQUEST_RECORDS: Final = 500
REQUEST_BYTES: Final = 1_000_000
LINGER_SECONDS: Final = 1.0


class OldClient:
    """A buffered client without futures and without an end: nobody learns which records have arrived.

    Each worker sends at most `records_per_second`; `settings` are those of boto3's client, unless `kinesis` is
    another one.
    """

    def __init__(
        self,
        stream: str,
        *,
        workers: int = 2,
        records_per_second: int = 1000,
        queue_records: int = 100_000,
        kinesis: Any = None,
        **settings: Any,
    ) -> None:
        self._stream = stream
        self._seconds_a_record = 1 / records_per_second
        self._queue: queue.Queue[tuple[str, bytes]] = queue.Queue(queue_records)
        self._kinesis: Any = kinesis or boto3.session.Session().client("kinesis", **settings)
        for _ in range(workers):
            threading.Thread(target=self._work, daemon=True).start()

    def put(self, key: str, data: bytes) -> None:
        """Take a record, and return at once, unless the queue is full. The mistake is here: no promise is given."""
        self._queue.put((key, data))

    def _work(self) -> None:
        while True:
            records = self._take()
            begun = time.monotonic()
            self._send(records)
            time.sleep(max(0.0, begun + len(records) * self._seconds_a_record - time.monotonic()))

    def _take(self) -> list[dict[str, Any]]:
        """Records for a request: as many as it may have, or those of the time that a record may wait."""
        records: list[dict[str, Any]] = []
        size, until = 0, float("inf")
        while len(records) < REQUEST_RECORDS and size < REQUEST_BYTES:
            try:
                left = None if until == float("inf") else max(0.0, until - time.monotonic())
                key, data = self._queue.get(timeout=left)
            except queue.Empty:
                break
            until = min(until, time.monotonic() + LINGER_SECONDS)
            records.append({"PartitionKey": key, "Data": data})
            size += len(key.encode()) + len(data)
        return records

    def _send(self, records: list[dict[str, Any]]) -> None:
        while records:
            answers = self._kinesis.put_records(StreamName=self._stream, Records=records)["Records"]
            records = [record for record, answer in zip(records, answers, strict=True) if "ErrorCode" in answer]
            if records:
                time.sleep(0.1)
