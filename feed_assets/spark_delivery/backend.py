"""Staging and sending on Spark, as the deliverer asks for it.

Here: how many senders there are, what they get, and their errors. Not here: a sender (`stream_writer`), and staging
(`staging`). The session starts when the first large delivery needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import ceil
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from feed_assets.delivery.backend import InThisProcess
from feed_assets.delivery.client.settings import Counters
from feed_assets.delivery.errors import NotDeliveredError
from feed_assets.delivery.streams.address import require_stream
from feed_assets.delivery.streams.port import NotSentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from feed_assets.blackboard.port import Blackboard
    from feed_assets.delivery.encoding import Encoder
    from feed_assets.delivery.sending import Job
    from feed_assets.delivery.staging import Comparison, Staged
    from feed_assets.delivery.streams.port import Limits

SHARDS_A_SENDER: Final = 50
"""A core feeds more; this leaves room for slow machines and long records."""


@dataclass(frozen=True, slots=True)
class SparkBackend:
    """See `feed_assets.delivery.backend.Backend`. `spark` starts the session, or returns the running one."""

    spark: Callable[[], SparkSession]
    shards_a_sender: int = SHARDS_A_SENDER

    def stage(self, comparison: Comparison, encoder: Encoder, limits: Limits, board: Blackboard, prefix: str) -> Staged:
        """See `Backend.stage`."""
        from feed_assets.spark_delivery.staging import stage  # noqa: PLC0415 - loads Spark's Python side

        return stage(self.spark(), comparison, encoder, limits, board, prefix)

    def send(self, job: Job) -> Counters:
        """See `Backend.send`. A stream in a file of this machine is no stream for the executors of others."""
        from feed_assets.spark_delivery.stream_writer import send  # noqa: PLC0415 - as above

        spark = self.spark()
        master = spark.conf.get("spark.master") or ""
        if require_stream(job.to.stream)[0] == "local" and not master.startswith("local"):
            return InThisProcess().send(job)
        run = uuid4().hex
        send(spark, job, run, min(spark.sparkContext.defaultParallelism, ceil(_shards(job) / self.shards_a_sender)))
        job.told(job.begun.rows, job.begun.rows)
        parts = job.ledger.parts("acks", job.begun)
        return together([each.sent for holder, each in parts.items() if holder.startswith(run) and each.sent])


def together(senders: Sequence[Counters]) -> Counters:
    """What senders did that began together."""
    blocked: dict[str, float] = {}
    for shard, seconds in (item for each in senders for item in each.blocked.items()):
        blocked[shard] = blocked.get(shard, 0.0) + seconds
    longest = max((each.series_seconds for each in senders), default=1)
    series = [_in_periods(each.series, longest // each.series_seconds) for each in senders]
    return Counters(
        acked=sum(each.acked for each in senders),
        acked_bytes=sum(each.acked_bytes for each in senders),
        throttled=sum(each.throttled for each in senders),
        ambiguous=sum(each.ambiguous for each in senders),
        retried=sum(each.retried for each in senders),
        requests=sum(each.requests for each in senders),
        open=sum(each.open for each in senders),
        queue_bytes=sum(each.queue_bytes for each in senders),
        blocked=blocked,
        series=tuple(map(sum, zip_longest(*series, fillvalue=0))),
        series_seconds=longest,
    )


def _in_periods(series: Sequence[int], length: int) -> Sequence[int]:
    """The series in periods so many times as long."""
    return [sum(series[at : at + length]) for at in range(0, len(series), length)]


def _shards(job: Job) -> int:
    try:
        with job.open_stream() as stream:
            return len(stream.shards())
    except NotSentError as error:
        raise NotDeliveredError(
            f"{error} Nothing was sent, and the edition stays open: run the command again."
        ) from error
