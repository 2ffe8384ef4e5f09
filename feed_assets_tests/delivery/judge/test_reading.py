"""The judge: iterators, pages, limits of reading, retention."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from feed_assets_tests.delivery.judge.asking import failure, ids, iterator, read


def test_each_type_of_iterator_begins_where_the_api_says(client, stream):
    def put(data: bytes) -> str:
        record = {"Data": data, "PartitionKey": "k", "ExplicitHashKey": "0"}
        return client.put_records(StreamName=stream, Records=[record])["Records"][0]["SequenceNumber"]

    first, shard = put(b"1"), ids(1)[0]
    time.sleep(0.002)
    between = datetime.now(UTC)
    time.sleep(0.002)
    second = put(b"2")
    assert read(client, stream, shard) == [b"1", b"2"]
    assert read(client, stream, shard, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=second) == [b"2"]
    assert read(client, stream, shard, "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=first) == [b"2"]
    assert read(client, stream, shard, "AT_TIMESTAMP", Timestamp=between) == [b"2"]
    latest = iterator(client, stream, shard, "LATEST")
    put(b"3")
    answer = client.get_records(ShardIterator=latest)
    assert ([record["Data"] for record in answer["Records"]], answer["MillisBehindLatest"]) == ([b"3"], 0)


def test_a_position_that_cannot_be_is_refused(client, stream):
    shard, other = ids(2)
    sequence = client.put_record(StreamName=stream, Data=b"", PartitionKey="k", ExplicitHashKey="0")["SequenceNumber"]
    where = {"StreamName": stream, "ShardIteratorType": "AT_SEQUENCE_NUMBER"}
    invalid = ("InvalidArgumentException", 400)
    assert failure(client.get_shard_iterator, **where, ShardId=other, StartingSequenceNumber=sequence) == invalid
    assert failure(client.get_shard_iterator, **where, ShardId=shard, StartingSequenceNumber="7") == invalid
    assert failure(client.get_shard_iterator, **where, ShardId=shard) == invalid
    assert failure(client.get_records, ShardIterator="AAAA") == invalid
    assert failure(client.get_shard_iterator, ShardId=shard, ShardIteratorType="LATEST") == invalid
    later = {"ShardId": shard, "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": datetime.now(UTC) + timedelta(days=1)}
    assert failure(client.get_shard_iterator, StreamName=stream, **later) == invalid


def test_to_readers_a_shard_is_missing_whatever_is(judge):
    judge.stop_clock()
    judge.create("brief", shards=2)
    client, (shard, other) = judge.client(), ids(2)

    def missing(call, **given) -> str:
        with pytest.raises(client.exceptions.ResourceNotFoundException) as caught:
            call(**given)
        return caught.value.response["Error"]["Message"]

    def answer(stream: str, shard: str) -> str:
        return f"Shard {shard} in stream {stream} under account 123456789012 does not exist"

    latest = {"ShardIteratorType": "LATEST"}
    for name, each in (("nowhere", shard), ("brief", ids(9)[8])):
        assert missing(client.get_shard_iterator, StreamName=name, ShardId=each, **latest) == answer(name, each)
    of_shard, of_other = iterator(client, "brief", shard, "LATEST"), iterator(client, "brief", other, "LATEST")
    client.split_shard(StreamName="brief", ShardToSplit=shard, NewStartingHashKey="1000")
    judge.advance(25 * 3600)
    gone = {"StreamName": "brief", "ShardId": shard}
    assert missing(client.get_shard_iterator, **gone, **latest) == answer("brief", shard)

    judge.set(iterator_seconds=1e9)
    client.delete_stream(StreamName="brief")
    assert missing(client.get_records, ShardIterator=of_other) == answer("brief", other)
    judge.create("brief")
    assert missing(client.get_records, ShardIterator=of_other) == answer("brief", other)
    client.put_record(StreamName="brief", Data=b"new", PartitionKey="k")
    assert [each["Data"] for each in client.get_records(ShardIterator=of_shard)["Records"]] == [b"new"]


def test_a_page_ends_at_the_limit_and_says_how_far_the_rest_is_behind(client, stream):
    records = [{"Data": b"%d" % number, "PartitionKey": "k", "ExplicitHashKey": "0"} for number in range(5)]
    client.put_records(StreamName=stream, Records=records)
    time.sleep(0.005)
    page = client.get_records(ShardIterator=iterator(client, stream, ids(1)[0]), Limit=3)
    assert [record["Data"] for record in page["Records"]] == [b"0", b"1", b"2"]
    assert page["MillisBehindLatest"] >= 5
    rest = client.get_records(ShardIterator=page["NextShardIterator"])
    assert [record["Data"] for record in rest["Records"]] == [b"3", b"4"]
    assert (rest["MillisBehindLatest"], "ChildShards" in rest) == (0, False)
    over = {"ShardIterator": rest["NextShardIterator"], "Limit": 10_001}
    assert failure(client.get_records, **over) == ("InvalidArgumentException", 400)


def test_a_shard_may_be_read_five_times_and_two_mebibytes_a_second(judge):
    judge.stop_clock()
    judge.create("read")
    client, exceeded = judge.client(), ("ProvisionedThroughputExceededException", 400)
    begin = iterator(client, "read", ids(1)[0])
    for _ in range(5):
        client.get_records(ShardIterator=begin)
    assert failure(client.get_records, ShardIterator=begin) == exceeded
    for number in range(12):
        client.put_record(StreamName="read", Data=b"%x" % number * 900_000, PartitionKey="k")
        judge.advance(2)
    page = client.get_records(ShardIterator=begin)
    assert sum(len(record["Data"]) for record in page["Records"]) < 10 * 1024**2
    assert failure(client.get_records, ShardIterator=begin) == exceeded
    judge.advance(3)
    assert failure(client.get_records, ShardIterator=begin) == exceeded
    judge.advance(2)
    assert client.get_records(ShardIterator=page["NextShardIterator"])["MillisBehindLatest"] == 0


def test_an_iterator_expires_after_the_time_that_the_test_sets(judge):
    judge.stop_clock()
    judge.create("expiring")
    client = judge.client()
    begin = iterator(client, "expiring", ids(1)[0])
    judge.advance(299)
    again = client.get_records(ShardIterator=begin)["NextShardIterator"]
    judge.advance(2)
    assert failure(client.get_records, ShardIterator=begin) == ("ExpiredIteratorException", 400)
    judge.set(iterator_seconds=1)
    assert failure(client.get_records, ShardIterator=again) == ("ExpiredIteratorException", 400)


def test_records_older_than_the_retention_are_gone_without_a_word(judge):
    judge.stop_clock()
    judge.create("old")
    client, shard = judge.client(), ids(1)[0]
    first = client.put_record(StreamName="old", Data=b"1", PartitionKey="k")["SequenceNumber"]
    judge.advance(20 * 3600)
    client.put_record(StreamName="old", Data=b"2", PartitionKey="k")
    assert read(client, "old", shard) == [b"1", b"2"]
    judge.advance(5 * 3600)
    assert read(client, "old", shard) == [b"2"]
    assert read(client, "old", shard, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=first) == [b"2"]
    client.increase_stream_retention_period(StreamName="old", RetentionPeriodHours=48)
    assert read(client, "old", shard) == [b"2"]
    client.put_record(StreamName="old", Data=b"3", PartitionKey="k")
    judge.advance(1)
    assert judge.trim("old", keep=1) == 1
    assert read(client, "old", shard) == [b"3"]
    assert [stored.data for stored in judge.log] == [b"1", b"2", b"3"]
