"""Own requests of PutRecords are those that boto3 would send, and are signed as botocore signs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.delivery.streams.kinesis import encoded
from feed_assets.delivery.streams.port import Record
from feed_assets.delivery.streams.signing import Keys, signed

KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=256) | st.sampled_from(
    ["🦜", '"', "\\", "\n\x00\x7f", "\u2028", "é" * 256, "</script>", "x" * 256, "🦜" * 128]
)
RECORDS = st.lists(st.builds(Record, KEYS, st.binary(max_size=300)), min_size=1, max_size=20)
NAMES = st.text("abcXYZ019_.-", min_size=1, max_size=128)


@cache
def capturing() -> tuple[Any, list[bytes]]:
    """A client of boto3 that sends nothing, and the bodies that it would send."""
    client = boto3.client(
        "kinesis",
        region_name="eu-west-1",
        endpoint_url="http://127.0.0.1:1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    bodies: list[bytes] = []

    def capture(request: Any, **_: Any) -> AWSResponse:
        bodies.append(request.body)
        response = AWSResponse(request.url, 200, HTTPHeaders(), None)
        response._content = b'{"FailedRecordCount":0,"Records":[]}'
        return response

    client.meta.events.register("before-send.kinesis.PutRecords", capture)
    return client, bodies


@given(NAMES, RECORDS)
def test_a_request_says_what_boto3_says(stream: str, records: list[Record]) -> None:
    client, bodies = capturing()
    client.put_records(
        StreamName=stream, Records=[{"Data": record.data, "PartitionKey": record.key} for record in records]
    )
    assert json.loads(encoded(stream, records)) == json.loads(bodies.pop())


@given(
    st.binary(max_size=200),
    st.tuples(st.text("ABC019", min_size=1), st.text("abc/+9", min_size=1), st.none() | st.text("abc/+=", min_size=1)),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(["kinesis.eu-west-1.amazonaws.com", "127.0.0.1:4567"]),
)
def test_a_request_is_signed_as_botocore_signs_it(
    body: bytes, keys: tuple[str, str, str | None], now: datetime, host: str
) -> None:
    headers = {
        "Content-Type": "application/x-amz-json-1.1",
        "Host": host,
        "X-Amz-Target": "Kinesis_20131202.PutRecords",
    }
    own = signed(headers, body, Keys(*keys), region="eu-west-1", service="kinesis", now=now)

    request = AWSRequest("POST", f"http://{host}/", headers=headers, data=body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.auth.get_current_datetime", lambda: now.replace(tzinfo=None))
        SigV4Auth(Credentials(*keys), "kinesis", "eu-west-1").add_auth(request)
    assert own["Authorization"] == request.headers["Authorization"]
    assert own["X-Amz-Date"] == request.headers["X-Amz-Date"]
    assert own.get("X-Amz-Security-Token") == request.headers.get("X-Amz-Security-Token")
