"""What the tests of the judge ask it by boto3."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

LAST = 2**128 - 1
"""The last hash key."""


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


def arn(client, stream: str) -> str:
    return client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]
