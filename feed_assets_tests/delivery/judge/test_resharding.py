"""The judge: splits, merges and lists of shards; compared with moto where moto does as AWS does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto import mock_aws

from feed_assets_tests.delivery.judge.asking import LAST, failure, ids, iterator, numbered, read
from feed_assets_tests.waiting import until


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
    for low, high in ((0, 2), (1, 0), (0, 0)):
        pair = {"ShardToMerge": ids(8)[low], "AdjacentShardToMerge": ids(8)[high]}
        assert both("merge_shards", StreamName="m7", **pair) == ("InvalidArgumentException", 400)
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
    judge.stop_clock()
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
    assert len(list(judge.log.of("growing"))) == judge.account().total("growing").records == 600


def test_an_on_demand_stream_is_resharded_by_the_test_only_and_at_the_time_that_it_says(judge):
    client = judge.client()
    client.create_stream(StreamName="demand", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    split = {"ShardToSplit": ids(1)[0], "NewStartingHashKey": "1000"}
    assert failure(client.split_shard, StreamName="demand", **split) == ("ValidationException", 400)
    judge.when("demand", "SplitShard", after_seconds=0.1, **split)
    judge.when("demand", "SplitShard", after_seconds=0.2, **split)
    refusal = until(lambda: [note for note in judge.log.notes() if note["what"] == "event refused"])
    assert "already been merged or split" in refusal[0]["message"]
    assert len(client.list_shards(StreamName="demand")["Shards"]) == 6


def test_a_stream_that_changes_says_so_until_it_has_changed(judge):
    judge.set(transition_seconds=0.3)
    client = judge.client()

    def status() -> str:
        return client.describe_stream_summary(StreamName="slow")["StreamDescriptionSummary"]["StreamStatus"]

    def until_active() -> None:
        until(lambda: status() == "ACTIVE", every=0.06)  # 20 calls a second are allowed

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
