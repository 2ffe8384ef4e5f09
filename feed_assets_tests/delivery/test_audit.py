"""The audit: one lost row is located, repeats are explained, and settled deliveries leave one object."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.delivery import sending
from feed_assets.delivery.audit import account, summarize, unsettled, with_shards
from feed_assets.delivery.consuming import settling
from feed_assets.delivery.consuming.dispatching import Arrived
from feed_assets.delivery.consuming.settling import Settling
from feed_assets.delivery.consuming.starting import consumer_of
from feed_assets.delivery.errors import StoreUnusableError
from feed_assets.delivery.ledger import Edition, Ledger
from feed_assets.delivery.ordinals import Ordinals, between, by_block
from feed_assets.delivery.records import details_of
from feed_assets.delivery.stores.port import Change, Outcome
from feed_assets.delivery.stores.sqlite import SqliteStore
from feed_assets.delivery.streams.port import Record, hash_key
from feed_assets_tests.delivery.worlds import DAY, NEXT_DAY, World
from feed_assets_tests.waiting import until

BLOCK = 50
"""Blocks are smaller here."""
MANY = {f"product-{number:03}": float(number) for number in range(180)}
LOST = 123
"""The ordinal of the row that is lost, in block 2."""
MINUTE = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    from feed_assets.delivery import audit, ordinals  # noqa: PLC0415 - modules to be changed

    for module in (audit, ordinals, sending, settling):
        monkeypatch.setattr(module, "BLOCK", BLOCK)
    return World(tmp_path)


def editions(world: World) -> list[Edition]:
    return [each for found in world.deliverer.ledger.editions().values() for each in found]


def test_k20_an_audit_names_hop_block_shard_and_minute_of_one_lost_row(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(MANY)
    delivery = world.deliver()
    assert delivery is not None
    stream = world.stream
    with sqlite3.connect(stream.path) as database:
        for sequence, key, data in database.execute("SELECT sequence, key, data FROM records").fetchall():
            if (details := details_of(data)) is not None and details.ordinal == LOST:
                lost_key = key
                database.execute("DELETE FROM records WHERE sequence = ?", (sequence,))
    world.consume()
    world.source.time += timedelta(hours=1)

    (edition,) = editions(world)
    found = account(world.deliverer.ledger, world.to, edition, now=world.now())
    found = with_shards(world.deliverer.ledger, edition, found, stream.all_shards())

    (loss,) = found.losses
    assert (found.state, loss.hop, loss.block, loss.first, loss.last, loss.rows) == (
        "overdue", "received", LOST // BLOCK, LOST, LOST, 1,
    )  # fmt: skip
    assert loss.file == delivery.begun.files[0].key
    assert loss.shards == tuple(
        each.name for each in stream.all_shards() if each.low <= hash_key(lost_key) <= each.high
    )
    assert loss.holders == tuple(world.deliverer.ledger.parts("acks", delivery.begun))
    assert all(MINUTE.fullmatch(each) for each in loss.minutes)
    assert len(loss.minutes) in {1, 2}


def test_k20_a_row_that_a_store_did_not_get_is_located_by_shard_and_minute(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = Settling.settle

    def skips_one(of: Settling, arrived: list[Arrived]) -> None:
        arrived[:] = [each for each in arrived if each.details is None or each.details.ordinal != LOST]
        settle(of, arrived)

    monkeypatch.setattr(Settling, "settle", skips_one)
    world.publish(MANY)
    world.deliver()
    world.consume()

    (loss,) = world.audited().losses
    product = sorted(MANY)[LOST]
    (shard,) = [each.name for each in world.stream.shards() if each.low <= hash_key(product) <= each.high]
    assert (loss.hop, loss.block, loss.first, loss.shards) == ("settled", LOST // BLOCK, LOST, (shard,))
    assert all(MINUTE.fullmatch(each) for each in loss.minutes)
    assert loss.minutes


def test_k20_rows_that_the_stream_does_not_have_are_lost_at_the_first_hop(world: World) -> None:
    """The acknowledgements of a sender are gone, as if it had never sent."""
    world.publish(MANY)
    world.deliver()
    ledger = world.deliverer.ledger
    (edition,) = editions(world)
    begun = ledger.began(edition)
    ((holder, part),) = ledger.parts("acks", begun).items()
    ledger.holder("acks", DAY, edition.number, holder).write(part.set() - Ordinals([LOST]))

    losses = {loss.hop: loss for loss in world.audited().losses if loss.first == LOST}
    assert (losses["acked"].block, losses["acked"].rows, losses["acked"].holders) == (LOST // BLOCK, 1, ())


def test_after_a_reshard_a_lost_row_may_be_in_a_shard_or_its_children(world: World) -> None:
    world.options["stream"] = "local://prices"
    world.publish({"tea": 1.0, "milk": 2.0})
    world.deliver()
    stream = world.stream
    with sqlite3.connect(stream.path) as database:
        database.execute("DELETE FROM records WHERE sequence = 1")
    stream.split("shardId-000000000000")
    world.consume()

    (edition,) = editions(world)
    found = with_shards(world.deliverer.ledger, edition, world.audited(), stream.all_shards())

    key = "milk"  # the first in the order of keys
    expected = {each.name for each in stream.all_shards() if each.low <= hash_key(key) <= each.high}
    assert set(found.losses[0].shards) == expected
    assert len(expected) == 2


def test_repeats_of_a_sender_are_counted_and_those_that_nobody_explains_are_told(world: World) -> None:
    world.options["stream"] = "local://prices"
    world.publish({"tea": 1.0, "milk": 2.0})
    world.deliver()
    stream = world.stream
    reader = stream.reader("shardId-000000000000", None)
    again = [Record(each.key, each.data) for each in reader.next().records]
    stream.put(again)
    stream.put(again[:1])

    world.consume()

    audited = world.audited()
    assert (audited.state, audited.rows["received"], audited.repeats["received"]) == ("settled", 2, 3)
    assert audited.unexplained == 3
    assert audited.superseded == 0


class Failing(SqliteStore):
    """A store that applies a batch, and fails then."""

    failures = 0

    def apply(self, space: str, changes: Sequence[Change]) -> Sequence[Outcome]:
        outcomes = super().apply(space, changes)
        if Failing.failures:
            Failing.failures -= 1
            raise StoreUnusableError("The answer was lost.")
        return outcomes


def test_what_is_read_again_after_a_crash_is_no_repeat(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from feed_assets.delivery.consuming import reading, starting  # noqa: PLC0415 - modules to be changed

    monkeypatch.setattr(starting, "store_of", lambda *_, **__: Failing(world.folder / "stores.db"))
    Failing.failures = 2
    world.publish(MANY)
    world.deliver()
    with world.consuming():
        until(lambda: not Failing.failures)
        until(lambda: world.audited().state == "settled")
    move = reading.move

    def crashes(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(reading, "move", crashes)
    world.publish({name: price + 1 for name, price in MANY.items()})
    world.deliver()
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            world.consume()
    monkeypatch.setattr(reading, "move", move)
    assert world.consume() == len(MANY)

    audited = world.audited()
    assert (audited.state, audited.repeats["received"], audited.unexplained) == ("settled", 0, 0)
    parts = world.deliverer.ledger.parts("settled", world.deliverer.ledger.began(editions(world)[-1]))
    assert sum(sum(each.counts.values()) for each in parts.values()) == len(MANY)


def test_the_part_of_a_zombie_is_joined_and_never_overwritten_by_less(world: World) -> None:
    world.options["stream"] = "local://prices"
    world.publish(MANY)
    world.deliver()
    shard = "shardId-000000000000"
    records = world.stream.reader(shard, None).next().records
    ledger = world.deliverer.ledger
    with consumer_of(world.deliverer, world.state) as consumer:
        zombie, successor = consumer.settling(shard), consumer.settling(shard)
        zombie.settle(zombie.take(records[:50]))
        successor.settle(successor.take(records[:50]))
        successor.settle(successor.take(records[50:]))
        successor.write_down()
        zombie.write_down()
        zombie.settle(zombie.take(records[50:60]))
        zombie.write_down()
        successor.settle(successor.take(records[:1]))
        successor.write_down()

    begun = ledger.began(editions(world)[0])
    for hop in ("received", "settled"):
        (part,) = ledger.parts(hop, begun).values()  # type: ignore[arg-type] # two of the hops
        assert len(part.set()) == len(MANY)
        assert part.repeats == 0
    assert part.counts == {"applied": len(MANY)}


def test_applied_and_superseded_make_all_settled_rows(world: World) -> None:
    world.publish({"tea": 1.0, "milk": 1.0}, NEXT_DAY)
    world.deliver(NEXT_DAY)
    world.publish({"tea": 2.0, "salt": 2.0})
    world.deliver()
    world.consume()

    ledger = world.deliverer.ledger
    parts = ledger.parts("settled", ledger.began(ledger.of(DAY)[0])).values()
    counts = [sum(each.counts.get(outcome, 0) for each in parts) for outcome in ("applied", "superseded")]
    assert counts == [1, 1]
    assert world.audited().superseded == 1


def test_a_settled_delivery_leaves_a_summary_and_its_parts_go(world: World) -> None:
    for price in (1.0, 2.0):
        world.publish({"tea": price, "milk": price})
        world.deliver()
    world.consume()
    before = [account(world.deliverer.ledger, world.to, each, now=world.now()) for each in editions(world)]
    with consumer_of(world.deliverer, world.state) as consumer:
        consumer.keep()
        assert consumer.figures.oldest is None

    ledger, prefix = world.deliverer.ledger, world.deliverer.ledger.feed.control("deliveries")
    areas = {each.removeprefix(f"{prefix}prices/").partition("/")[0] for each in objects(world)}
    assert not areas & {"acks", "received", "settled"}
    assert len([each for each in objects(world) if "/staged/" in each]) == 1  # of the last, for lookups
    assert [account(ledger, world.to, each, now=world.now()) for each in editions(world)] == before
    assert unsettled(ledger, world.to, now=world.now()) == []

    # Records that come once more, and late, write nothing down.
    world.consume(pace=None)
    reread(world)
    assert {each.removeprefix(f"{prefix}prices/").partition("/")[0] for each in objects(world)} == areas


def reread(world: World) -> None:
    """Read all records once more."""
    from feed_assets.delivery.tables import forget  # noqa: PLC0415 - one use

    forget(world.state, "prices")
    assert world.consume() == 4


def test_what_nobody_can_ask_for_any_more_is_deleted_by_the_next_delivery(tmp_path: Path) -> None:
    world = World(tmp_path, LocalBlackboard(tmp_path / "base"))
    for price in (1.0, 2.0, 3.0):
        world.publish({"tea": price})
        world.deliver()
        world.consume()
    with consumer_of(world.deliverer, world.state) as consumer:
        consumer.keep()
    first, *rest = (each.number for each in editions(world))
    staged = tmp_path / "base" / world.deliverer.ledger.staging_prefix(DAY)
    staged.mkdir(parents=True)
    for name, days in (("of-a-dead-runner", 3), ("of-another-runner", 1)):
        (staged / name).touch()
        then = time.time() - timedelta(days=days).total_seconds()
        os.utime(staged / name, (then, then))

    world.source.time = datetime.fromtimestamp(first, UTC) + timedelta(days=399)
    world.publish({"tea": 4.0})
    world.deliver()
    assert [each.number for each in editions(world)][:3] == [first, *rest]
    assert [each.name for each in staged.iterdir()] == ["of-another-runner"]

    world.source.time += timedelta(days=2)
    world.publish({"tea": 5.0})
    world.deliver()
    world.consume()
    left = [each.number for each in editions(world)]
    assert (len(left), set(left) & {first, *rest}) == (2, set())
    assert not [each for each in objects(world) if str(first) in each]
    assert world.values("tea") == {"tea": 5.0}


def objects(world: World) -> list[str]:
    prefix = world.deliverer.ledger.feed.control("deliveries")
    return [each.key for each in world.board.page(prefix).entries]


def test_a_delivery_that_is_not_settled_in_time_is_overdue_and_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.publish({"tea": 1.0})
    delivery = world.deliver()
    assert delivery is not None
    with consumer_of(world.deliverer, world.state) as consumer:
        consumer.keep()
        assert consumer.figures.oldest == delivery.ended.at
        assert "is not settled" not in caplog.text
        world.source.time += timedelta(minutes=16)
        consumer.keep()
        consumer.keep()
    assert caplog.text.count("is not settled: `feed-assets deliver audit prices`") == 1
    assert world.audited().is_lost


def test_an_abandoned_delivery_is_summarized_when_a_later_one_has_settled(world: World) -> None:
    world.publish({"tea": 1.0})
    deliverer = world.deliverer
    begun = deliverer._begin(  # an edition that nobody sends
        DAY, world_latest(world), [], everything_again=False, without_base=False
    )
    assert begun is not None
    deliverer.abandon(begun, "by hand")
    ledger = deliverer.ledger
    assert unsettled(ledger, world.to, now=world.now()) == []
    world.deliver()
    world.consume()

    for _ in range(2):
        for edition, found in unsettled(ledger, world.to, now=world.now()):
            summarize(ledger, edition, found)
    states = [account(ledger, world.to, each, now=world.now()).state for each in editions(world)]
    assert states == ["abandoned", "settled"]
    assert ledger.summarized() == {(DAY, each.number) for each in editions(world)}


def world_latest(world: World):
    from feed_assets.file_feed.reading import latest  # noqa: PLC0415 - one use

    return latest(world.deliverer.feed, DAY, now=world.now())


def test_blocks_of_millions_are_found_without_looking_at_each_ordinal() -> None:
    few = between(0, 10_000_000) - between(5, 9_999_990)
    assert [(block, len(each)) for block, each in by_block(few)] == [(0, 5), (152, 10)]


def test_a_part_is_read_by_who_has_written_it(world: World) -> None:
    ledger = Ledger(world.deliverer.feed, "prices")
    writer = ledger.holder("received", DAY, 1, "shardId-000000000000")
    writer.write(Ordinals([1, 70_000]), repeats=2, minutes={0: ("2019-11-24T10:00", "2019-11-24T10:02")}, sequence="9")
    part = ledger.holder("received", DAY, 1, "shardId-000000000000").read()
    assert part is not None
    assert (part.set(), part.repeats, part.minutes, part.sequence) == (
        Ordinals([1, 70_000]), 2, {0: ("2019-11-24T10:00", "2019-11-24T10:02")}, "9",
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(part), type=type(part)) == part
