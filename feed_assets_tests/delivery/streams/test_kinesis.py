"""Streams of Kinesis, asked by the program, on the judge and on moto's server."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import boto3
import pytest

from feed_assets.delivery.errors import RecordsLostError, StreamError
from feed_assets.delivery.streams import kinesis_account, kinesis_reader
from feed_assets.delivery.streams.kinesis import KinesisStream
from feed_assets.delivery.streams.kinesis_reader import KinesisReader
from feed_assets.delivery.streams.port import (
    HASH_KEYS,
    Acked,
    AmbiguousError,
    NotSentError,
    Read,
    Record,
    Refused,
    Shard,
    hash_key,
)
from feed_assets_tests.certificates import self_signed
from feed_assets_tests.delivery.judge.faults import Rule
from feed_assets_tests.delivery.judge.running import JudgeServer, judging, refused, throttled

REGION = "eu-west-1"
RECORDS = [Record(f"key-{number}", b"%d" % number) for number in range(20)]
_numbers = count()


@pytest.fixture(scope="module")
def shared(slow_start, tmp_path_factory) -> Iterator[JudgeServer]:
    with judging(tmp_path_factory.mktemp("judge")) as started:
        started.set(calls_limited=False)
        yield started


@pytest.fixture(autouse=True)
def _environment(shared: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in shared.environment.items():
        monkeypatch.setenv(name, value)
    yield
    shared.inject()


@pytest.fixture
def stream(shared: JudgeServer) -> Iterator[KinesisStream]:
    """A new stream with two shards; the endpoint comes from the environment."""
    with KinesisStream(REGION, shared.create(f"stream-{next(_numbers)}", shards=2)) as opened:
        yield opened


def all_read(reader: KinesisReader) -> list[Read]:
    """What a reader finds until the shard's tip or end."""
    found: list[Read] = []
    while True:
        batch = reader.next()
        found += batch.records
        if batch.is_end or (batch.behind == 0 and not batch.records):
            return found


def put_all(stream: KinesisStream, records: list[Record] = RECORDS) -> list[Acked]:
    answers = stream.put(records)
    assert all(isinstance(answer, Acked) for answer in answers)
    return answers


def test_records_come_back_in_order_with_key_data_and_time(stream):
    answers = put_all(stream)
    for shard in stream.shards():
        expected = [
            (answer.sequence, *record)
            for record, answer in zip(RECORDS, answers, strict=True)
            if answer.shard == shard.name
        ]
        found = all_read(stream.reader(shard.name, None))
        assert [(read.sequence, read.key, read.data) for read in found] == expected
        assert all(shard.low <= hash_key(read.key) <= shard.high for read in found)
        assert all(abs((datetime.now(UTC) - read.arrived).total_seconds()) < 600 for read in found)


def test_moto_gives_the_same_records_back(s3_server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", s3_server)
    boto3.client("kinesis", region_name=REGION).create_stream(StreamName="on-moto", ShardCount=2)
    with KinesisStream(REGION, "on-moto") as stream:
        assert stream.limits().bytes_a_record == 1024 * 1024
        put_all(stream)
        found = [read for shard in stream.shards() for read in all_read(stream.reader(shard.name, None))]
        assert {(read.key, read.data) for read in found} == set(RECORDS)


def test_the_endpoint_may_be_given(shared, monkeypatch):
    name = shared.create("given")
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", "http://127.0.0.1:1")
    with KinesisStream(REGION, name, shared.endpoint) as stream:
        put_all(stream)


def test_the_shards_of_a_split_and_a_merge_name_their_parents(stream, shared):
    assert stream.shards() == [
        Shard("shardId-000000000000", 0, HASH_KEYS // 2 - 1),
        Shard("shardId-000000000001", HASH_KEYS // 2, HASH_KEYS - 1),
    ]
    client = shared.client()
    client.split_shard(
        StreamName=stream.name, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(HASH_KEYS // 4)
    )
    client.get_waiter("stream_exists").wait(StreamName=stream.name)
    client.merge_shards(
        StreamName=stream.name, ShardToMerge="shardId-000000000003", AdjacentShardToMerge="shardId-000000000001"
    )
    assert {shard.name: (shard.is_open, shard.parents) for shard in stream.all_shards()} == {
        "shardId-000000000000": (False, ()),
        "shardId-000000000001": (False, ()),
        "shardId-000000000002": (True, ("shardId-000000000000",)),
        "shardId-000000000003": (False, ("shardId-000000000000",)),
        "shardId-000000000004": (True, ("shardId-000000000003", "shardId-000000000001")),
    }
    assert [shard.name for shard in stream.shards()] == ["shardId-000000000002", "shardId-000000000004"]


def test_a_closed_shard_has_a_last_batch(stream, shared):
    put_all(stream)
    shared.client().merge_shards(
        StreamName=stream.name, ShardToMerge="shardId-000000000000", AdjacentShardToMerge="shardId-000000000001"
    )
    for shard in ("shardId-000000000000", "shardId-000000000001"):
        reader = stream.reader(shard, None)
        all_read(reader)
        assert reader.next().is_end


# Failures: what the stream has, and whether sending again helps


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("ResourceNotFoundException", "there is no such stream"),
        ("AccessDeniedException", "permission kinesis:PutRecords"),
        ("KMSDisabledException", "stream's key cannot be used (KMSDisabledException)"),
        ("KMSAccessDeniedException", "stream's key cannot be used"),
        ("UnrecognizedClientException", "does not know the credentials"),
        ("InvalidArgumentException", "Sending again would not help"),
    ],
)
def test_what_sending_again_does_not_mend_names_stream_and_remedy(stream, shared, error, words):
    shared.inject(refused(error))
    with pytest.raises(StreamError) as caught:
        stream.put(RECORDS)
    assert words in str(caught.value)
    assert f"kinesis://{REGION}/{stream.name}" in str(caught.value)


def test_a_stream_that_is_not_there_is_named():
    with KinesisStream(REGION, "nowhere") as stream:
        for call in (stream.limits, stream.shards, lambda: stream.put(RECORDS)):
            with pytest.raises(StreamError, match=f"kinesis://{REGION}/nowhere: there is no such stream"):
                call()


def test_missing_credentials_are_named(stream, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with KinesisStream(REGION, stream.name) as without:
        for call in (without.limits, lambda: without.put(RECORDS)):
            with pytest.raises(StreamError, match="no credentials of AWS"):
                call()


def test_a_whole_request_that_is_throttled_was_not_sent(stream, shared):
    shared.inject(throttled())
    with pytest.raises(NotSentError, match="ProvisionedThroughputExceededException"):
        stream.put(RECORDS)


@pytest.mark.parametrize(
    "rule",
    [
        Rule("cut_before"),
        Rule("cut_after"),
        Rule("cut_within"),
        Rule("error_before"),
        Rule("error_after"),
        Rule("error_before", error="ServiceUnavailable", status=503),
    ],
    ids=lambda rule: f"{rule.fault}-{rule.status}",
)
def test_a_cut_or_an_error_of_the_server_is_ambiguous(stream, shared, rule):
    shared.inject(rule)
    with pytest.raises(AmbiguousError):
        stream.put(RECORDS)


def test_no_answer_in_time_is_ambiguous(shared, monkeypatch):
    monkeypatch.setattr(kinesis_account, "READ_SECONDS", 0.3)
    with KinesisStream(REGION, shared.create("slow")) as stream:
        shared.inject(Rule("delay_after", seconds=2.0))
        with pytest.raises(AmbiguousError, match="timed out"):
            stream.put(RECORDS)


def test_no_connection_means_not_sent(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", f"http://127.0.0.1:{port}")
    with KinesisStream(REGION, "any") as stream:
        for call in (stream.limits, stream.shards, lambda: stream.put(RECORDS)):
            with pytest.raises(NotSentError):
                call()


def test_an_answer_that_is_none_is_ambiguous(monkeypatch, one_answer):
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", one_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
    with KinesisStream(REGION, "any") as stream, pytest.raises(AmbiguousError):
        stream.put(RECORDS)


def test_a_record_without_a_sequence_number_is_not_acknowledged(monkeypatch, one_answer):
    body = b'{"FailedRecordCount":0,"Records":[{"ShardId":"shardId-000000000000"}]}'
    monkeypatch.setenv(
        "AWS_ENDPOINT_URL_KINESIS", one_answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    )
    with KinesisStream(REGION, "any") as stream:
        assert stream.put(RECORDS[:1]) == [Refused(throttled=False, message="no sequence number: ")]


def test_each_record_has_its_own_answer(stream, shared):
    shared.inject(Rule("record_error_before", records=[3]), Rule("record_error_after", records=[5]))
    answers = stream.put(RECORDS)
    assert [position for position, answer in enumerate(answers) if isinstance(answer, Refused)] == [3, 5]
    assert not answers[3].throttled
    shared.inject(Rule("record_error_before", records=[4], error="ProvisionedThroughputExceededException"))
    assert stream.put(RECORDS)[4].throttled


def test_expired_credentials_are_looked_up_again(stream, shared, monkeypatch):
    shared.know("AKIANEXT", "second/secret")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOVER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "first/secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    shared.know("AKIAOVER", "first/secret", "token", expires_in=-1.0)
    with KinesisStream(REGION, stream.name) as renewing:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIANEXT")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "second/secret")
        monkeypatch.delenv("AWS_SESSION_TOKEN")
        with pytest.raises(NotSentError) as caught:
            renewing.put(RECORDS)
        assert caught.value.credentials
        put_all(renewing)
        assert len(renewing.shards()) == 2


# Readers


def test_an_expired_iterator_is_renewed_after_the_last_record(stream, shared):
    answers = put_all(stream)
    shard = answers[0].shard
    reader = stream.reader(shard, None)
    first = reader.next()
    put_all(stream)
    shared.set(iterator_seconds=-1.0)
    try:
        assert list(reader.next().records) == []
        shared.set(iterator_seconds=300.0)
        later = all_read(reader)
    finally:
        shared.set(iterator_seconds=300.0)
    mine = sum(answer.shard == shard for answer in answers)
    assert [read.data for read in first.records] == [read.data for read in later]
    assert len(later) == mine


def test_a_reader_goes_on_after_the_record_it_is_given(stream):
    answers = put_all(stream)
    shard = answers[0].shard
    mine = [answer.sequence for answer in answers if answer.shard == shard]
    assert [read.sequence for read in all_read(stream.reader(shard, mine[3]))] == mine[4:]
    assert all_read(stream.reader(shard, mine[-1])) == []


def test_records_that_were_trimmed_unread_are_a_loss_with_shard_and_range(stream, shared):
    answers = put_all(stream)
    shard = answers[0].shard
    mine = [answer.sequence for answer in answers if answer.shard == shard]
    shared.trim(stream.name, keep=2)
    reader = stream.reader(shard, mine[0])
    for _ in range(2):  # also for who asks again
        with pytest.raises(RecordsLostError) as caught:
            all_read(reader)
    for word in (shard, mine[0], mine[-2], f"kinesis://{REGION}/{stream.name}"):
        assert word in str(caught.value)


def test_a_shard_without_any_record_left_is_a_loss(stream, shared):
    answers = put_all(stream)
    shard = answers[0].shard
    shared.trim(stream.name, keep=0)
    with pytest.raises(RecordsLostError, match="None is left"):
        all_read(stream.reader(shard, answers[0].sequence))


def test_a_shard_that_was_closed_longer_ago_than_the_retention_is_a_loss(stream, shared):
    shard = stream.shards()[0].name
    put_all(stream)
    reader = stream.reader(shard, None)
    assert reader.next().records
    shared.client().split_shard(StreamName=stream.name, ShardToSplit=shard, NewStartingHashKey="1000")
    shared.set(iterator_seconds=1e9)
    shared.advance(25 * 3600)
    try:
        with pytest.raises(RecordsLostError, match=f"{shard} is gone, and with it all records after 49") as caught:
            reader.next()
        assert caught.value.is_gone
    finally:
        shared.advance(-25 * 3600)
        shared.set(iterator_seconds=300.0)


def test_a_stream_that_is_deleted_is_no_loss_and_one_that_is_made_anew_is_begun_again(stream, shared):
    """AWS says that the shard is missing. A consumer that accepts losses would never read the shard again."""
    answers = put_all(stream)
    shard = answers[0].shard
    reader = stream.reader(shard, None)
    all_read(reader)
    shared.client().delete_stream(StreamName=stream.name)
    with pytest.raises(StreamError, match=f"kinesis://{REGION}/{stream.name}: there is no such stream"):
        reader.next()
    shared.create(stream.name, shards=2)
    anew = [(answer.sequence, *RECORDS[at]) for at, answer in enumerate(put_all(stream)) if answer.shard == shard]
    with pytest.raises(StreamError, match=r"was made anew.*deliver consume --from-oldest"):
        stream.reader(shard, answers[0].sequence).next()
    assert [(read.sequence, read.key, read.data) for read in all_read(reader)] == anew


def test_a_reader_that_had_read_all_loses_nothing_when_it_is_trimmed(stream, shared):
    put_all(stream)
    shard = stream.shards()[0].name
    reader = stream.reader(shard, None)
    all_read(reader)
    shared.trim(stream.name, keep=0)
    put_all(stream)
    shared.set(iterator_seconds=-1.0)
    reader.next()
    shared.set(iterator_seconds=300.0)
    assert all_read(reader)


def test_a_reader_far_behind_says_when_the_next_records_are_gone(stream, shared, monkeypatch):
    """Its iterator is valid, and goes on with what is left without a word."""
    monkeypatch.setattr(kinesis_reader, "BYTES_A_SECOND", 1_000_000_000)
    shared.set(shard_bytes=100_000_000, shard_read_bytes=100_000_000)
    shared.advance(-25 * 3600)  # what is stored now has the age of the retention
    try:
        for _ in range(3):
            shard = put_all(stream, [Record("same", bytes(900_000))] * 10)[0].shard
        reader = stream.reader(shard, None)
        first = reader.next()
        assert first.records
        assert first.behind > 0
        assert reader.next().records  # the last record is still there
        shared.trim(stream.name, keep=1)
        with pytest.raises(RecordsLostError, match=shard):
            all_read(reader)
    finally:
        shared.advance(25 * 3600)
        shared.set(shard_bytes=1_000_000, shard_read_bytes=2 * 1024 * 1024)


def test_reads_keep_to_five_and_two_megabytes_a_second(stream, shared):
    shared.set(calls_limited=True, shard_bytes=100_000_000)
    put_all(stream, [Record("low", bytes(900_000))] * 4)
    try:
        before = shared.account().errors.get("ProvisionedThroughputExceededException", 0)
        reader = stream.reader(next(shard.name for shard in stream.shards() if hash_key("low") <= shard.high), None)
        for _ in range(7):
            reader.next()
        assert shared.account().errors.get("ProvisionedThroughputExceededException", 0) == before
    finally:
        shared.set(calls_limited=False, shard_bytes=1_000_000)


# How it is reached


def test_a_server_with_an_unknown_certificate_is_refused_until_it_is_trusted(monkeypatch, one_answer, tmp_path):
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    for error, words in ((StreamError, "AWS_CA_BUNDLE"), (AmbiguousError, "answered 500")):
        url = one_answer(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", context)
        monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", url)
        with KinesisStream(REGION, "any") as stream, pytest.raises(error, match=words):
            stream.put(RECORDS)
        monkeypatch.setenv("AWS_CA_BUNDLE", certificate)


def test_requests_go_by_the_proxy_of_the_environment(monkeypatch, one_answer):
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", "http://kinesis.nowhere.test")
    monkeypatch.setenv("http_proxy", one_answer(b"HTTP/1.1 503 By the proxy\r\nContent-Length: 0\r\n\r\n"))
    with KinesisStream(REGION, "any") as stream, pytest.raises(AmbiguousError, match="answered 503"):
        stream.put(RECORDS)
