"""The judge itself, asked by boto3; and compared with moto where moto does as AWS does."""

from __future__ import annotations

import base64
import hashlib
import http.client
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError
from moto import mock_aws

from feed_assets_tests.delivery.judge.faults import Rule
from feed_assets_tests.delivery.judge.running import ACCESS_KEY, SECRET_KEY, JudgeServer, judging, refused, throttled
from feed_assets_tests.listening import family, listening

LAST = 2**128 - 1


@pytest.fixture(scope="module")
def shared(slow_start, tmp_path_factory) -> Iterator[JudgeServer]:
    """A judge for tests that look at streams of their own only."""
    with judging(tmp_path_factory.mktemp("judge")) as started:
        started.set(calls_limited=False)
        yield started


@pytest.fixture
def client(shared: JudgeServer):
    """Sends also what boto3 would refuse."""
    return shared.client(config=Config(parameter_validation=False, retries={"max_attempts": 0}))


@pytest.fixture
def stream(shared: JudgeServer, request: pytest.FixtureRequest) -> str:
    """A new stream with two shards."""
    return shared.create(f"stream-{hashlib.md5(request.node.nodeid.encode()).hexdigest()}", shards=2)


def numbered(count: int) -> list[dict]:
    return [{"Data": b"%d" % number, "PartitionKey": f"key-{number}"} for number in range(count)]


def ids(count: int) -> list[str]:
    return [f"shardId-{number:012d}" for number in range(count)]


def failure(call, **parameters) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def iterator(client, stream: str, shard: str, kind: str = "TRIM_HORIZON", **more) -> str:
    answer = client.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType=kind, **more)
    return answer["ShardIterator"]


def read(client, stream: str, shard: str, kind: str = "TRIM_HORIZON", **more) -> list[bytes]:
    answer = client.get_records(ShardIterator=iterator(client, stream, shard, kind, **more))
    return [record["Data"] for record in answer["Records"]]


# Records


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


def arn(client, stream: str) -> str:
    return client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]


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


# Reading


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
    unknown = {"StreamName": stream, "ShardId": ids(9)[8], "ShardIteratorType": "LATEST"}
    assert failure(client.get_shard_iterator, **unknown) == ("ResourceNotFoundException", 400)
    later = {"ShardId": shard, "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": datetime.now(UTC) + timedelta(days=1)}
    assert failure(client.get_shard_iterator, StreamName=stream, **later) == invalid


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


# Shards


def shape(answer: dict) -> list[tuple]:
    return [
        (
            shard["ShardId"],
            shard["HashKeyRange"],
            shard.get("ParentShardId"),
            shard.get("AdjacentParentShardId"),
            "EndingSequenceNumber" in shard["SequenceNumberRange"],
        )
        for shard in answer["Shards"]
    ]


@mock_aws
def test_shards_splits_merges_and_refusals_are_those_of_moto(shared, client, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    moto = boto3.client("kinesis", region_name="us-east-1", config=Config(parameter_validation=False))

    def both(operation: str, **parameters):
        def asked(one):
            try:
                answer = getattr(one, operation)(**parameters)
            except ClientError as error:
                return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
            return shape(answer) if "Shards" in answer else None

        answers = asked(client), asked(moto)
        assert answers[0] == answers[1]
        return answers[0]

    for shards in (1, 2, 3, 7, 10):
        both("create_stream", StreamName=f"m{shards}", ShardCount=shards)
        assert len(both("list_shards", StreamName=f"m{shards}")) == shards
    for where in ("1000", str(LAST // 4)):
        open_shards = [shard for shard in shape(client.list_shards(StreamName="m3")) if not shard[4]]
        holder = min(
            (int(shard[1]["EndingHashKey"]), shard[0])
            for shard in open_shards
            if int(shard[1]["EndingHashKey"]) > int(where)
        )[1]
        both("split_shard", StreamName="m3", ShardToSplit=holder, NewStartingHashKey=where)
        both("list_shards", StreamName="m3")
    both("merge_shards", StreamName="m3", ShardToMerge=ids(2)[1], AdjacentShardToMerge=ids(3)[2])
    assert len(both("list_shards", StreamName="m3")) == 8
    assert both("describe_stream_summary", StreamName="none") == ("ResourceNotFoundException", 400)
    assert both("create_stream", StreamName="m1", ShardCount=1) == ("ResourceInUseException", 400)
    closed = {"StreamName": "m3", "ShardToSplit": ids(1)[0], "NewStartingHashKey": "2000"}
    assert both("split_shard", **closed) == ("InvalidArgumentException", 400)
    unknown = closed | {"ShardToSplit": ids(100)[99]}
    assert both("split_shard", **unknown) == ("ResourceNotFoundException", 400)
    outside = closed | {"StreamName": "m2", "ShardToSplit": ids(2)[1]}
    assert both("split_shard", **outside) == ("InvalidArgumentException", 400)
    apart = {"StreamName": "m7", "ShardToMerge": ids(1)[0], "AdjacentShardToMerge": ids(3)[2]}
    assert both("merge_shards", **apart) == ("InvalidArgumentException", 400)
    for hours in (23, 8761):
        operation = "decrease_stream_retention_period" if hours < 24 else "increase_stream_retention_period"
        assert both(operation, StreamName="m1", RetentionPeriodHours=hours) == ("InvalidArgumentException", 400)
    assert both("put_records", StreamName="m1", Records=numbered(501)) == ("ValidationException", 400)


def test_after_a_split_a_merge_puts_go_to_the_children_and_readers_find_them_at_the_end(client, stream):
    record = {"StreamName": stream, "PartitionKey": "k", "ExplicitHashKey": "5000"}
    old, other, low, high, merged = ids(5)
    client.put_record(**record, Data=b"before")
    client.split_shard(StreamName=stream, ShardToSplit=old, NewStartingHashKey="1000")
    assert client.put_record(**record, Data=b"between")["ShardId"] == high
    client.merge_shards(StreamName=stream, ShardToMerge=low, AdjacentShardToMerge=high)
    assert client.put_record(**record, Data=b"after")["ShardId"] == merged
    end = client.get_records(ShardIterator=iterator(client, stream, old))
    assert [found["Data"] for found in end["Records"]] == [b"before"]
    assert "NextShardIterator" not in end
    assert [(child["ShardId"], child["ParentShards"]) for child in end["ChildShards"]] == [(low, [old]), (high, [old])]
    assert end["ChildShards"][0]["HashKeyRange"] == {"StartingHashKey": "0", "EndingHashKey": "999"}
    end = client.get_records(ShardIterator=iterator(client, stream, high, "LATEST"))
    assert (end["Records"], [child["ParentShards"] for child in end["ChildShards"]]) == ([], [[low, high]])
    assert read(client, stream, merged) == [b"after"]
    assert "NextShardIterator" in client.get_records(ShardIterator=iterator(client, stream, other))


def test_shards_are_listed_in_pages_and_by_filter(judge):
    judge.create("filtered", shards=2)
    client = judge.client()

    def listed(**given) -> list[int]:
        return [int(shard["ShardId"][-12:]) for shard in client.list_shards(**given)["Shards"]]

    created = datetime.now(UTC)
    judge.advance(100)
    client.split_shard(StreamName="filtered", ShardToSplit=ids(1)[0], NewStartingHashKey="1000")
    judge.advance(100)
    filters = {
        "AT_LATEST": [1, 2, 3],
        "AT_TRIM_HORIZON": [0, 1],
        "FROM_TRIM_HORIZON": [0, 1, 2, 3],
    }
    for kind, expected in filters.items():
        assert listed(StreamName="filtered", ShardFilter={"Type": kind}) == expected
    for kind, seconds, expected in (
        ("AT_TIMESTAMP", 50, [0, 1]),
        ("AT_TIMESTAMP", 150, [1, 2, 3]),
        ("FROM_TIMESTAMP", 50, [0, 1, 2, 3]),
        ("FROM_TIMESTAMP", 150, [1, 2, 3]),
    ):
        at = {"Type": kind, "Timestamp": created + timedelta(seconds=seconds)}
        assert listed(StreamName="filtered", ShardFilter=at) == expected
    assert listed(StreamName="filtered", ShardFilter={"Type": "AFTER_SHARD_ID", "ShardId": ids(2)[1]}) == [2, 3]
    assert listed(StreamName="filtered", ExclusiveStartShardId=ids(3)[2]) == [3]
    page = client.list_shards(StreamName="filtered", MaxResults=3)
    assert listed(NextToken=page["NextToken"]) == [3]
    both = {"StreamName": "filtered", "NextToken": page["NextToken"]}
    assert failure(client.list_shards, **both) == ("InvalidArgumentException", 400)
    judge.advance(300)
    assert failure(client.list_shards, NextToken=page["NextToken"]) == ("ExpiredNextTokenException", 400)
    page = client.describe_stream(StreamName="filtered", Limit=1)["StreamDescription"]
    assert (len(page["Shards"]), page["HasMoreShards"]) == (1, True)
    judge.advance(25 * 3600)
    assert listed(StreamName="filtered") == [1, 2, 3]


@pytest.mark.parametrize(("count", "target"), [(3, 6), (6, 3), (4, 5), (4, 3), (1, 2), (2, 1), (7, 10)])
def test_a_new_number_of_shards_makes_equal_ranges_without_a_gap(shared, client, count: int, target: int):
    name = shared.create(f"resized-{count}-{target}", count)
    client.update_shard_count(StreamName=name, TargetShardCount=target, ScalingType="UNIFORM_SCALING")
    ranges = sorted(
        (int(shard["HashKeyRange"]["StartingHashKey"]), int(shard["HashKeyRange"]["EndingHashKey"]))
        for shard in client.list_shards(StreamName=name, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    )
    assert [start for start, _ in ranges] == [0, *(end + 1 for _, end in ranges[:-1])]
    assert (len(ranges), ranges[-1][1]) == (target, LAST)
    assert all(abs(end - start - 2**128 // target) < 100 for start, end in ranges)
    most = {"StreamName": name, "TargetShardCount": 2 * target + 1, "ScalingType": "UNIFORM_SCALING"}
    assert failure(client.update_shard_count, **most) == ("LimitExceededException", 400)


def test_a_stream_is_resharded_in_the_middle_of_a_request_when_the_test_has_ordered_it(judge):
    judge.create("growing")
    judge.when("growing", "UpdateShardCount", after_records=250, TargetShardCount=2, ScalingType="UNIFORM_SCALING")
    judge.when("growing", "DeleteStream", after_records=600)
    client = judge.client()
    shards = [each["ShardId"] for each in client.put_records(StreamName="growing", Records=numbered(500))["Records"]]
    assert set(shards[:250]) == {ids(1)[0]}
    assert set(shards[250:]) == {*ids(3)[1:]}
    client.put_records(StreamName="growing", Records=numbered(100))
    gone = {"StreamName": "growing", "Records": numbered(1)}
    assert failure(client.put_records, **gone) == ("ResourceNotFoundException", 400)
    assert [note["what"] for note in judge.log.notes()][-1] == "stream deleted"
    assert len(list(judge.log.of("growing"))) == 600


def test_a_stream_that_changes_says_so_until_it_has_changed(judge):
    judge.set(transition_seconds=0.3)
    client = judge.client()

    def status() -> str:
        return client.describe_stream_summary(StreamName="slow")["StreamDescriptionSummary"]["StreamStatus"]

    def until_active() -> None:
        while status() != "ACTIVE":
            time.sleep(0.06)  # 20 calls a second are allowed

    client.create_stream(StreamName="slow", ShardCount=1)
    assert status() == "CREATING"
    put = {"StreamName": "slow", "Data": b"", "PartitionKey": "k"}
    assert failure(client.put_record, **put) == ("ResourceNotFoundException", 400)
    until_active()
    split = {"StreamName": "slow", "ShardToSplit": ids(1)[0], "NewStartingHashKey": "1000"}
    client.split_shard(**split)
    assert status() == "UPDATING"
    assert failure(client.split_shard, **split) == ("ResourceInUseException", 400)
    assert client.put_record(**put)["ShardId"] == ids(1)[0]
    until_active()
    assert client.put_record(**put)["ShardId"] == ids(3)[2]


# Faults


def test_the_plan_says_which_requests_and_records_fail_and_the_log_which_were_stored(judge):
    judge.create("planned")
    judge.inject(
        Rule("cut_before", requests=[0]),
        Rule("cut_after", requests=[1]),
        Rule("cut_within", requests=[2]),
        Rule("error_before", requests=[3], error="ServiceUnavailable", status=503),
        Rule("error_after", requests=[4]),
        throttled(requests=[5]),
        refused("AccessDeniedException", requests=[6]),
        Rule("record_error_before", requests=[7], records=[0]),
        Rule("record_error_after", requests=[7], keys=["key-1"]),
    )
    client = judge.client()

    def put() -> object:
        try:
            answer = client.put_records(StreamName="planned", Records=numbered(3))
        except HTTPClientError:
            return "cut"
        except ClientError as error:
            return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        if "Records" not in answer:  # boto3 takes half of an answer for a whole one
            return "half"
        return [record.get("ErrorCode") for record in answer["Records"]]

    assert [put() for _ in range(9)] == [
        "cut",
        "cut",
        "half",
        ("ServiceUnavailable", 503),
        ("InternalFailure", 500),
        ("ProvisionedThroughputExceededException", 400),
        ("AccessDeniedException", 400),
        ["InternalFailure", "InternalFailure", None],
        [None, None, None],
    ]
    assert [(stored.data, stored.answered) for stored in judge.log] == [
        *[(b"0", False), (b"1", False), (b"2", False)] * 3,
        *[(b"1", False), (b"2", True)],
        *[(b"0", True), (b"1", True), (b"2", True)],
    ]
    account = judge.account()
    assert (account.unanswered.requests, account.unanswered.records) == (4, 10)
    assert account.faults == dict.fromkeys(("cut_before", "cut_after", "cut_within", "error_after"), 1) | {
        "error_before": 3,
        "record_error_before": 1,
        "record_error_after": 1,
    }
    assert account.violations == 0


def test_the_same_seed_gives_the_same_faults_at_the_chosen_rate(judge):
    judge.create("random")
    client = judge.client()

    def failed(seed: int) -> list[int]:
        judge.inject(Rule("record_error_before", rate=0.1), Rule("error_before", rate=0.2), seed=seed)
        judge.advance(1)
        found = []
        for request in range(20):
            try:
                answer = client.put_records(StreamName="random", Records=numbered(50))
            except ClientError:
                found.append(-1)
            else:
                found += [50 * request + n for n, each in enumerate(answer["Records"]) if "ErrorCode" in each]
        return found

    first = failed(1)
    assert failed(1) == first != failed(2)
    assert 1 <= first.count(-1) <= 10
    assert 40 <= len(first) <= 130


def test_a_client_that_leaves_before_a_late_answer_is_counted_as_gone(judge):
    judge.create("late")
    judge.inject(Rule("delay_after", seconds=0.5, times=1))
    impatient = judge.client(config=Config(read_timeout=0.1, retries={"max_attempts": 0}))
    with pytest.raises(HTTPClientError):
        impatient.put_records(StreamName="late", Records=numbered(3))
    impatient.close()
    while not judge.account().gone.requests:
        time.sleep(0.05)
    assert judge.account().gone.records == 3
    judge.inject(Rule("delay_before", seconds=0.2))
    begun = time.time()
    judge.client().put_record(StreamName="late", Data=b"waited", PartitionKey="k")
    assert list(judge.log)[-1].arrived >= begun + 0.2


def test_in_an_outage_connections_are_refused_and_afterwards_all_is_as_before(judge):
    judge.create("outage")
    client = judge.client()
    client.put_record(StreamName="outage", Data=b"before", PartitionKey="k")
    judge.outage(0.3)
    refused = 0
    while True:
        try:
            client.put_record(StreamName="outage", Data=b"after", PartitionKey="k")
        except (HTTPClientError, EndpointConnectionError):
            refused += 1
            time.sleep(0.02)
        else:
            if refused:
                break
    data = [stored.data for stored in judge.log]
    assert (data[0], set(data[1:])) == (b"before", {b"after"})


# Credentials


def test_only_a_right_signature_of_known_and_valid_credentials_is_let_in(shared):
    def listed(key: str = ACCESS_KEY, secret: str = SECRET_KEY, token: str | None = None):
        given = {"aws_access_key_id": key, "aws_secret_access_key": secret, "aws_session_token": token}
        return shared.client(**given).list_streams

    assert failure(listed(secret="wrong")) == ("InvalidSignatureException", 400)
    assert failure(listed(key="AKIAUNKNOWN")) == ("UnrecognizedClientException", 400)
    shared.know("ASIATEMPORARY", "secret", "token", expires_in=100)
    assert failure(listed("ASIATEMPORARY", "secret", "other")) == ("UnrecognizedClientException", 400)
    listed("ASIATEMPORARY", "secret", "token")()
    shared.advance(100)
    assert failure(listed("ASIATEMPORARY", "secret", "token")) == ("ExpiredTokenException", 400)
    shared.know("ASIATEMPORARY", "secret", "token-2", expires_in=100)
    listed("ASIATEMPORARY", "secret", "token-2")()
    kinds = [violation.kind for violation in shared.account().described]
    assert "InvalidSignatureException" in kinds
    assert "ExpiredTokenException" not in kinds


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({}, "MissingAuthenticationTokenException"),
        ({"Authorization": "Basic abc"}, "IncompleteSignatureException"),
        ({"X-Amz-Target": "DynamoDB_20120810.ListTables"}, "UnknownOperationException"),
        ({"Content-Type": "application/json"}, "UnknownOperationException"),
    ],
)
def test_a_request_that_is_none_of_the_api_is_refused(shared, headers: dict[str, str], kind: str):
    connection = http.client.HTTPConnection("127.0.0.1", shared.port)
    given = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "Kinesis_20131202.ListStreams"} | headers
    connection.request("POST", "/", b"{}", given)
    response = connection.getresponse()
    assert (response.status, response.headers["Content-Type"]) == (400, "application/x-amz-json-1.1")
    assert kind in response.read().decode()
    connection.close()


def test_calls_that_manage_streams_are_limited_as_in_an_account(judge):
    client = judge.client()
    codes = Counter()
    for _ in range(12):
        try:
            client.list_streams()
        except ClientError as error:
            codes[error.response["Error"]["Code"]] += 1
    assert set(codes) == {"LimitExceededException"}
    judge.advance(1)
    client.list_streams()


# The process


def test_the_log_outlives_a_killed_judge_and_a_torn_last_entry(judge):
    judge.create("kept")
    judge.client().put_records(StreamName="kept", Records=numbered(5))
    judge.kill()
    assert [stored.data for stored in judge.log.of("kept")] == [b"0", b"1", b"2", b"3", b"4"]
    content = judge.log.path.read_bytes()
    judge.log.path.write_bytes(content[:-1])
    assert len(list(judge.log)) == 4


def test_the_judge_listens_on_loopback_only_and_ends_when_told(shared, tmp_path):
    processes = [each for started in shared._processes for each in family(started.pid)]
    assert {address for _, address in listening(processes)} == {"loopback"}
    with judging(tmp_path) as started:
        process = started._processes[0]
        started.stop()
        assert process.returncode == -signal.SIGTERM


def test_a_control_that_the_judge_does_not_know_says_what_is_wrong(shared):
    with pytest.raises(ValueError, match="the_end"):
        shared.set(the_end=1)
    with pytest.raises(ValueError, match="It has: ready, faults"):
        shared._control("POST", "nothing", {})
    with pytest.raises(ValueError, match="Invalid enum value 'boom'"):
        shared.inject(Rule("boom"))


def test_data_is_base64_of_any_bytes_and_nothing_else(shared, client, stream):
    data = bytes(range(256))
    client.put_record(StreamName=stream, Data=data, PartitionKey="k", ExplicitHashKey="0")
    assert read(client, stream, ids(1)[0]) == [data]
    assert [base64.b64encode(stored.data) for stored in shared.log.of(stream)] == [base64.b64encode(data)]
