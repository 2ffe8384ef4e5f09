"""Client, reader and consumer on ferrokinesis, which others wrote: a second opinion on them and on the judge.

ferrokinesis departs from AWS in this, which the tests keep away from. It takes any signature that has the form of one.
It counts a key's bytes, not its characters, and not for the size of a record or for rates. It takes 5 MiB a request,
splits and merges closed shards again, and names no parents after UpdateShardCount. `MillisBehindLatest` is 0 until a
shard's end. And a reader at the tip may miss records of requests that overlap: see `servers.ferrokinesis`.
"""

from __future__ import annotations

import json
import random
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from click.testing import CliRunner

from feed_assets.blackboard.location import open_blackboard
from feed_assets.cli.main import main
from feed_assets.delivery.client.facade import Client
from feed_assets.delivery.client.settings import ClientSettings, Counters
from feed_assets.delivery.consuming import dispatching
from feed_assets.delivery.errors import BadRowsError, RecordsLostError, StreamError
from feed_assets.delivery.streams.kinesis import KinesisStream
from feed_assets.delivery.streams.port import HASH_KEYS, Acked, Answer, Record, Refused, hash_key
from feed_assets.delivery.tables import checkpoints
from feed_assets_tests.delivery.judge.running import judging
from feed_assets_tests.delivery.worlds import DAY, NEXT_DAY, World
from feed_assets_tests.servers.ferrokinesis import Ferrokinesis
from feed_assets_tests.waiting import until

REGION = Ferrokinesis.region
MIB = 1024 * 1024
_numbers = count()

Refusals = Callable[[], int]


@pytest.fixture(scope="module")
def kinesis(ferrokinesis: Ferrokinesis) -> Any:
    """A client of boto3."""
    return ferrokinesis.client()


@pytest.fixture(autouse=True)
def _environment(ferrokinesis: Ferrokinesis, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ferrokinesis.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def stream(kinesis: Any) -> Iterator[KinesisStream]:
    """A new stream with two shards."""
    with KinesisStream(REGION, made(kinesis)) as opened:
        yield opened


@pytest.fixture
def refusals(ferrokinesis: Ferrokinesis) -> Refusals:
    """How many requests of PutRecords got an error until now."""

    def count_refusals() -> int:
        with urllib.request.urlopen(f"{ferrokinesis.endpoint}/metrics") as answer:
            figures = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
        return int(figures['ferrokinesis_requests_total{operation="PutRecords",result="error"}'])

    return count_refusals


def made(kinesis: Any, shards: int = 2) -> str:
    """A new stream, by its name."""
    name = f"stream-{next(_numbers)}"
    kinesis.create_stream(StreamName=name, ShardCount=shards)
    until_active(kinesis, name)
    return name


def until_active(kinesis: Any, name: str) -> None:
    def status() -> str:
        return str(kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamStatus"])

    until(lambda: status() == "ACTIVE", every=0.005)


def ids(number: int) -> list[str]:
    return [f"shardId-{each:012d}" for each in range(number)]


def numbered(number: int, size: int = 200) -> list[Record]:
    return [Record(f"key-{each}", f"{each:08d}".encode().ljust(size)) for each in range(number)]


def shard_of(record: Record) -> str:
    """Where a stream of two shards has a record."""
    return ids(2)[hash_key(record.key) * 2 // HASH_KEYS]


def check_stored(kinesis: Any, name: str, records: Sequence[Record], answers: Sequence[Acked]) -> None:
    """The stream has each record once, in the place that its answer says; so boto3 finds."""
    found = []
    for shard in (each["ShardId"] for each in kinesis.list_shards(StreamName=name)["Shards"]):
        place = {"StreamName": name, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
        read = kinesis.get_records(ShardIterator=kinesis.get_shard_iterator(**place)["ShardIterator"])["Records"]
        found += [((shard, each["SequenceNumber"]), (each["PartitionKey"], each["Data"])) for each in read]
    assert len(found) == len(records)
    assert dict(found) == dict(zip(answers, records, strict=True))


def send(kinesis: Any, stream: KinesisStream, records: Sequence[Record], settings: ClientSettings) -> Counters:
    """Send all by the client."""
    with Client(stream, settings) as client:
        futures = [client.put(*record) for record in records]
    check_stored(kinesis, stream.name, records, [future.result(0) for future in futures])
    return client.counters()


# The client


def test_each_of_many_records_arrives_once_and_next_to_none_is_throttled(kinesis, stream, refusals):
    before = refusals()
    counters = send(kinesis, stream, numbered(5_000), ClientSettings())
    assert counters.acked == 5_000
    assert counters.throttled < 50
    assert refusals() == before


def test_of_a_request_only_the_throttled_records_are_sent_again(kinesis, stream):
    counters = send(kinesis, stream, numbered(2_500), ClientSettings(records_a_second=3_000, burst=0.5))
    assert counters.throttled > 0
    assert counters.acked == 2_500


def test_each_record_has_its_own_answer(stream):
    hot, other = (next(each for each in numbered(9) if shard_of(each) == shard) for shard in ids(2))

    def mixed() -> Sequence[Answer]:
        answers = stream.put([*[hot] * 499, other])
        return answers if any(isinstance(answer, Refused) for answer in answers) else ()

    answers = until(mixed, every=0)
    assert answers[-1].shard == ids(2)[1]
    assert {answer for answer in answers if isinstance(answer, Refused)} == {
        Refused(throttled=True, message="ProvisionedThroughputExceededException: Rate exceeded for shard.")
    }


def test_a_split_and_a_merge_while_records_are_sent_lose_and_repeat_none(kinesis, stream):
    records = numbered(1_500)
    with Client(stream, ClientSettings(map_every=0.2)) as client:
        futures = [client.put(*record) for record in records[:500]]
        old, other, _, high, _ = ids(5)
        kinesis.split_shard(StreamName=stream.name, ShardToSplit=old, NewStartingHashKey=str(HASH_KEYS // 4))
        futures += [client.put(*record) for record in records[500:1_000]]
        until_active(kinesis, stream.name)
        kinesis.merge_shards(StreamName=stream.name, ShardToMerge=high, AdjacentShardToMerge=other)
        until_active(kinesis, stream.name)
        futures += [client.put(*record) for record in records[1_000:]]
    answers = [future.result(0) for future in futures]
    check_stored(kinesis, stream.name, records, answers)
    assert {answer.shard for answer in answers} >= {ids(3)[2], ids(5)[4]}


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (Record("k" * 257, b""), "its key has 257 characters"),
        (Record("", b""), "its key is empty"),
        (Record("k", bytes(MIB + 1)), f"it has {MIB + 2} bytes with its key"),
    ],
    ids=["long key", "no key", "large"],
)
def test_the_client_does_not_send_a_record_that_the_server_refuses(stream, refusals, record, words):
    with pytest.raises(StreamError, match=r"ValidationException.*Sending again would not help"):
        stream.put([record])
    before = refusals()
    with Client(stream) as client, pytest.raises(BadRowsError, match=words):
        client.put(*record)
    assert refusals() == before


def test_501_records_are_refused_and_the_client_sends_500_at_most(kinesis, stream, refusals):
    with pytest.raises(StreamError, match="less than or equal to 500"):
        stream.put(numbered(501))
    before = refusals()
    send(kinesis, stream, numbered(1_200), ClientSettings(records_a_second=100_000, burst=1.0))
    assert refusals() == before


def test_a_stream_that_is_not_there_is_named():
    with KinesisStream(REGION, "nowhere") as stream:
        for call in (stream.limits, stream.shards, lambda: stream.put(numbered(1)), stream.reader("x", None).next):
            with pytest.raises(StreamError, match=f"kinesis://{REGION}/nowhere: there is no such stream"):
                call()


# The reader


def test_a_reader_begins_after_the_record_that_it_is_given(stream):
    records = numbered(40)
    answers = stream.put(records)
    for shard in stream.shards():
        mine = [
            (answer.sequence, *record)
            for answer, record in zip(answers, records, strict=True)
            if answer.shard == shard.name
        ]
        for read, after in ((0, None), (4, mine[3][0]), (len(mine), mine[-1][0])):
            found = stream.reader(shard.name, after).next().records
            assert [(each.sequence, each.key, each.data) for each in found] == mine[read:]


def test_a_closed_shard_has_an_end_and_children_that_name_it(kinesis, stream):
    old, other, low, high, merged = ids(5)
    record = next(each for each in numbered(9) if shard_of(each) == old)
    (answer,) = stream.put([record])
    kinesis.split_shard(StreamName=stream.name, ShardToSplit=old, NewStartingHashKey=str(HASH_KEYS // 4))
    until_active(kinesis, stream.name)
    kinesis.merge_shards(StreamName=stream.name, ShardToMerge=high, AdjacentShardToMerge=other)
    until_active(kinesis, stream.name)
    assert {shard.name: (shard.is_open, shard.parents) for shard in stream.all_shards()} == {
        old: (False, ()), other: (False, ()), low: (True, (old,)), high: (False, (old,)), merged: (True, (high, other)),
    }  # fmt: skip
    for after, expected in ((None, [record.data]), (answer.sequence, [])):
        reader, found = stream.reader(old, after), []
        while not (batch := reader.next()).is_end:
            found += [read.data for read in batch.records]
        assert found == expected


def test_an_iterator_that_has_expired_is_renewed_after_the_last_record(tmp_path):
    server = Ferrokinesis(tmp_path / "data", iterator_seconds=1)
    server.start()
    try:
        with KinesisStream(REGION, made(server.client(), shards=1), server.endpoint) as stream:
            stream.put([Record("k", b"read")])
            reader = stream.reader(ids(1)[0], None)
            assert [read.data for read in until(lambda: reader.next().records)] == [b"read"]
            stream.put([Record("k", b"not read")])
            time.sleep(1.1)
            assert not reader.next().records  # it has expired
            assert [read.data for read in until(lambda: reader.next().records)] == [b"not read"]
    finally:
        server.kill()


def test_a_missing_shard_is_a_loss_a_deleted_stream_is_not_and_one_that_is_made_anew_is_begun_again(kinesis, stream):
    (answer,) = stream.put([Record("key-0", b"")])
    with pytest.raises(RecordsLostError, match=f"{ids(9)[8]} is gone") as caught:
        stream.reader(ids(9)[8], None).next()
    assert caught.value.is_gone
    reader = stream.reader(answer.shard, None)
    assert reader.next().records
    kinesis.delete_stream(StreamName=stream.name)
    until(lambda: stream.name not in kinesis.list_streams()["StreamNames"])
    with pytest.raises(StreamError, match="there is no such stream"):
        reader.next()
    time.sleep(1.1)  # it tells streams apart by the second of their beginning
    kinesis.create_stream(StreamName=stream.name, ShardCount=2)
    until_active(kinesis, stream.name)
    with pytest.raises(StreamError, match=r"was made anew.*deliver consume --from-oldest"):
        stream.reader(answer.shard, answer.sequence).next()


# The consumer


def test_the_records_of_a_key_stay_in_order_while_the_stream_is_split_and_merged(kinesis: Any, tmp_path: Path) -> None:
    """Each delivery has other prices, so a row says which one it is of."""
    name = made(kinesis)
    world = World(tmp_path, options={"stream": f"kinesis://{REGION}/{name}"})
    products = [f"product-{number}" for number in range(60)]
    applied = defaultdict[str, list[float]](list)

    def note(record: dispatching.Record) -> list[tuple[str, dispatching.Record]]:
        if record.row["price"] < 100.0:
            time.sleep(0.005)  # children would overtake
        applied[record.row["product"]].append(record.row["price"])
        return [("prices", record)]

    old, other, low, high, merged, first, second = ids(7)
    changes: list[Callable[[], object]] = [
        lambda: kinesis.split_shard(StreamName=name, ShardToSplit=old, NewStartingHashKey=str(HASH_KEYS // 4)),
        lambda: kinesis.merge_shards(StreamName=name, ShardToMerge=high, AdjacentShardToMerge=other),
        lambda: kinesis.split_shard(StreamName=name, ShardToSplit=merged, NewStartingHashKey=str(HASH_KEYS // 2)),
        lambda: None,
    ]

    def deliver(number: int) -> None:
        world.publish({product: 100.0 * number + at for at, product in enumerate(products)})
        world.deliver()
        changes[number]()
        until_active(kinesis, name)

    deliver(0)
    deliver(1)
    with world.consuming(dispatch=note), world.consuming(dispatch=note):
        deliver(2)
        deliver(3)
        until(lambda: world.audited().state == "settled")
        known = until(lambda: len(found := checkpoints(world.state, "prices")) == 7 and found)

    # Who loses a lease on a slow machine reads some again.
    assert {product: list(dict.fromkeys(prices)) for product, prices in applied.items()} == {
        product: [100.0 * number + at for number in range(4)] for at, product in enumerate(products)
    }
    assert world.values(*products) == {product: 300.0 + at for at, product in enumerate(products)}
    assert {shard for shard, at in known.items() if at.is_over} == {old, other, high, merged}
    assert {shard for shard, at in known.items() if not at.is_over} == {low, first, second}


def test_deliveries_by_the_commands_leave_in_the_store_what_the_model_says(
    kinesis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model: a key has the row of the newest day that ever had it, if that day still has it."""
    monkeypatch.chdir(tmp_path)
    for name in ("base", "sources", "deliveries"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"FEED_ASSETS_{name.upper()}", str(tmp_path / name))
    address = f"kinesis://{REGION}/{made(kinesis)}"
    (tmp_path / "deliveries/prices.yaml").write_text(
        f"{{name: prices, feed: prices/v1.0, stream: '{address}', key: [product], columns: [product, price], "
        "store: sqlite}"
    )
    world = World(tmp_path / "base/.state", open_blackboard(str(tmp_path / "base")), {"stream": address})
    products = [f"product-{number}" for number in range(40)]
    chance = random.Random(5)
    newest: dict[str, str] = {}
    rows: dict[str, dict[str, float]] = {}

    def run(*arguments: str) -> Any:
        result = CliRunner().invoke(main, ["deliver", *arguments, "--json"])
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    for day in (DAY, NEXT_DAY, DAY):
        rows[day] = {product: float(chance.randrange(3)) for product in chance.sample(products, 25)}
        newest |= {product: max(day, newest.get(product, day)) for product in rows[day]}
        world.publish(rows[day], day)
        (done,) = run("run", "prices")
        assert done["acked"] == done["puts"] + done["deletes"] > 0
        if len(rows) == 2:
            assert run("consume", "prices", "--until-idle")["settled"] > 0
    assert {each["state"] for each in run("audit", "prices")} == {"settled"}
    assert world.values(*products) == {
        product: rows[day][product] for product, day in newest.items() if product in rows[day]
    }


# The judge


def test_the_judge_gives_the_same_answers(kinesis: Any, ferrokinesis: Ferrokinesis, tmp_path: Path) -> None:
    with judging(tmp_path) as judge:
        judge.set(calls_limited=False)
        unchecked = Config(parameter_validation=False, retries={"total_max_attempts": 1})
        judged = boto3.client("kinesis", config=unchecked, **judge.settings)
        other = ferrokinesis.client(config=unchecked)
        name, none = made(kinesis, shards=3), "none"
        judge.create(name, shards=3)

        def both(operation: str, **parameters: Any) -> Any:
            found = [_answer(each, operation, parameters) for each in (judged, other)]
            until_active(kinesis, name)
            assert found[0] == found[1]
            return found[0]

        shards, one = ids(8), [{"Data": b"", "PartitionKey": "k"}]
        assert both("create_stream", StreamName=name, ShardCount=1)[0] == "ResourceInUseException"
        both("split_shard", StreamName=name, ShardToSplit=shards[1], NewStartingHashKey=str(HASH_KEYS // 2))
        both("merge_shards", StreamName=name, ShardToMerge=shards[0], AdjacentShardToMerge=shards[3])
        assert len(both("list_shards", StreamName=name)) == 6
        assert len(both("list_shards", StreamName=name, ExclusiveStartShardId=shards[2])) == 3
        for low, high in ((4, 5), (5, 2), (5, 9), (4, 4)):
            pair = {"ShardToMerge": ids(10)[low], "AdjacentShardToMerge": ids(10)[high]}
            assert isinstance(both("merge_shards", StreamName=name, **pair), tuple)
        for shard, start in (
            (shards[5], "1"),
            (shards[5], "0"),
            (shards[7], "5"),
            (shards[4], str(HASH_KEYS // 3 * 2)),
        ):
            split = {"ShardToSplit": shard, "NewStartingHashKey": start}
            assert isinstance(both("split_shard", StreamName=name, **split), tuple)
        for operation in ("describe_stream_summary", "list_shards", "delete_stream"):
            assert both(operation, StreamName=none)[0] == "ResourceNotFoundException"
        for records in (one * 501, [], [{"PartitionKey": "k"}], [{"Data": b""}], *([each] for each in _bad_records())):
            assert both("put_records", StreamName=name, Records=records)[1] == 400
        assert both("put_records", StreamName=none, Records=one)[0] == "ResourceNotFoundException"
        assert both("put_records", Records=one)[0] == "InvalidArgumentException"
        for given in (
            {"StreamName": none, "ShardId": shards[0], "ShardIteratorType": "LATEST"},
            {"StreamName": name, "ShardId": shards[7], "ShardIteratorType": "LATEST"},
            {"StreamName": name, "ShardId": shards[0], "ShardIteratorType": "AT_SEQUENCE_NUMBER"},
            {"StreamName": name, "ShardId": shards[0], "ShardIteratorType": "AT_TIMESTAMP"},
            {"StreamName": name, "ShardId": shards[0], "ShardIteratorType": "NO"},
            {"StreamName": name, "ShardId": shards[0]},
        ):
            assert both("get_shard_iterator", **given)[1] == 400
        assert both("get_records", ShardIterator="AAAA")[0] == "InvalidArgumentException"
        assert both("increase_stream_retention_period", StreamName=name, RetentionPeriodHours=23)[1] == 400


def _bad_records() -> list[dict[str, Any]]:
    return [
        {"Data": b"", "PartitionKey": ""},
        {"Data": b"", "PartitionKey": "k" * 257},
        {"Data": bytes(MIB + 1), "PartitionKey": "k"},
        {"Data": b"", "PartitionKey": "k", "ExplicitHashKey": str(HASH_KEYS)},
    ]


def _answer(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
    """Error and status; of a list the shards without their sequence numbers, which servers choose."""
    try:
        answer = getattr(client, operation)(**parameters)
    except ClientError as error:
        return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
    return [
        {**shard, "SequenceNumberRange": sorted(shard["SequenceNumberRange"])} for shard in answer.get("Shards", ())
    ]
