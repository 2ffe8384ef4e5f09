"""Processes of one consumer: shards are shared, read in order, and never settled twice; here each is a thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from feed_assets.delivery.consuming import starting
from feed_assets.delivery.consuming.lag import lags
from feed_assets.delivery.consuming.reading import Pace
from feed_assets.delivery.consuming.starting import consumer_of
from feed_assets.delivery.errors import RecordsLostError, StoreUnusableError, StreamError
from feed_assets.delivery.ledger import utc_now
from feed_assets.delivery.stores.port import Change, Outcome
from feed_assets.delivery.stores.sqlite import SqliteStore
from feed_assets.delivery.streams.local import LocalStream
from feed_assets.delivery.streams.port import Batch, Record, ShardReader, hash_key
from feed_assets.delivery.tables import Checkpoint, checkpoints, move
from feed_assets.leases.in_database import DatabaseLeases
from feed_assets_tests.delivery.worlds import DAY, QUICK, World
from feed_assets_tests.waiting import until

MANY = {f"product-{number}": float(number) for number in range(200)}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class WatchedStore(SqliteStore):
    """A store that notes what is applied, waits while it is closed, and fails as often as it is told."""

    applied: list[Change]
    opened: threading.Event
    entered: threading.Event
    failures = 0

    def apply(self, space: str, changes: Sequence[Change]) -> Sequence[Outcome]:
        if self.failures:
            WatchedStore.failures -= 1
            raise StoreUnusableError("The store is restarted.")
        self.entered.set()
        assert self.opened.wait(60)
        self.applied.extend(changes)
        return super().apply(space, changes)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, world: World) -> type[WatchedStore]:
    """The class of the stores that consumers open."""
    WatchedStore.applied, WatchedStore.failures = [], 0
    WatchedStore.opened, WatchedStore.entered = threading.Event(), threading.Event()
    WatchedStore.opened.set()
    monkeypatch.setattr(starting, "store_of", lambda *_, **__: WatchedStore(world.folder / "stores.db"))
    return WatchedStore


def test_k17_processes_have_equal_shares_of_the_shards_and_get_those_of_one_that_leaves(world: World) -> None:
    world.options["stream"] = "local://prices?shards=5"
    with world.consuming() as first:
        until(lambda: len(first.shards) == 5)
        with world.consuming() as second:
            until(lambda: sorted([len(first.shards), len(second.shards)]) == [2, 3])
            with world.consuming() as third:
                until(lambda: sorted(len(each.shards) for each in (first, second, third)) == [1, 2, 2])
                shared = [*first.shards, *second.shards, *third.shards]
                assert len(set(shared)) == 5
        until(lambda: len(first.shards) == 5)


def test_k17_a_process_without_a_share_takes_over_when_another_leaves(world: World) -> None:
    world.options["stream"] = "local://prices"
    with world.consuming() as second:
        with world.consuming() as first:
            until(lambda: len(first.shards) + len(second.shards) == 1)
        until(lambda: second.shards)


def test_k17_a_lease_is_renewed_while_a_batch_takes_long(world: World, store: type[WatchedStore]) -> None:
    world.options["stream"] = "local://prices"
    world.publish(MANY)
    world.deliver()
    with world.consuming() as first:
        store.opened.clear()
        until(store.entered.is_set)
        with world.consuming() as second:
            assert not threading.Event().wait(3 * QUICK.lease.total_seconds())
            assert (len(first.shards), len(second.shards)) == (1, 0)
            store.opened.set()
            until(lambda: world.audited().state == "settled")
    assert len(store.applied) == 200


def test_k17_an_idle_shard_does_not_delay_a_busy_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of one shard does not answer at all."""
    silent = threading.Event()
    reader = LocalStream.reader

    class Silent:
        def next(self) -> Batch:
            assert silent.wait(60)
            return Batch((), 0.0, is_end=False)

    def some_silent(stream: LocalStream, shard: str, after: str | None) -> ShardReader:
        return Silent() if shard.endswith("0") else reader(stream, shard, after)

    monkeypatch.setattr(LocalStream, "reader", some_silent)
    world.publish(MANY)
    world.deliver()
    busy = [name for name in MANY if hash_key(name) >= 2**127]
    with world.consuming():
        until(lambda: len(world.values(*MANY)) == len(busy))
        silent.set()


def test_k17_the_records_of_a_key_stay_in_order_through_splits_and_merges(
    world: World, store: type[WatchedStore]
) -> None:
    stream = world.stream
    for number in range(8):
        world.publish({name: number + price for name, price in MANY.items()})
        world.deliver()
        first, second = (each.name for each in sorted(stream.shards(), key=lambda each: each.low))
        if number % 2:
            stream.merge(first, second)
            stream.split(stream.shards()[0].name)
        else:
            stream.split(second)
            left, right, _ = (each.name for each in sorted(stream.shards(), key=lambda each: each.low))
            stream.merge(left, right)
    left_open = {each.name for each in stream.shards()}
    with world.consuming(), world.consuming():
        until(lambda: world.audited().state == "settled")
        known = until(lambda: left_open <= (found := checkpoints(world.state, "prices")).keys() and found)

    assert len(store.applied) == 8 * 200
    versions: dict[str, list[bytes]] = {}
    for change in store.applied:
        versions.setdefault(change.key, []).append(change.version)
    assert all(each == sorted(each) for each in versions.values())
    assert {name for name, at in known.items() if not at.is_over} == left_open
    assert known.keys() == {each.name for each in stream.all_shards()}


def test_k17_no_checkpoint_moves_after_a_lost_lease(world: World, store: type[WatchedStore]) -> None:
    world.options["stream"] = "local://prices"
    world.publish({"tea": 1.0})
    world.deliver()
    (shard,) = [each.name for each in world.stream.shards()]
    with world.consuming(pace=Pace(timedelta(minutes=5), 0.05, 0.1)) as zombie:
        store.opened.clear()
        until(store.entered.is_set)
        leases = DatabaseLeases(world.state)
        later, length = utc_now() + timedelta(minutes=6), timedelta(minutes=3)
        lease = leases.take(f"consumer.prices.{shard}", length, now=later)
        assert lease is not None
        theirs = Checkpoint("", is_over=False, until=later)
        move(world.state, lease, length, "prices", shard, theirs, now=later)
        store.opened.set()
        until(lambda: not zombie.shards)
    assert checkpoints(world.state, "prices") == {shard: theirs}
    assert world.values("tea") == {"tea": 1.0}


def test_a_store_that_does_not_answer_is_waited_for_and_nothing_more_is_read(
    world: World, store: type[WatchedStore], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.options["stream"] = "local://prices"
    world.publish(MANY)
    world.deliver()
    reads = []
    reader = LocalStream.reader

    @dataclass
    class Counted:
        of: ShardReader
        seen: list[int] = field(default_factory=lambda: reads)

        def next(self) -> Batch:
            batch = self.of.next()
            self.seen.append(len(batch.records))
            return batch

    monkeypatch.setattr(LocalStream, "reader", lambda *of: Counted(reader(*of)))
    store.failures = 5
    with world.consuming() as consumer:
        until(lambda: store.failures <= 2)
        assert [each for each in reads if each] == [200]
        assert "The store is restarted." in str(consumer.figures.waiting)
        until(lambda: world.audited().state == "settled")
        assert not consumer.figures.waiting
    assert [each for each in reads if each] == [200]
    assert "waits: The store is restarted." in caplog.text
    assert "goes on." in caplog.text


def test_while_the_store_does_not_answer_the_audit_says_received_and_not_settled(
    world: World, store: type[WatchedStore]
) -> None:
    world.publish({"tea": 1.0})
    world.deliver()
    store.failures = 1_000_000
    with world.consuming():
        until(lambda: world.audited().rows == {"staged": 1, "acked": 1, "received": 1, "settled": 0})


def test_a_consumer_that_is_to_end_while_the_store_does_not_answer_leaves_the_rest_to_the_next(
    world: World, store: type[WatchedStore]
) -> None:
    world.publish(MANY)
    world.deliver()
    store.failures = 1_000_000
    with world.consuming() as consumer:
        until(lambda: consumer.figures.waiting)
    assert not any(at.sequence for at in checkpoints(world.state, "prices").values())
    store.failures = 0

    assert world.consume() == 200
    assert world.audited().repeats == {"acked": 0, "received": 0, "settled": 0}


def test_until_idle_the_shards_of_a_dead_process_are_waited_for(world: World) -> None:
    world.publish(MANY)
    world.deliver()
    leases = DatabaseLeases(world.state)
    for shard in world.stream.all_shards():
        assert leases.take(f"consumer.prices.{shard.name}", QUICK.lease, now=utc_now())

    assert world.consume(pace=QUICK) == len(MANY)


def test_until_idle_a_store_that_does_not_answer_is_an_error(world: World, store: type[WatchedStore]) -> None:
    world.publish({"tea": 1.0})
    world.deliver()
    store.failures = 1

    with pytest.raises(StoreUnusableError):
        world.consume()


def lose(world: World) -> None:
    """Read some records, and let the stream drop those that follow."""
    world.publish({"tea": 1.0})
    world.deliver()
    world.consume()
    world.publish({"tea": 2.0})
    world.deliver()
    world.stream.trim(before=utc_now().timestamp() + 1)


def test_records_that_were_dropped_unread_stop_the_consumer_unless_the_loss_is_accepted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.options["stream"] = "local://prices"
    lose(world)

    with pytest.raises(
        RecordsLostError, match=r"shardId-0+: records after 0+1, up to 0+2, .* before 20.* UTC was settled"
    ):
        world.consume()
    with pytest.raises(RecordsLostError, match="accept-loss"), world.consuming() as consumer:
        until(lambda: consumer.figures.losses.collect()[0].samples[0].value)

    world.publish({"tea": 3.0})
    world.deliver()
    assert world.consume(accept_loss=True) == 1
    assert "A loss was accepted" in caplog.text
    assert world.values("tea") == {"tea": 3.0}


def test_a_shard_that_is_gone_before_its_end_was_read_is_a_loss(world: World) -> None:
    world.publish(MANY)
    world.deliver()
    world.consume()
    lease = DatabaseLeases(world.state).take("consumer.prices.gone", timedelta(hours=1), now=utc_now())
    assert lease is not None
    at = Checkpoint("1", is_over=False, until=utc_now())
    move(world.state, lease, timedelta(hours=1), "prices", "gone", at, now=utc_now())
    DatabaseLeases(world.state).release(lease)

    with pytest.raises(RecordsLostError, match="shard gone is gone"):
        world.consume()
    world.consume(accept_loss=True)
    world.consume()
    assert checkpoints(world.state, "prices")["gone"].is_over


def test_a_stream_that_was_made_anew_is_an_error_and_not_silence(world: World) -> None:
    world.publish(MANY)
    world.deliver()
    world.consume()
    for each in (world.folder / "streams").iterdir():
        each.unlink()

    with pytest.raises(StreamError, match="--from-oldest"):
        world.consume()


def test_a_shard_that_was_not_consumed_for_half_of_the_retention_is_late(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.options["stream"] = "local://prices"
    world.publish({"tea": 1.0})
    world.deliver()
    stream, now = world.stream, utc_now()
    (unread,) = lags(stream, world.state, "prices", now=now)
    world.consume()

    (soon,) = lags(stream, world.state, "prices", now=now + timedelta(days=3))
    (late,) = lags(stream, world.state, "prices", now=now + timedelta(days=4))

    assert (unread.state, unread.lag, soon.is_late, late.state, late.is_late) == ("unread", None, False, "read", True)
    with consumer_of(world.deliverer, world.state) as consumer:
        consumer.now = lambda: now + timedelta(days=4)
        consumer.figures.until["shard"] = now
        assert consumer.figures.late(timedelta(days=3), consumer.now()) == ["shard"]
        shown = {each.name: each for each in consumer.figures.show(consumer.now()).collect()}
        assert shown["feed_assets_delivery_lag_seconds"].samples[0].value == 4 * 86_400


def test_records_of_nobody_and_of_another_destination_are_counted_and_ignored(world: World) -> None:
    world.publish({"tea": 1.0})
    world.deliver()
    other = World(world.folder, world.board, {"name": "other", "store": None})
    other.deliver()
    world.stream.put([Record("tea", b"tea: 7"), Record("tea", b'{"product":"tea","price":7}')])
    with world.consuming() as consumer:
        until(lambda: world.audited().state == "settled")
    assert counted(consumer) == {
        ("received", "delivered"): 1,
        ("received", "foreign"): 2,
        ("received", "of another destination"): 1,
        ("settled", "applied"): 1,
    }
    assert world.values("tea") == {"tea": 1.0}


def counted(consumer: Any) -> dict[tuple[str, str], float]:
    (records,) = [each for each in consumer.figures.registry.collect() if each.name == "feed_assets_delivery_records"]
    return {
        (each.labels["hop"], each.labels["outcome"]): each.value
        for each in records.samples
        if each.name.endswith("_total")
    }


def test_a_watcher_proves_that_rows_arrive_and_writes_no_store(world: World) -> None:
    world.options |= {"settled_by": "watcher", "dispatch": "not_installed_here:function"}
    world.publish(MANY)
    world.deliver()

    assert world.consume() == 200
    audited = world.audited()
    assert (audited.state, audited.rows) == ("settled", {"staged": 200, "acked": 200, "received": 200})
    assert not (world.folder / "stores.db").exists()
    assert not world.deliverer.ledger.parts("settled", world.deliverer.ledger.began(world.deliverer.ledger.of(DAY)[0]))
