"""The judge: what is put, and the limits of requests and shards."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter

import pytest

from feed_assets_tests.delivery.judge.asking import LAST, arn, failure, ids, iterator, numbered, read


def test_what_is_put_is_read_in_order_of_sequence_numbers_and_is_in_the_log(shared, client, stream):
    answers = client.put_records(StreamName=stream, Records=numbered(500))["Records"]
    stored = {record.sequence: record for record in shared.log.of(stream)}
    assert [(stored[a["SequenceNumber"]].data, stored[a["SequenceNumber"]].shard) for a in answers] == [
        (b"%d" % number, answer["ShardId"]) for number, answer in enumerate(answers)
    ]
    found = Counter()
    for shard in ids(2):
        records = client.get_records(ShardIterator=iterator(client, stream, shard))["Records"]
        numbers = [int(record["SequenceNumber"]) for record in records]
        assert numbers == sorted(numbers)
        assert {len(str(number)) for number in numbers} == {56}
        found.update(record["Data"] for record in records)
        own = [(r.data, r.key) for r in stored.values() if r.shard == shard]
        assert [(r["Data"], r["PartitionKey"]) for r in records] == own
    assert found == Counter(b"%d" % number for number in range(500))


def test_a_record_goes_to_the_shard_whose_range_holds_the_md5_of_its_key_or_its_explicit_hash_key(client, stream):
    for key in ("a", "b", "ключ", "k" * 256):
        position = int.from_bytes(hashlib.md5(key.encode()).digest())
        expected = ids(2)[position > LAST // 2]
        assert client.put_record(StreamName=stream, Data=b"", PartitionKey=key)["ShardId"] == expected
    for explicit, number in (("0", 0), (str(LAST // 2), 0), (str(LAST // 2 + 1), 1), (str(LAST), 1)):
        put = client.put_record(StreamName=stream, Data=b"", PartitionKey="a", ExplicitHashKey=explicit)
        assert put["ShardId"] == ids(2)[number]


def test_a_request_over_the_limits_is_refused_whole_and_is_a_violation(shared, client, stream):
    shared.client().update_max_record_size(StreamARN=arn(client, stream), MaxRecordSizeInKiB=10240)
    mebibyte = 1024**2
    too_much = [
        ("ValidationException", {"Records": numbered(501)}),
        ("ValidationException", {"Records": []}),
        ("ValidationException", {"Records": [*numbered(1), {"Data": b"", "PartitionKey": "k" * 257}]}),
        ("ValidationException", {"Records": [*numbered(1), {"Data": b"", "PartitionKey": ""}]}),
        ("ValidationException", {"Records": [{"Data": b"x" * (10 * mebibyte), "PartitionKey": "k"}]}),
        ("InvalidArgumentException", {"Records": [{"Data": b"x" * (2 * mebibyte), "PartitionKey": "k"}] * 5}),
        ("ValidationException", {"Records": [{"Data": b"", "PartitionKey": "k", "ExplicitHashKey": "01"}]}),
        ("InvalidArgumentException", {"Records": [{"Data": b"", "PartitionKey": "k", "ExplicitHashKey": str(2**128)}]}),
    ]
    before = shared.account().violations
    for number, (kind, request) in enumerate(too_much, start=1):
        assert failure(client.put_records, StreamName=stream, **request) == (kind, 400)
        assert shared.account().violations == before + number
    assert not list(shared.log.of(stream))


def test_a_record_may_be_as_large_as_the_stream_allows_with_its_key(client, stream):
    largest = {"Data": b"x" * (1024**2 - 1), "PartitionKey": "k"}
    assert client.put_records(StreamName=stream, Records=[largest])["FailedRecordCount"] == 0
    larger = {"Data": b"x" * 1024**2, "PartitionKey": "k"}
    assert failure(client.put_records, StreamName=stream, Records=[larger]) == ("ValidationException", 400)
    client.update_max_record_size(StreamARN=arn(client, stream), MaxRecordSizeInKiB=1025)
    other_shard = {
        **larger,
        "ExplicitHashKey": "0" if int.from_bytes(hashlib.md5(b"k").digest()) > LAST // 2 else str(LAST),
    }
    assert client.put_records(StreamName=stream, Records=[other_shard])["FailedRecordCount"] == 0


def test_what_exceeds_a_shards_second_is_throttled_record_by_record_and_counted(judge):
    judge.stop_clock()
    judge.create("limited", shards=2)
    client = judge.client()
    low = [{"Data": b"x" * 10, "PartitionKey": "k", "ExplicitHashKey": "0"}] * 500
    high = [{"Data": b"x" * 399_999, "PartitionKey": "k", "ExplicitHashKey": str(LAST)}] * 3
    answers = [client.put_records(StreamName="limited", Records=low) for _ in range(3)]
    assert [answer["FailedRecordCount"] for answer in answers] == [0, 0, 500]
    assert answers[2]["Records"][0] == {
        "ErrorCode": "ProvisionedThroughputExceededException",
        "ErrorMessage": "Rate exceeded for shard shardId-000000000000 in stream limited under account 123456789012.",
    }
    codes = [record.get("ErrorCode") for record in client.put_records(StreamName="limited", Records=high)["Records"]]
    assert codes == [None, None, "ProvisionedThroughputExceededException"]
    refused = {"StreamName": "limited", "Data": b"", "PartitionKey": "k", "ExplicitHashKey": "0"}
    assert failure(client.put_record, **refused) == ("ProvisionedThroughputExceededException", 400)
    judge.advance(1)
    assert client.put_records(StreamName="limited", Records=[*low[:500]])["FailedRecordCount"] == 0
    account = judge.account()
    first, second = (account.shards["limited"][shard] for shard in ids(2))
    assert (first.total.records, first.total.bytes, first.total.throttled) == (1500, 1500 * 11, 501)
    assert (second.total.records, second.total.bytes, second.total.throttled) == (2, 800_000, 1)
    assert sum(each.records for each in first.seconds.values()) == 1500
    assert first.total.throttled_percent == pytest.approx(100 * 501 / 2001)
    assert account.record_errors == {"ProvisionedThroughputExceededException": 501 - 1 + 1}
    assert account.violations == 0


def test_data_is_base64_of_any_bytes_and_nothing_else(shared, client, stream):
    data = bytes(range(256))
    client.put_record(StreamName=stream, Data=data, PartitionKey="k", ExplicitHashKey="0")
    assert read(client, stream, ids(1)[0]) == [data]
    assert [base64.b64encode(stored.data) for stored in shared.log.of(stream)] == [base64.b64encode(data)]
