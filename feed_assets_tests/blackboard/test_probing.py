"""What a probe says of real servers, and of servers that ignore conditions or have another time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest

from feed_assets.blackboard import probing
from feed_assets.blackboard.port import UnavailableError
from feed_assets.blackboard.s3 import S3Blackboard

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

    from feed_assets_tests.servers.versitygw import Versitygw

PUT = "create-if-absent on PUT"
PARTS = "create-if-absent on completing an upload in parts"
COPY = "create-if-absent on copy"
REPLACE = "replace-if-match on PUT"
START_AFTER = "StartAfter in listings"
EMPTY = "signed uploads of empty objects over HTTP"

MISSING = {"moto": [COPY], "versitygw": [COPY], "ceph": [PARTS, COPY, EMPTY]}

_buckets = (f"probing-{number}" for number in itertools.count())


@pytest.fixture
def blackboard(client: S3Client) -> Iterator[S3Blackboard]:
    bucket = next(_buckets)
    client.create_bucket(Bucket=bucket)
    yield S3Blackboard(client, bucket, "base")
    assert "Contents" not in client.list_objects_v2(Bucket=bucket), "what the probe wrote is removed"
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)


def missing(blackboard: S3Blackboard) -> list[str]:
    return [each.name for each in blackboard.probe().conditions if not each.honoured]


def test_a_probe_names_the_conditions_that_a_server_does_not_honour(server: str, blackboard: S3Blackboard):
    found = blackboard.probe()
    assert [each.name for each in found.conditions] == [PUT, PARTS, COPY, REPLACE, START_AFTER, EMPTY]
    assert [each.name for each in found.conditions if not each.honoured] == MISSING[server]
    assert [name for name in MISSING[server] if not any(name in warning for warning in found.warnings())] == []
    assert len(found.warnings()) == len(MISSING[server]), "the clocks agree: it is one machine"


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_a_server_that_ignores_all_conditions_is_found_out(client: S3Client, blackboard: S3Blackboard):
    def ignore(params: dict[str, Any], **_: object) -> None:
        for condition in ("IfNoneMatch", "IfMatch", "StartAfter"):
            params.pop(condition, None)

    client.meta.events.register("before-parameter-build.s3", ignore)
    try:
        assert missing(blackboard) == [PUT, PARTS, COPY, REPLACE, START_AFTER]
    finally:
        client.meta.events.unregister("before-parameter-build.s3", ignore)


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
@pytest.mark.parametrize(("ahead", "warning"), [(90, "90 s behind"), (-90, "90 s ahead of"), (0, None)])
def test_a_clock_that_differs_from_the_servers_is_named_by_a_probe_and_once_by_any_other_request(
    versitygw: Versitygw,
    blackboard: S3Blackboard,
    ahead: int,
    warning: str | None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    def other_time(parsed: dict[str, Any], **_: object) -> None:
        date = datetime.now(UTC) + timedelta(seconds=ahead)
        parsed["ResponseMetadata"]["HTTPHeaders"]["date"] = format_datetime(date, usegmt=True)

    monkeypatch.setattr(probing, "_warned", set())
    client = versitygw.client()
    client.meta.events.register_first("after-call.s3", other_time)
    skewed = S3Blackboard(client, *blackboard.uri("").removeprefix("s3://").removesuffix("/").split("/"))
    for _ in range(2):
        assert skewed.page("").entries == ()
    (*_, last) = skewed.probe().warnings()
    if warning is None:
        assert ("clock" not in last, caplog.messages) == (True, [])
    else:
        assert warning in last
        assert [warning.split()[-1] in each for each in caplog.messages] == [True]


@pytest.mark.parametrize("server", ["versitygw"], indirect=True)
def test_a_bucket_that_is_not_there_is_unavailable(client: S3Client):
    with pytest.raises(UnavailableError, match="There is no bucket 'no-such-bucket'"):
        S3Blackboard(client, "no-such-bucket").probe()
