"""A feed in a bucket whose objects are encrypted with a key of KMS: their ETags tell nothing of their content.

The server is moto, an emulator. It takes the bucket's encryption, but computes ETags as for plain objects, so that here
each encrypted object gets an ETag of its own, as with AWS, where it is a digest of what the key has encrypted.
"""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from moto.s3.models import FakeKey

from feed_assets.blackboard.port import AlreadyExistsError, ConflictError
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets.file_feed import Feed, invalidate, is_latest, publish_files, require_latest, verify
from feed_assets.file_feed import reading as reading_of_manifests
from feed_assets.sources.raw import read_set
from feed_assets_tests.blackboard.recording import RecordingBlackboard

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
LATER = NOW + timedelta(hours=2)
DAY = "2018-05-20"

_buckets = (f"encrypted-{number}" for number in itertools.count())


@dataclass(frozen=True, slots=True)
class Encrypted:
    """A feed in an encrypted bucket; `board` keeps account of requests."""

    board: RecordingBlackboard

    @property
    def feed(self) -> Feed:
        return Feed(self.board, "ads/v1.0")

    def requests(self) -> Counter[str]:
        counts = Counter(self.board.counts())
        self.board.forget()
        return counts


@pytest.fixture
def encrypted(s3_client: S3Client, monkeypatch: pytest.MonkeyPatch) -> Encrypted:
    plain = FakeKey.etag.fget

    def etag(key: Any) -> str:
        if key.encryption == "aws:kms" and not key._etag:
            key._etag = uuid.uuid4().hex
        return str(plain(key))

    monkeypatch.setattr(FakeKey, "etag", property(etag))
    bucket = next(_buckets)
    s3_client.create_bucket(Bucket=bucket)
    rule: Any = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "a-key"}}
    s3_client.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
    board = S3Blackboard(s3_client, bucket, "base")
    assert board.create("x", b"1").tag != board.tag_of(b"1")
    board.delete("x")
    return Encrypted(RecordingBlackboard(board))


def published(encrypted: Encrypted, tmp_path: Path, content: str, now: datetime = NOW) -> Any:
    (tmp_path / "a.csv").write_text(content)
    return publish_files(encrypted.feed, DAY, [tmp_path / "a.csv"], now=now, owner="me")


def test_an_update_is_published_found_compared_and_withdrawn(encrypted: Encrypted, tmp_path: Path):
    first = published(encrypted, tmp_path, "one")
    encrypted.requests()
    held = require_latest(encrypted.feed, DAY, now=LATER)
    assert (held.name, encrypted.requests()) == (first.name, {"page": 1, "read": 1})
    assert is_latest(held)
    assert encrypted.requests() == {"page": 1, "read": 1}

    second = published(encrypted, tmp_path, "two", NOW + timedelta(hours=1))
    assert not is_latest(held)
    assert require_latest(encrypted.feed, DAY, now=LATER).name == second.name
    assert verify(encrypted.feed, now=LATER) == []
    invalidate(encrypted.feed, DAY, second.name, reason="wrong", author="me", now=LATER)
    assert require_latest(encrypted.feed, DAY, now=LATER).name == first.name


def test_a_manifest_is_read_once_as_long_as_it_stays_the_same(
    encrypted: Encrypted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    published(encrypted, tmp_path, "one")
    monkeypatch.setattr(reading_of_manifests, "TICK", timedelta(seconds=-60))  # as a minute later
    encrypted.requests()
    assert [(require_latest(encrypted.feed, DAY, now=LATER).name, encrypted.requests()["read"]) for _ in range(3)] == [
        ("20180521.160000", reads) for reads in (1, 0, 0)
    ]


def test_a_change_of_a_raw_file_is_seen_and_an_unchanged_one_is_not(encrypted: Encrypted):
    key = f"raw/ads/shop/{DAY}/00/part-0.parquet"
    created = encrypted.board.create(key, b"rows")
    before = read_set(encrypted.board, "ads/shop", date.fromisoformat(DAY))
    assert read_set(encrypted.board, "ads/shop", date.fromisoformat(DAY)) == before
    assert [file.tag for file in before.files] == [created.tag]
    replaced = encrypted.board.replace(key, b"rows", tag=created.tag)
    assert [file.tag for file in read_set(encrypted.board, "ads/shop", date.fromisoformat(DAY)).files] == [replaced.tag]
    with pytest.raises(ConflictError):
        encrypted.board.replace(key, b"other", tag=created.tag)


def test_a_copied_base_has_no_fault(encrypted: Encrypted, tmp_path: Path):
    update = published(encrypted, tmp_path, "one")
    for entry in encrypted.board.page("").entries:
        encrypted.board.copy(entry.key, f"copy/{entry.key}")
    copy = Feed(encrypted.board, "copy/ads/v1.0")
    assert [(each.kind, each.update) for each in verify(copy, now=NOW + timedelta(hours=1))] == [
        ("copied", update.name)
    ]


class SendsTwice(RecordingBlackboard):
    """Sends each file a second time, as boto3 does if the first answer is lost."""

    before = b""

    def upload(self, key: str, source: Path) -> Any:
        if self.before:
            self.create(key, self.before)
        else:
            super().upload(key, source)
        return super().upload(key, source)


def test_a_file_that_was_sent_twice_is_recognised_by_its_content(encrypted: Encrypted, tmp_path: Path):
    twice = SendsTwice(encrypted.board)
    update = published(Encrypted(twice), tmp_path, "one")
    assert [file.size for file in update.files] == [3]
    twice.before = b"two"
    with pytest.raises(AlreadyExistsError):
        published(Encrypted(twice), tmp_path, "one", NOW + timedelta(hours=1))
