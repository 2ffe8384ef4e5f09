"""Sending rows to a stream: the processor time of a task's sender, from Arrow's batches to acknowledged records.

Here: the sender that Spark's tasks have, beside a plain loop over boto3's `put_records`, in turns, to a judge in
another process that limits no rate. Not here: Spark's own time, stores (`lookups`), and rates, which a stream's limits
set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from uuid import uuid4

import pyarrow as pa

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.ledger import Begun, Ledger
from feed_assets.delivery.records import PUT
from feed_assets.delivery.sending import Job
from feed_assets.file_feed.feed import Feed
from feed_assets.spark_delivery.stream_writer import COLUMNS, rows_of
from feed_assets_tests.benchmarks.results import Comparison, Report, Rounds, Row, under_way
from feed_assets_tests.delivery.judge.running import JudgeServer, judging
from feed_assets_tests.delivery.judge.streams import REGION

RECORDS, FEW = 100_000, 5_000
BATCH = 10_000
REQUEST = 500
SHARDS = 50
NO_LIMIT = 10**9
"""A second and shard."""
LENGTH = 200
ROUNDS = 3
OURS, PEER = "a task's sender", "a loop over boto3's put_records"


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Records a second of a core, and microseconds of processor time for a record."""
    records, rounds = FEW if quick else RECORDS, Rounds()
    batches = _batches(records)
    with judging(scratch) as judge:
        os.environ.update(judge.environment)
        judge.set(shard_records=NO_LIMIT, shard_bytes=NO_LIMIT)
        stream = judge.create("prices", shards=SHARDS)
        for number in range(1 if quick else ROUNDS):
            under_way(f"sending, round {number + 1}")
            for subject, send in ((OURS, _sent), (PEER, _looped)):
                start, cpu = perf_counter(), process_time()
                send(judge, stream, batches, number)
                rounds.add(subject, perf_counter() - start, process_time() - cpu)
    size = f"{records:,} records of {LENGTH} bytes"
    micros = {subject: rounds.median_cpu(subject) / records * 1e6 for subject in rounds.cpu}
    rows = [
        Row(size, subject, {"us_of_processor_a_record": each, "records_a_second_of_a_core": round(1e6 / each)})
        for subject, each in micros.items()
    ]
    notes = [
        "The processor time of the sending process: the judge, which answers, is another one.",
        "A task's sender makes records, divides them by shard, keeps to rates, and writes down what was acknowledged.",
        "The loop sends ready records, one request at a time, and looks at the number of failures alone.",
    ]
    ratio = Comparison("processor time, the loop / a task's sender", micros[PEER] / micros[OURS])
    return Report("deliveries", "sending rows to a stream", rows, [ratio], notes)


def _batches(records: int) -> Sequence[pa.RecordBatch]:
    """Rows as Spark's tasks get them."""
    found = []
    for first in range(0, records, BATCH):
        numbers = range(first, min(first + BATCH, records))
        keys = [f"product {each:08}" for each in numbers]
        head = len('{"_d":[1,"prices","2024-01-01",1764000000,12345678,"put"],') + len(keys[0])
        bodies = [b'{"product":"%b","text":"%b"}' % (each.encode(), b"x" * (LENGTH - head - 50)) for each in keys]
        columns = [list(numbers), [PUT] * len(keys), keys, bodies]
        found.append(pa.RecordBatch.from_pydict(dict(zip(COLUMNS, columns, strict=True))))
    return found


def _sent(_: JudgeServer, stream: str, batches: Sequence[pa.RecordBatch], number: int) -> None:
    to = Destination.model_validate(_destination(stream))
    ledger = Ledger(Feed(MemoryBlackboard(), to.feed), to.name)
    rows = sum(each.num_rows for each in batches)
    begun = Begun(
        destination=to.name, partition="2024-01-01", edition=number, update="20240102.000000", at=datetime.now(UTC),
        bases=(), mode="all", rules={}, files=(), puts=rows, deletes=0,
    )  # fmt: skip
    job = Job(ledger, to, Path(), begun)
    with job.open_stream() as opened:
        counts = job.send(rows_of(iter(batches)), opened, uuid4().hex)
    if counts.acked != rows:
        raise AssertionError(counts)


def _looped(judge: JudgeServer, stream: str, batches: Sequence[pa.RecordBatch], _: int) -> None:
    client = judge.client()
    for entries in _entries(batches):
        failed = client.put_records(StreamName=stream, Records=entries)["FailedRecordCount"]
        if failed:
            raise AssertionError(failed)


def _entries(batches: Sequence[pa.RecordBatch]) -> Iterator[list[dict[str, Any]]]:
    for batch in batches:
        keys, bodies = (batch.column(each).to_pylist() for each in COLUMNS[2:])
        entries = [{"PartitionKey": key, "Data": body} for key, body in zip(keys, bodies, strict=True)]
        yield from (entries[at : at + REQUEST] for at in range(0, len(entries), REQUEST))


def _destination(stream: str) -> Mapping[str, Any]:
    return {
        "name": "prices",
        "feed": "prices/v1.0",
        "stream": f"kinesis://{REGION}/{stream}",
        "key": ["product"],
        "columns": ["product", "text"],
        "records_a_second": NO_LIMIT,
        "bytes_a_second": NO_LIMIT,
    }
