"""An act of the demo: updates go to a stream and into a store; rows are lost only when the old client sends.

Here: the destinations, the order of events, and the lines about them. Not here: what every act does (`story`), and the
delivery itself (`feed_assets.delivery`).
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import dagster as dg

import feed_assets as fa
from feed_assets.ads.demo import logs
from feed_assets.ads.demo.daemon import IN_THIS_PROCESS
from feed_assets.ads.demo.old_client import OldClient
from feed_assets.ads.demo.story import Demo
from feed_assets.ads.schemas import CLEAN_ADS_FEED, EFFECTIVENESS_FEED
from feed_assets.delivery.audit import Account, account
from feed_assets.delivery.consuming.starting import consumer_of
from feed_assets.delivery.delivering import Deliverer, Delivery
from feed_assets.delivery.destination import load_destination
from feed_assets.delivery.ledger import Begun, Ended
from feed_assets.delivery.lookups import Lookups
from feed_assets.delivery.records import Prefix
from feed_assets.delivery.sending import LOCAL_STREAMS, staged_rows
from feed_assets.delivery.streams.local import LocalStream
from feed_assets.delivery.streams.port import Acked, Record
from feed_assets.engine.jvm import java_session
from feed_assets.file_feed.withdrawal import invalidate
from feed_assets.operations.day_runs import backfill, instance_at
from feed_assets.state.store import Store

FIRST_DAY: Final = "2019-11-24"
AD: Final = "all-18"
"""An ad of the late day whose impressions change with the late records."""
KILLED_AT: Final = 2_000
"""Records in the stream at which the sender is killed."""
DESTINATIONS: Final = {
    "impressions": f"""\
name: impressions
feed: {CLEAN_ADS_FEED}
stream: local://impressions?shards=4
columns: [source, impression_id, ad_id, campaign_id, event_time]
key: [source, impression_id]
partition_key: [campaign_id]
settled_by: watcher
""",
    "effects": f"""\
name: effects
feed: {EFFECTIVENESS_FEED}
stream: local://effects?shards=2
columns: [ad_id, impressions, clicks]
key: [ad_id]
store: sqlite
settle_within: 1
""",
}


def write_destinations(directory: Path) -> None:
    """Write the descriptions of the destinations."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in DESTINATIONS.items():
        (directory / f"{name}.yaml").write_text(text, encoding="utf-8")


@dataclass(slots=True)
class DeliveryAct(Demo):
    """The act on a prepared base, with the destinations of `write_destinations` and FEED_ASSETS_DELIVERIES."""

    def run(self) -> None:
        """Tell the act. Raises RuntimeError if a step ends in another way than the story expects."""
        with instance_at(self.home, IN_THIS_PROCESS) as instance, TemporaryDirectory() as folder:
            self.wipe_earlier_demo(instance)
            deliveries = logs.cut(Path(folder))
            self.publish_catalog(instance)
            self.tell.step(f"A partner's log lands, and {FIRST_DAY} and {logs.LATE_DAY} are computed")
            self.land(deliveries.on_time)
            days = [FIRST_DAY, logs.LATE_DAY]
            self._compute(instance, days)
            started = time.monotonic()
            self._killed_and_resumed()
            self._looked_up()
            self._late(instance, deliveries.late)
            self._invalidated()
            self._lost_by_the_old_client()
        self._what_next(time.monotonic() - started)

    def _compute(self, instance: dg.DagsterInstance, days: Sequence[str]) -> None:
        for result in backfill(self.definitions, instance, days, run_config=self.settings.run_config):
            self._must(result.success, "a day failed")

    def _killed_and_resumed(self) -> None:
        self.tell.step(
            f"The impressions of {FIRST_DAY} go to a stream of four shards, by campaign; the sender is killed midway"
        )
        to = self._deliverer("impressions")
        stream = LocalStream(self.settings.local_state / LOCAL_STREAMS / "impressions.db", 4)
        arguments = ["deliver", "run", "impressions", "--partition", FIRST_DAY]
        with subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "feed_assets.cli", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as sender:
            while sender.poll() is None and sum(_stored(stream).values()) < KILLED_AT:
                time.sleep(0.05)
            sender.kill()
        killed_at = sum(_stored(stream).values())
        self.tell.say(f"kill -9: {killed_at:,} records are in the stream. The edition is open, and is resumed:")
        delivery = to.deliver(FIRST_DAY)
        if delivery is None or delivery.counts is None:
            raise RuntimeError("Nothing was resumed.")
        stored = _stored(stream)
        with consumer_of(to, Store(self.settings.state)) as watcher:
            watcher.run(threading.Event(), until_idle=True)
        found = self._audited(to, FIRST_DAY)
        repeats = sum(stored.values()) - found.rows["received"]
        self.tell.say(
            f"{found.rows['staged']:,} rows, {found.rows['acked']:,} acknowledged, {found.rows['received']:,} "
            f"different ones received, {repeats:,} repeats, {found.rows['staged'] - found.rows['received']:,} missing."
        )
        for shard, count in sorted(each for each in stored.items() if each[1]):
            blocked = delivery.counts.blocked.get(shard, 0.0)
            self.tell.say(f"{shard}: {count:,} records, {blocked:.1f} s blocked by its limit of 1,000 a second")
        self._must(found.rows["received"] == found.rows["staged"], "rows are missing")

    def _looked_up(self) -> None:
        self.tell.step(f"The ad effectiveness of {logs.LATE_DAY} goes to a store, and is looked up there")
        self._deliver_and_consume()
        self._show_ad()

    def _late(self, instance: dg.DagsterInstance, delivery: Path) -> None:
        self.tell.step("The missing tenth arrives. The day is computed again, and only changed keys are sent")
        self.poll(delivery)
        self._compute(instance, [logs.LATE_DAY])
        self._deliver_and_consume()
        self._show_ad()

    def _invalidated(self) -> None:
        self.tell.step("Somebody invalidates that update: the older values return")
        feed = fa.Feed(self.board, EFFECTIVENESS_FEED)
        now = self.settings.clock.now()
        update = fa.require_latest(feed, logs.LATE_DAY, now=now)
        invalidate(feed, logs.LATE_DAY, update.name, reason="demo", author="ann", now=now)
        self._deliver_and_consume()
        self._show_ad()

    def _lost_by_the_old_client(self) -> None:
        self.tell.step("The same day by a client for which nobody waits, in Spark tasks: rows are lost, and found out")
        old = _Old.like(self._deliverer("effects"), self.settings.spark.spark_session)
        old.deliver(logs.LATE_DAY, again=True)
        with consumer_of(old, Store(self.settings.state)) as consumer:
            consumer.run(threading.Event(), until_idle=True)
        found = self._audited(old, logs.LATE_DAY)
        self.tell.say(
            f"The Spark job succeeded. {found.rows['staged']:,} rows were sent, {found.rows['received']:,} received."
        )
        for loss in found.losses[:1]:
            self.tell.say(
                f"The audit: {loss.rows} rows not {loss.hop}, block {loss.block}, rows {loss.first} to {loss.last} of "
                f"{loss.file.rpartition('/')[2]}."
            )
        self._must(bool(found.losses), "the old client has lost nothing")
        again = self._deliver_and_consume(again=True)
        self._must(self._audited(again, logs.LATE_DAY).state == "settled", "the replay did not settle")

    def _what_next(self, seconds: float) -> None:
        self.tell.say(f"{seconds:.0f} s from the first delivery to here.")
        self.tell.step("What to type next")
        program = f"FEED_ASSETS_DELIVERIES={self.settings.deliveries_directory} {self.next_steps.program}"
        for command, what in (
            (f"{program} deliver ls effects", "what is delivered, and what is due"),
            (f"{program} deliver audit effects", "the rows at every hop"),
            (f"{program} deliver lookup effects {AD}", "an ad in the store"),
            (f"{program} deliver run effects", "deliver the other days that are computed"),
        ):
            self.tell.say(f"# {what}")
            self.tell.say(command)

    def _deliverer(self, name: str) -> Deliverer:
        to = load_destination(self.settings.deliveries_directory / f"{name}.yaml")
        return Deliverer(fa.Feed(self.board, to.feed), to, self.settings.local_state)

    def _deliver_and_consume(self, *, again: bool = False) -> Deliverer:
        to = self._deliverer("effects")
        delivery = to.deliver(logs.LATE_DAY, again=again)
        if delivery is None:
            raise RuntimeError("Nothing was delivered.")
        begun = delivery.begun
        with consumer_of(to, Store(self.settings.state)) as consumer:
            settled = consumer.run(threading.Event(), until_idle=True)
        self.tell.say(
            f"Edition {begun.edition}, {begun.update}: {begun.puts} puts, {begun.deletes} deletes; {settled} settled."
        )
        return to

    def _show_ad(self) -> None:
        to = self._deliverer("effects").to
        with Lookups.of(to, self.settings.local_state) as lookups:
            found = lookups.get(AD)
        if found is None:
            raise RuntimeError("The store has no such ad.")
        self.tell.say(f"lookup: {found.row}, version {list(found.version)}")

    def _audited(self, deliverer: Deliverer, day: str) -> Account:
        editions = deliverer.ledger.of(day)
        return account(deliverer.ledger, deliverer.to, editions[-1], now=deliverer.now() + timedelta(seconds=5))

    def _must(self, holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
        if not holds:
            raise RuntimeError(f"The act does not go as it should: {otherwise}.")


@dataclass(frozen=True, slots=True)
class _Old(Deliverer):
    """A deliverer that sends by the old client in Spark tasks, and takes a job that succeeded for a delivery."""

    spark: Any = None

    @classmethod
    def like(cls, other: Deliverer, spark: Any) -> _Old:
        """A deliverer to the same place."""
        return cls(other.feed, other.to, other.folder, other.now, spark=spark)

    def _send(self, begun: Begun) -> Delivery:
        prefix = Prefix.of(begun.destination, begun.partition or "", begun.edition)
        rows = [
            (key, prefix.record(ordinal, op, body))
            for batch in staged_rows(self.feed.blackboard, begun)
            for ordinal, op, key, body in batch
        ]
        with _processes_end_with_their_task(self.spark):
            self.spark.sparkContext.parallelize(rows, 2).foreachPartition(_by_the_old_client(self.folder))
        ended = self.ledger.end(begun, Ended(outcome="delivered", at=self.now(), acked=len(rows)))
        return Delivery(begun, ended)


class _IntoFile:
    """What the old client uses of boto3, for a stream in a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put_records(self, **request: Any) -> dict[str, Any]:
        """Put records."""
        with LocalStream(self._folder / LOCAL_STREAMS / f"{request['StreamName']}.db", 2) as stream:
            answers = stream.put([Record(each["PartitionKey"], each["Data"]) for each in request["Records"]])
        return {"Records": [{} if isinstance(each, Acked) else {"ErrorCode": "Throttled"} for each in answers]}


def _by_the_old_client(folder: Path) -> Any:
    def send(rows: Iterable[tuple[str, bytes]]) -> None:
        client = OldClient("effects", kinesis=_IntoFile(folder))
        for key, data in rows:
            client.put(key, data)

    return send


@contextmanager
def _processes_end_with_their_task(spark: Any) -> Iterator[None]:
    """As on a cluster whose application ends with the job: else a process of Python lives on, and may send the rest."""
    configuration, name = java_session(spark).sparkContext().conf(), "spark.python.worker.reuse"
    configuration.set(name, "false")
    try:
        yield
    finally:
        configuration.set(name, "true")


def _stored(stream: LocalStream) -> Counter[str]:
    """How many records each shard has."""
    found: Counter[str] = Counter()
    for shard in stream.all_shards():
        reader = stream.reader(shard.name, None)
        found[shard.name] = len(reader.next().records)
    return found
