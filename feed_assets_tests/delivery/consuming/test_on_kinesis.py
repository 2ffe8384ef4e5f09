"""The consumer on streams of Kinesis, which the judge gives: resharding, expiring iterators, losses."""

from __future__ import annotations

from pathlib import Path

import pytest

from feed_assets.delivery.audit import account
from feed_assets.delivery.errors import RecordsLostError
from feed_assets.delivery.tables import checkpoints
from feed_assets_tests.delivery.judge.faults import Rule
from feed_assets_tests.delivery.judge.running import JudgeServer, throttled
from feed_assets_tests.delivery.worlds import DAY, World
from feed_assets_tests.waiting import until

MANY = {f"product-{number}": float(number) for number in range(300)}
READS = ["GetRecords", "GetShardIterator", "ListShards"]


@pytest.fixture
def world(judge: JudgeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A stream of two shards."""
    for name, value in judge.environment.items():
        monkeypatch.setenv(name, value)
    judge.set(calls_limited=False)
    judge.create("prices", shards=2)
    return World(tmp_path, options={"stream": "kinesis://us-east-1/prices"})


def is_settled(world: World) -> bool:
    ledger = world.deliverer.ledger
    accounts = [account(ledger, world.to, each, now=world.now()) for each in ledger.of(DAY)]
    return all(each.state == "settled" and each.is_whole for each in accounts)


def test_k17_a_stream_is_resharded_while_it_is_consumed_and_the_store_ends_right(
    judge: JudgeServer, world: World, database: str
) -> None:
    """Four deliveries of the same keys; the stream is split and merged between and during them."""
    world.state_url = database
    judge.when("prices", "UpdateShardCount", after_records=450, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
    judge.when("prices", "UpdateShardCount", after_records=800, TargetShardCount=2, ScalingType="UNIFORM_SCALING")
    with world.consuming(), world.consuming():
        for number in range(4):
            world.publish({name: number + price for name, price in MANY.items()})
            world.deliver()
        until(lambda: is_settled(world))
    expected = {name: 3 + price for name, price in MANY.items()}
    assert world.values(*MANY) == expected
    known = checkpoints(world.state, "prices")
    assert sum(not each.is_over for each in known.values()) == 2
    assert len(known) > 6
    assert judge.account().violations == 0


def test_k17_expired_iterators_throttled_reads_and_cut_answers_lose_and_repeat_nothing(
    judge: JudgeServer, world: World
) -> None:
    judge.set(iterator_seconds=0.1)
    judge.inject(
        Rule("cut_after", rate=0.2, operations=READS),
        throttled(rate=0.2, operations=READS),
        Rule("cut_after", rate=0.3),
        seed=3,
    )
    with world.consuming():
        world.publish(MANY)
        delivery = world.deliver()
        until(lambda: is_settled(world))
        stored = list(judge.log.of("prices"))
        # What the consumer sees again, the last of it after all has settled, is what the stream has twice.
        until(lambda: world.audited().repeats["received"] == len(stored) - len(MANY))
    assert delivery is not None
    assert world.values(*MANY) == MANY
    audited = world.audited()
    assert audited.repeats["received"] == len(stored) - len(MANY)
    assert delivery.ended.ambiguous >= audited.repeats["received"]
    assert audited.unexplained == 0


def test_until_idle_throttled_reads_are_waited_for(judge: JudgeServer, world: World) -> None:
    world.publish(MANY)
    world.deliver()
    judge.inject(throttled(times=4, operations=READS))

    assert world.consume() == len(MANY)
    assert judge.account().errors["ProvisionedThroughputExceededException"] == 4


def test_records_that_kinesis_has_dropped_unread_stop_the_consumer_unless_the_loss_is_accepted(
    judge: JudgeServer, world: World
) -> None:
    world.publish(MANY)
    world.deliver()
    world.consume()
    world.publish({name: price + 1 for name, price in MANY.items()})
    world.deliver()
    judge.trim("prices", keep=10)

    with pytest.raises(RecordsLostError, match=r"shardId-\d+: records after \d+ were dropped unread.*was settled"):
        world.consume()
    assert world.consume(accept_loss=True) == 20
    assert not is_settled(world)


def test_the_lag_of_a_stream_of_kinesis_is_compared_with_its_retention(world: World) -> None:
    with world.deliverer.open_stream() as stream:
        assert stream.retention().total_seconds() == 86_400
