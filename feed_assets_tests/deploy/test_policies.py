"""The policies of `deploy` on a RADOS gateway: each user can do its job; those of `policies`, and nothing else."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from feed_assets.blackboard.port import NotFoundError, UnavailableError
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets.file_feed import (
    Column,
    Facts,
    Feed,
    Policy,
    Watch,
    carry_out,
    invalidate,
    log_page,
    plan,
    publish_files,
    require_latest,
    verify,
)
from feed_assets.notices.keeping import keep, kept_reports
from feed_assets.notices.tables import Report

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

    from feed_assets_tests.servers.ceph import Ceph

DEPLOY = Path(__file__).parents[2] / "deploy"
NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
DAY = "2018-05-20"
PART = 5 * 1024 * 1024

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket with a feed below `ads/`, which the users' policies name, and one below `clicks/`."""

    name: str
    owner: S3Client
    reader: S3Client
    writer: S3Client

    def board(self, client: S3Client, prefix: str = "ads") -> S3Blackboard:
        return S3Blackboard(client, self.name, prefix, part_bytes=PART, copy_bytes=PART)

    def contents(self) -> dict[str, str]:
        return {entry.key: entry.tag for entry in self.board(self.owner, "").page("").entries}


@pytest.fixture(scope="module")
def bucket(ceph: Ceph, tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    name, owner = f"policies-{next(_numbers)}", ceph.client()
    owner.create_bucket(Bucket=name)
    users = {
        role: ceph.client_of(role, policy(role).replace("BUCKET", name).replace("PREFIX", "ads"))
        for role in ("reader", "writer")
    }
    file = tmp_path_factory.mktemp("files") / "a.csv"
    file.write_text("rows")
    bucket = Bucket(name, owner, users["reader"], users["writer"])
    for prefix in ("ads", "clicks", "ads-of-others"):
        publish_files(Feed(bucket.board(owner, prefix), "v1.0"), DAY, [file], now=NOW, owner="owner")
    return bucket


def policy(role: str) -> str:
    return (DEPLOY / f"policies/{role}.json").read_text()


def emr_policy(role: str, bucket: str) -> str:
    """A policy of `emr` for this bucket, without the services that only AWS has."""
    text = (DEPLOY / f"emr/{role}-policy.json").read_text().replace("MY-BUCKET", bucket).replace("MY-BASE", "ads")
    whole = json.loads(text)
    kept = [each for each in whole["Statement"] if each["Action"][0].startswith("s3:")]
    return json.dumps({**whole, "Statement": kept})


def large(folder: Path) -> Path:
    (folder / "large").write_bytes(bytes(PART + 1))
    return folder / "large"


def test_a_writer_publishes_withdraws_and_removes_and_a_reader_follows(bucket: Bucket, tmp_path: Path):
    feed = Feed(bucket.board(bucket.writer), "v1.0")
    read = Feed(bucket.board(bucket.reader), "v1.0")
    first = require_latest(read, DAY, now=NOW)
    later = NOW + timedelta(hours=1)
    begun = datetime.now(UTC) - timedelta(minutes=1)
    second = publish_files(feed, DAY, [large(tmp_path)], now=later, owner="writer")
    assert require_latest(read, DAY, now=later).name == second.name
    read.blackboard.download(second.key("large"), tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_size == PART + 1
    feed.blackboard.copy(second.key("large"), "v1.0/copied")
    feed.blackboard.delete("v1.0/copied")
    invalidate(feed, DAY, second.name, reason="wrong", author="writer", now=later)
    assert require_latest(read, DAY, now=later).name == first.name
    watch = Watch.from_plain(None, now=begun)
    logged = log_page(read, watch.position, now=datetime.now(UTC)).new
    assert {entry.act for entry in logged if entry.update == second.name} == {"published", "invalidated"}

    third = publish_files(feed, DAY, [], now=later + timedelta(hours=1), owner="writer")
    far = datetime.now(UTC) + timedelta(days=900)
    removals = plan(feed, Policy(1, timedelta(0), timedelta(0)), now=far)
    carry_out(feed, removals, now=far)
    assert [entry.key for entry in feed.blackboard.page(f"v1.0/{DAY}/").entries] == [third.key("_SUCCESS")]
    assert feed.blackboard.abort_uploads("", before=far) == 0
    assert verify(read, now=later + timedelta(hours=1)) == []
    with pytest.raises(NotFoundError):
        read.blackboard.read("v1.0/missing")


def test_a_reader_cannot_write(bucket: Bucket, tmp_path: Path):
    board, before = bucket.board(bucket.reader), bucket.contents()
    key = next(key for key in before if key.startswith(f"ads/v1.0/{DAY}")).removeprefix("ads/")
    for write in (
        lambda: board.create("v1.0/new", b"1"),
        lambda: board.replace(key, b"1", tag=before[f"ads/{key}"]),
        lambda: board.upload("v1.0/new", large(tmp_path)),
        lambda: board.copy(key, "v1.0/new"),
        lambda: board.delete(key),
        lambda: board.delete(key, "v1.0/new"),
    ):
        with pytest.raises(UnavailableError, match=r"AccessDenied|403"):
            write()
    assert bucket.contents() == before


@pytest.mark.parametrize("role", ["reader", "writer"])
@pytest.mark.parametrize("other", ["clicks", "ads-of-others"])
def test_nobody_reads_or_touches_what_is_below_another_prefix(bucket: Bucket, other: str, role: str, tmp_path: Path):
    client: S3Client = getattr(bucket, role)
    board, whole, before = bucket.board(client, other), bucket.board(client, ""), bucket.contents()
    key = next(key for key in before if key.startswith(f"{other}/v1.0/{DAY}")).removeprefix(f"{other}/")
    upload = bucket.owner.create_multipart_upload(Bucket=bucket.name, Key=f"{other}/upload")["UploadId"]
    for attempt in (
        lambda: board.page(""),
        lambda: board.read(key),
        lambda: board.create("v1.0/new", b"1"),
        lambda: board.replace(key, b"1", tag=before[f"{other}/{key}"]),
        lambda: board.upload("v1.0/new", large(tmp_path)),
        lambda: board.copy(key, "v1.0/new"),
        lambda: whole.copy(f"{other}/{key}", "ads/v1.0/stolen"),
        lambda: board.delete(key),
        lambda: whole.delete(f"{other}/{key}", "ads/missing"),
        lambda: board.abort_uploads("", before=datetime.now(UTC) + timedelta(days=1)),
    ):
        with pytest.raises(UnavailableError, match=r"AccessDenied|403"):
            attempt()
    assert bucket.contents() == before
    bucket.owner.abort_multipart_upload(Bucket=bucket.name, Key=f"{other}/upload", UploadId=upload)


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*/*.json")), ids=lambda path: path.stem)
def test_a_condition_on_the_prefix_lets_requests_for_one_object_pass(path: Path):
    # They have no prefix. Without the right to list, S3 answers 403 for a missing object, and not 404.
    conditions = [each.get("Condition", {}) for each in json.loads(path.read_text())["Statement"]]
    operators = {operator for each in conditions for operator, keys in each.items() if "s3:prefix" in keys}
    assert operators == {"StringLikeIfExists"}


def test_a_job_of_emr_publishes_a_new_feed_and_dagster_reads_it_and_keeps_reports(ceph: Ceph, tmp_path: Path):
    name, owner = f"policies-{next(_numbers)}", ceph.client()
    owner.create_bucket(Bucket=name)
    job, dagster = (
        S3Blackboard(ceph.client_of(f"emr-{role}", emr_policy(role, name)), name, "ads") for role in ("job", "dagster")
    )
    (tmp_path / "a.csv").write_text("rows")
    facts = Facts(schema=(Column("ad", "string"),))

    update = publish_files(Feed(job, "v1.0"), DAY, [tmp_path / "a.csv"], now=NOW, owner="job", facts=facts)
    report = Report("1", dagster.uri(""), DAY, NOW, {"sources": []})
    keep(dagster, DAY, lambda: [report], now=NOW, owner="dagster")

    assert require_latest(Feed(dagster, "v1.0"), DAY, now=NOW).name == update.name
    assert [each.id for each in kept_reports(dagster, DAY, now=NOW)] == ["1"]
    with pytest.raises(UnavailableError, match=r"AccessDenied|403"):
        dagster.create("v1.0/new", b"1")
