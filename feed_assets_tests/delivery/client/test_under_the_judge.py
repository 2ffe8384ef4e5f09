"""The client against the judge, which keeps Kinesis's limits and an account of its own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest

from feed_assets.delivery.client.facade import Client
from feed_assets.delivery.client.settings import ClientSettings, Counters
from feed_assets.delivery.errors import StreamError
from feed_assets.delivery.streams.kinesis import KinesisStream
from feed_assets.delivery.streams.port import HASH_KEYS, Acked, Record, hash_key
from feed_assets_tests.delivery.judge.faults import Rule
from feed_assets_tests.delivery.judge.log import Stored
from feed_assets_tests.delivery.judge.running import JudgeServer, judging, refused, throttled

REGION = "eu-west-1"
_numbers = count()


@pytest.fixture(scope="module")
def shared(slow_start, tmp_path_factory) -> Iterator[JudgeServer]:
    with judging(tmp_path_factory.mktemp("judge")) as started:
        yield started


@pytest.fixture(autouse=True)
def _environment(shared: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in shared.environment.items():
        monkeypatch.setenv(name, value)
    yield
    shared.inject()


class Delivery:
    """A stream of its own for a test, and what the judge says about it."""

    def __init__(self, judge: JudgeServer, shards: int) -> None:
        self.judge = judge
        self.name = judge.create(f"stream-{next(_numbers)}", shards=shards)
        self.stream = KinesisStream(REGION, self.name)
        self._violations = judge.account().violations

    def send(self, records: list[Record], settings: ClientSettings | None = None) -> Counters:
        """Send all. Each ordinal is acknowledged once, and all that was acknowledged is in the judge's log."""
        done: list[int] = []
        with Client(self.stream, settings or ClientSettings()) as client:
            client.put_many(records, range(len(records)), done.extend)
        assert sorted(done) == list(range(len(records)))
        self.check(records)
        return client.counters()

    def check(self, records: list[Record]) -> None:
        assert {(stored.key, stored.data) for stored in self.stored} == set(records)
        account = self.judge.account()
        assert account.violations == self._violations, account.described

    @property
    def stored(self) -> list[Stored]:
        return list(self.judge.log.of(self.name))

    @property
    def throttled_percent(self) -> float:
        return self.judge.account().total(self.name).throttled_percent

    @property
    def repeats(self) -> Counter[bytes]:
        return Counter(stored.data for stored in self.stored) - Counter({stored.data for stored in self.stored})


@pytest.fixture
def deliver(shared: JudgeServer) -> Iterator[type[Delivery]]:
    """Makes a stream with so many shards."""
    made: list[Delivery] = []

    def make(shards: int) -> Delivery:
        made.append(Delivery(shared, shards))
        return made[-1]

    yield make
    for each in made:
        each.stream.close()


def numbered(number: int, size: int = 100) -> list[Record]:
    return [Record(f"key-{each}", f"{each:08d}".encode() + bytes(size)) for each in range(number)]


def test_k2_no_request_is_over_a_limit_and_next_to_nothing_is_throttled(deliver):
    sizes = [8, 5_000, 90_000, 1_048_560, 300_000]
    numbers = [f"{each:08d}".encode() for each in range(450)]
    records = [
        Record(f"{each}", number.ljust(sizes[each % 100] if each % 100 < 5 else 200))
        for each, number in enumerate(numbers)
    ]
    delivery = deliver(4)
    delivery.send(records)
    assert delivery.throttled_percent < 1


def test_k3_limits_follow_the_shards_through_split_and_merge(deliver):
    delivery = deliver(2)
    delivery.judge.when(
        delivery.name, "SplitShard", after_records=1_500, ShardToSplit="shardId-000000000000",
        NewStartingHashKey=str(HASH_KEYS // 4),
    )  # fmt: skip
    delivery.judge.when(
        delivery.name, "MergeShards", after_records=4_000, ShardToMerge="shardId-000000000003",
        AdjacentShardToMerge="shardId-000000000001",
    )  # fmt: skip
    counters = delivery.send(numbered(9_000))
    assert {stored.shard for stored in delivery.stored} == {f"shardId-{number:012d}" for number in range(5)}
    assert set(counters.blocked) == {f"shardId-{number:012d}" for number in range(5)}
    assert delivery.throttled_percent < 5  # for a moment the client knows nothing of a merge
    assert delivery.repeats == Counter()


def test_k4_a_hot_key_slows_its_own_shard_only(deliver):
    delivery = deliver(4)
    hot = [Record("hot", f"hot {number}".encode()) for number in range(6_000)]
    cold = [
        record
        for record in numbered(2_000)
        if hash_key(record.key) * 4 // HASH_KEYS != hash_key("hot") * 4 // HASH_KEYS
    ]
    with Client(delivery.stream) as client:
        client.put_many(hot, range(6_000), lambda _: None)
        futures = [client.put(*record) for record in cold]
        client.flush()
        for future in futures:
            future.result()
        assert client.counters().open > 1_000  # the hot shard alone still has seconds to go
    delivery.check([*hot, *cold])
    blocked = client.counters().blocked
    assert max(blocked, key=blocked.__getitem__) == f"shardId-{hash_key('hot') * 4 // HASH_KEYS:012d}"
    assert delivery.throttled_percent < 1


def test_k5_the_rate_blocks_the_caller_when_the_queue_is_full(deliver):
    delivery = deliver(1)
    in_the_queue = 400
    settings = ClientSettings(queue_bytes=2 * in_the_queue * 120)
    records = numbered(3_000)
    entered_before_acked = []
    done: list[int] = []
    with Client(delivery.stream, settings) as client:
        for number in range(0, 3_000, 100):
            client.put_many(records[number : number + 100], range(number, number + 100), done.extend)
            entered_before_acked.append(number + 100 - len(done))
    delivery.check(records)
    assert max(entered_before_acked) < 1_000
    seconds = delivery.judge.account().shards[delivery.name]["shardId-000000000000"].seconds.values()
    assert max(second.records for second in seconds) <= 1_000
    assert delivery.throttled_percent == 0


def test_k6_futures_have_the_shard_and_sequence_number_of_the_stream(deliver):
    delivery = deliver(3)
    records = numbered(500)
    with Client(delivery.stream) as client:
        futures = {client.put(*record): record for record in records}
    stored = {(each.shard, each.sequence): (each.key, each.data) for each in delivery.stored}
    assert stored == {tuple(future.result(0)): tuple(record) for future, record in futures.items()}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("AccessDeniedException", "permission kinesis:PutRecords"),
        ("KMSDisabledException", "key cannot be used"),
        ("ResourceNotFoundException", "no such stream"),
    ],
)
def test_k6_what_sending_again_does_not_mend_fails_all_futures(deliver, error, words):
    delivery = deliver(1)
    delivery.judge.inject(refused(error))
    client = Client(delivery.stream, ClientSettings(linger=60.0))  # nothing leaves before the last is put
    futures = [client.put(*record) for record in numbered(100)]
    with pytest.raises(StreamError, match=words):
        client.close()
    assert {type(future.exception(0)) for future in futures} == {StreamError}


def test_k8_a_queue_of_a_few_records_delivers_all(deliver):
    delivery = deliver(2)
    delivery.send(numbered(1_000), ClientSettings(queue_bytes=2_000))


def test_k9_one_record_leaves_without_a_flush(deliver):
    delivery = deliver(1)
    with Client(delivery.stream) as client:
        assert isinstance(client.put("alone", b"data").result(60), Acked)


def test_k11_only_the_failed_records_of_a_request_are_sent_again(deliver):
    delivery = deliver(2)
    delivery.judge.inject(
        Rule("record_error_before", rate=0.05),
        Rule("record_error_before", rate=0.1, times=10, error="ProvisionedThroughputExceededException"),
        seed=3,
    )
    counters = delivery.send(numbered(3_000))
    assert counters.ambiguous > 30
    assert counters.throttled == 10
    assert delivery.repeats == Counter()
    assert counters.acked == 3_000


def test_k12_an_outage_loses_nothing(deliver):
    delivery = deliver(2)
    delivery.judge.when(delivery.name, "IncreaseStreamRetentionPeriod", after_records=1, RetentionPeriodHours=48)
    timer = threading.Timer(0.5, delivery.judge.outage, args=(3.0,))
    timer.start()
    counters = delivery.send(numbered(4_000))
    timer.join()
    assert counters.retried > 0


def test_k13_repeats_are_explained_by_ambiguous_answers(deliver):
    delivery = deliver(2)
    delivery.judge.inject(
        Rule("cut_after", rate=0.03),
        Rule("cut_within", rate=0.02),
        Rule("cut_before", rate=0.03),
        Rule("error_after", rate=0.02),
        Rule("error_before", rate=0.02),
        Rule("record_error_after", rate=0.01),
        throttled(rate=0.02),
        seed=11,
    )
    counters = delivery.send(numbered(6_000))
    assert 0 < delivery.repeats.total() <= counters.ambiguous
    answered = Counter(stored.data for stored in delivery.stored if stored.answered)
    assert answered.most_common(1)[0][1] == 1  # who was answered is never sent again
    assert counters.retried > 0
    assert delivery.throttled_percent < 1


def test_credentials_that_expire_are_replaced_while_records_wait(deliver, monkeypatch):
    judge = deliver(1).judge
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAFIRST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "first/secret")
    judge.know("AKIAFIRST", "first/secret", expires_in=1.5)
    judge.know("AKIASECOND", "second/secret")
    delivery = deliver(1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASECOND")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "second/secret")
    counters = delivery.send(numbered(3_000))
    assert counters.retried > 0
    assert delivery.repeats == Counter()


def test_another_producer_on_the_shard_makes_the_client_slower_not_wrong(deliver):
    delivery = deliver(1)
    stop = threading.Event()

    def produce() -> None:
        client = delivery.judge.client()
        while not stop.wait(0.1):
            client.put_records(StreamName=delivery.name, Records=[{"Data": b"other", "PartitionKey": "other"}] * 40)

    producer = threading.Thread(target=produce)
    producer.start()
    done: list[int] = []
    try:
        with Client(delivery.stream) as client:
            client.put_many(numbered(4_000), range(4_000), done.extend)
    finally:
        stop.set()
        producer.join()
    assert sorted(done) == list(range(4_000))
    assert client.counters().throttled < 1_000
