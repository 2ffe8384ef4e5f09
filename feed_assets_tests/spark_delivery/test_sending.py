"""Spark sends each row to the stream, whatever the stream answers, and whoever else sends the same edition."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from feed_assets.ads.demo.old_client import OldClient
from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.location import open_blackboard
from feed_assets.delivery.errors import NotDeliveredError, StreamError
from feed_assets.delivery.sending import Job
from feed_assets.resources.spark import SparkResource
from feed_assets.spark_delivery import stream_writer
from feed_assets_tests.delivery.judge.faults import Rule
from feed_assets_tests.delivery.judge.running import SECRET_KEY, JudgeServer, judging, refused
from feed_assets_tests.delivery.worlds import DAY
from feed_assets_tests.servers.versitygw import Versitygw
from feed_assets_tests.spark_delivery.worlds import SparkWorld
from feed_assets_tests.spark_processes import give_environment, reuse_of_processes
from feed_assets_tests.waiting import until

ROWS = 4_000


@pytest.fixture(scope="module")
def judging_all(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeServer]:
    """One judge, as Spark keeps processes of Python for each environment of its tasks."""
    with judging(tmp_path_factory.mktemp("judge")) as started, pytest.MonkeyPatch.context() as patch:
        give_environment(spark, patch, started.environment)
        yield started


@pytest.fixture
def world(tmp_path: Path, judging_all: JudgeServer, spark: Any) -> Iterator[SparkWorld]:
    yield SparkWorld.below(tmp_path, judging_all, spark)
    judging_all.inject()


def once(rows: int) -> dict[int, int]:
    return dict.fromkeys(range(rows), 1)


def old_sender(settings: dict[str, Any], folder: Path) -> Callable[[Iterable[Any]], None]:
    def send(rows: Iterable[Any]) -> None:
        client = OldClient("old", **settings)
        for row in rows:
            client.put(row.shard_key, bytes(row.body))
        (folder / str(os.getpid())).touch()

    return send


def test_k7_a_task_ends_only_when_each_of_its_rows_is_acknowledged(world: SparkWorld, tmp_path: Path) -> None:
    rows = 8_000
    world.publish_rows(rows)
    delivery = world.deliver_on_spark()
    assert (delivery.ended.acked, world.arrived()) == (rows, once(rows))

    # The control: the same rows by the same tasks.
    world.judge.create("old", shards=2)
    processes = tmp_path / "processes"
    processes.mkdir()
    staged = stream_writer.staged_rows(world.spark, world.board, delivery.begun)
    with reuse_of_processes(world.spark, wanted=False):
        staged.repartition(2, "_ordinal").foreachPartition(old_sender(world.judge.settings, processes))
    until(lambda: not any(psutil.pid_exists(int(each.name)) for each in processes.iterdir()))
    assert sum(1 for _ in world.judge.log.of("old")) < rows


def test_k11_records_that_the_stream_refuses_are_sent_again_and_they_alone(world: SparkWorld) -> None:
    world.judge.inject(Rule("record_error_before", rate=0.2))
    world.publish_rows(ROWS)
    before = world.judge.account().record_errors.get("InternalFailure", 0)

    world.deliver_on_spark()

    assert world.arrived() == once(ROWS)
    failed = world.judge.account().record_errors["InternalFailure"] - before
    assert ROWS * 0.2 < failed < ROWS * 0.3


def test_k12_no_record_is_dropped_by_its_age_or_its_tries(world: SparkWorld) -> None:
    world.judge.inject(Rule("record_error_before", rate=0.8), Rule("cut_before", rate=0.1))  # some take 40 tries
    world.publish_rows(ROWS)

    delivery = world.deliver_on_spark()

    assert set(world.arrived()) == set(range(ROWS))
    assert delivery.counts is not None
    assert delivery.counts.ambiguous > 3 * ROWS


def test_k13_the_store_removes_what_unanswered_requests_repeat(world: SparkWorld) -> None:
    world.judge.inject(Rule("cut_after", rate=0.1), Rule("record_error_after", rate=0.02), seed=7)
    prices = world.publish_rows(ROWS)

    delivery = world.deliver_on_spark()
    assert sum(world.arrived().values()) > ROWS
    assert delivery.ended.ambiguous > 0
    world.judge.inject()
    world.consume()

    assert world.all_values(prices) == prices
    audited = world.audited()
    assert audited.state == "settled"
    assert audited.rows == dict.fromkeys(("staged", "acked", "received", "settled"), ROWS)


def test_k14_senders_share_the_rates_of_the_shards(world: SparkWorld) -> None:
    rows = 8_000
    world.publish_rows(rows)

    delivery = world.deliver_on_spark()

    senders = world.senders(delivery.begun)
    assert [abs(len(each.set()) - rows / 2) < rows / 20 for each in senders.values()] == [True, True]
    assert world.judge.account().total(world.in_judge).throttled_percent < 1
    assert world.arrived() == once(rows)


def test_a_failed_edition_stays_open_and_two_runners_that_resume_it_do_no_harm(world: SparkWorld) -> None:
    world.publish_rows(ROWS)
    world.judge.inject(refused("AccessDeniedException"))
    with pytest.raises(StreamError, match=rf"{world.in_judge}: the permission kinesis:PutRecords is missing"):
        world.on_spark().deliver(DAY)
    assert world.arrived() == {}
    world.judge.inject()

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(world.on_spark().deliver, DAY) for _ in range(2)]
        deliveries = [each.result() for each in both]

    assert {each.ended.acked for each in deliveries if each} == {ROWS}
    assert set(world.arrived()) == set(range(ROWS))
    assert world.on_spark().deliver(DAY) is None


def test_rows_that_any_attempt_has_got_acknowledged_are_not_sent_again(world: SparkWorld) -> None:
    world.publish_rows(ROWS)
    world.judge.inject(refused("AccessDeniedException"))
    with pytest.raises(StreamError):
        world.on_spark(50).deliver(DAY)  # one task: of several, one may outlive the failure
    world.judge.inject()
    deliverer, begun = world.on_spark(), world.open_edition()
    half = [batch[: len(batch) // 2] for batch in Job(deliverer.ledger, world.to, world.folder, begun).rows()]
    with deliverer.open_stream() as stream:
        Job(deliverer.ledger, world.to, world.folder, begun).send(iter(half), stream, "another")

    delivery = deliverer.deliver(DAY)

    assert delivery is not None
    assert delivery.begun == begun
    assert world.arrived() == once(ROWS)
    assert delivery.ended.repeats == 0


def test_the_data_source_takes_nothing_but_the_rows_of_an_open_edition(world: SparkWorld) -> None:
    world.publish_rows(10)
    delivery = world.deliver_on_spark()
    job = Job(world.deliverer.ledger, world.to, world.folder, delivery.begun)
    writer = world.spark.range(3).write.format(stream_writer.NAME).mode("append")

    with pytest.raises(Exception, match="feed_delivery appends rows with _ordinal, op, shard_key, body"):
        writer.options(base="x").save()
    with pytest.raises(NotDeliveredError, match=f"Edition {delivery.begun.edition} of prices is not open"):
        stream_writer.send(world.spark, job, "run", 1)
    assert world.arrived() == once(10)


def test_options_of_senders_have_no_secret(world: SparkWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_ASSETS_STORE_PRICES", '{"password": "hunter2"}')
    secret = SparkWorld(world.folder, world.board, {**world.options, "store": "redis://host"})
    secret.publish({"tea": 1.0})
    deliverer = secret.deliverer
    begun = deliverer.deliver(DAY)
    assert begun is not None
    job = Job(deliverer.ledger, secret.to, secret.folder, begun.begun)

    options = str(stream_writer.options_of(job, "run", 1))
    assert secret.to.stream in options
    assert not [each for each in ("hunter2", SECRET_KEY) if each in options]


def test_rows_of_a_bucket_are_staged_there_and_sent(
    world: SparkWorld, bucket: str, versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.judge.know(versitygw.access_key, versitygw.secret_key)  # one pair of keys for both, as of a role
    give_environment(world.spark, monkeypatch, versitygw.environment)
    in_bucket = SparkWorld(world.folder, open_blackboard(f"{bucket}/a base"), world.options)
    in_bucket.judge, in_bucket.in_judge = world.judge, world.in_judge
    in_bucket.spark = SparkResource.on("local[2]", f"{bucket}/a base").spark_session
    in_bucket.publish_rows(ROWS)
    in_bucket.deliver_on_spark()
    in_bucket.publish({"product 0": 1.0})

    delivery = in_bucket.deliver_on_spark()

    assert (delivery.begun.puts, delivery.begun.deletes) == (1, ROWS - 1)
    assert in_bucket.arrived() == dict.fromkeys(range(ROWS), 2)
    names = [each.key for each in list_all(in_bucket.board, "prices/v1.0/.feed/deliveries/prices/staged/")]
    assert names == [each.key for each in delivery.begun.files]
