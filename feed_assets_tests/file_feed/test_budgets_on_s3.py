"""The protocol's budgets at the wire: each request that leaves for a real server counts, repeated ones as well."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from feed_assets.blackboard.port import PAGE_SIZE
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets.file_feed import (
    Facts,
    Feed,
    claim,
    invalidate,
    is_latest,
    latest_of_all,
    publish,
    publish_files,
    require_latest,
    stage,
    staged_files,
    update_name,
)
from feed_assets_tests.servers.versitygw import Versitygw

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
DAY = "2018-05-20"

_buckets = (f"budgets-{number}" for number in itertools.count())


@dataclass(frozen=True, slots=True)
class Wire:
    """A feed in a bucket of its own, and the requests that were sent for it: LIST, GET, PUT, POST, DELETE."""

    client: S3Client
    feed: Feed
    sent: Counter[str]

    def forget(self) -> None:
        self.sent.clear()


@pytest.fixture
def wire(versitygw: Versitygw) -> Wire:
    return holding(versitygw, {})


def holding(server: Versitygw, objects: Mapping[str, bytes]) -> Wire:
    bucket = next(_buckets)
    server.place(bucket, {f"base/ads/v1.0/{key}": content for key, content in objects.items()})
    client = server.client()
    sent: Counter[str] = Counter()

    def count(request: Any, **_: object) -> None:
        sent["LIST" if "list-type=2" in urlsplit(request.url).query else request.method] += 1

    client.meta.events.register("before-send.s3", count)
    return Wire(client, Feed(S3Blackboard(client, bucket, "base"), "ads/v1.0"), sent)


def manifests(count: int) -> Iterator[str]:
    """So many updates without files, one every ten minutes, the last one now."""
    return (f"{DAY}/{update_name(NOW - timedelta(minutes=10) * number)}/_SUCCESS" for number in range(count))


@pytest.mark.parametrize("keys", [999, 1_000, 1_001, 10_000])
def test_the_latest_and_whether_it_still_is_cost_a_listing_each_whatever_the_history(
    versitygw: Versitygw, keys: int
) -> None:
    wire = holding(versitygw, dict.fromkeys(manifests(keys), b"0"))
    held = require_latest(wire.feed, DAY, now=NOW)
    assert held.name == "20180521.160000"
    assert wire.sent == {"LIST": 1}
    wire.forget()
    assert is_latest(held)
    assert wire.sent == {"LIST": 1}
    invalidate(wire.feed, DAY, held.name, reason="wrong", author="me", now=NOW)
    wire.forget()
    assert not is_latest(held)
    assert wire.sent == {"LIST": 1}


def test_a_manifest_whose_tag_does_not_tell_its_content_costs_one_read_more(wire: Wire) -> None:
    first = wire.feed.blackboard.uri(f"ads/v1.0/{DAY}/20180521.160000/_SUCCESS").removeprefix("s3://")
    bucket, _, key = first.partition("/")
    place = {"Bucket": bucket, "Key": key}
    # As a program writes it that sends everything in parts.
    upload = wire.client.create_multipart_upload(**place)["UploadId"]
    part = wire.client.upload_part(**place, UploadId=upload, PartNumber=1, Body=b"0")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    wire.client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload=parts)
    wire.forget()
    assert require_latest(wire.feed, DAY, now=NOW).name == "20180521.160000"
    assert wire.sent == {"LIST": 1, "GET": 1}


def test_the_latest_of_ten_thousand_partitions_costs_the_pages_of_their_keys(versitygw: Versitygw) -> None:
    wire = holding(versitygw, {f"p{number:05}/20180521.160000/_SUCCESS": b"0" for number in range(10_000)})
    assert len(latest_of_all(wire.feed, now=NOW)) == 10_000
    assert wire.sent == {"LIST": 10_000 // PAGE_SIZE + 2}


def test_publishing_costs_a_put_for_each_file_and_five_more_and_three_listings(wire: Wire, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / str(number)).touch()
    publish_files(wire.feed, DAY, sorted(tmp_path.iterdir()), now=NOW, owner="me")
    # The claim, the record before and after the manifest, the manifest, the entry in the change log.
    assert wire.sent == {"PUT": 3 + 5, "LIST": 3}


def test_each_step_of_a_run_that_stages_and_publishes_reads_at_most_once(wire: Wire) -> None:
    claimed = claim(wire.feed, DAY, now=NOW, owner="me")
    assert wire.sent == {"LIST": 1, "PUT": 1}
    staged = stage(claimed, staged_files(claimed, 0), Facts(), now=NOW)
    assert wire.sent == {"LIST": 2, "PUT": 2}
    publish(staged, now=NOW)
    assert wire.sent == {"LIST": 3, "PUT": 2 + 4}
