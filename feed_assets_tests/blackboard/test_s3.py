"""What S3 adds to the port: the requests each operation costs, what others put there, and large files."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, IncompleteReadError

from feed_assets.blackboard.listing import list_all, list_folders
from feed_assets.blackboard.port import AlreadyExistsError, UnavailableError
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets_tests.blackboard.shown import keys

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

SMALLEST_PART = 5 * 1024 * 1024

_buckets = (f"s3-{number}" for number in itertools.count())


@pytest.fixture
def bucket(client: S3Client) -> str:
    name = next(_buckets)
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def blackboard(client: S3Client, bucket: str) -> S3Blackboard:
    return S3Blackboard(client, bucket, "base")


@pytest.fixture
def sent(client: S3Client) -> Iterator[list[str]]:
    """The requests that go out from now on, by the names S3 has for them."""
    requests: list[str] = []

    def record(model: Any, **_: object) -> None:
        requests.append(model.name)

    client.meta.events.register("before-call.s3", record)
    yield requests
    client.meta.events.unregister("before-call.s3", record)


# -- requests --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda b, _: b.page("a/"), ["ListObjectsV2"]),
        (lambda b, _: b.page("a/", after="a/x", folders=True), ["ListObjectsV2"]),
        (lambda b, _: b.read("a/b"), ["GetObject"]),
        (lambda b, _: b.read("a/b", limit=1), ["GetObject"]),
        (lambda b, _: b.create("a/c", b"1"), ["PutObject"]),
        (lambda b, _: b.replace("a/b", b"1", tag=b.tag_of(b"content")), ["PutObject"]),
        (lambda b, file: b.upload("a/c", file), ["PutObject"]),
        (lambda b, _: b.copy("a/b", "a/c"), ["HeadObject", "HeadObject", "CopyObject"]),
        (lambda b, _: b.delete("a/b"), ["DeleteObject"]),
        (lambda b, _: b.delete(*(f"a/{number}" for number in range(1001))), ["DeleteObjects"] * 2),
        (lambda b, _: b.delete("a/c", "a/b", "a/\x01"), ["DeleteObject", "DeleteObjects"]),
        (lambda b, _: (b.tag_of(b""), b.uri("a/b")), []),
    ],
)
def test_an_operation_costs_the_requests_it_says(
    blackboard: S3Blackboard,
    sent: list[str],
    tmp_path: Path,
    operation: Callable[[S3Blackboard, Path], object],
    expected: list[str],
):
    (tmp_path / "file").write_bytes(b"uploaded")
    blackboard.create("a/b", b"content")
    sent.clear()
    operation(blackboard, tmp_path / "file")
    assert sent == expected


# -- prefixes and what others put there ------------------------------------------------------------


def test_a_prefix_ends_at_its_slash_and_none_is_the_whole_bucket(client: S3Client, bucket: str):
    whole = S3Blackboard(client, bucket)
    for prefix in ("base", "base2", "base/deeper"):
        S3Blackboard(client, bucket, prefix).create("x", b"")
    assert keys(whole) == ["base/deeper/x", "base/x", "base2/x"]
    assert keys(S3Blackboard(client, bucket, "base")) == ["deeper/x", "x"]
    assert keys(S3Blackboard(client, bucket, "base/")) == ["deeper/x", "x"]
    assert whole.uri("base/x") == f"s3://{bucket}/base/x"


def test_directory_markers_of_others_are_objects_and_can_be_deleted(
    client: S3Client, bucket: str, blackboard: S3Blackboard
):
    for marker in ("base/", "base/a/", "base/a/b/"):
        client.put_object(Bucket=bucket, Key=marker, Body=b"")
    assert keys(blackboard) == ["a/", "a/b/"]
    blackboard.delete("a/b/", "a/")
    assert keys(blackboard) == []


def test_the_tag_is_the_md5_of_the_content_except_for_what_came_in_parts(client: S3Client, bucket: str, tmp_path: Path):
    blackboard = S3Blackboard(client, bucket, part_bytes=SMALLEST_PART)
    assert blackboard.create("a", b"3").tag == blackboard.tag_of(b"3") == "eccbc87e4b5ce2fe28308fd9f2a7baf3"
    (tmp_path / "large").write_bytes(bytes(SMALLEST_PART + 1))
    assert blackboard.upload("b", tmp_path / "large").tag != blackboard.tag_of(bytes(SMALLEST_PART + 1))


@pytest.mark.parametrize(
    ("code", "advice", "transient"),
    [("AccessDenied", "Allow this user to list the bucket", False), ("InternalError", "Try again", True)],
)
def test_a_key_that_is_refused_among_many_is_an_error(
    client: S3Client, blackboard: S3Blackboard, code: str, advice: str, transient: bool
):
    def refuse(parsed: dict[str, object], **_: object) -> None:
        parsed["Errors"] = [{"Key": "base/a", "Code": code, "Message": "no"}]

    client.meta.events.register("after-call.s3.DeleteObjects", refuse)
    try:
        with pytest.raises(UnavailableError, match=advice) as error:
            blackboard.delete("a", "b")
        assert error.value.transient is transient
    finally:
        client.meta.events.unregister("after-call.s3.DeleteObjects", refuse)


# -- keys that must be encoded on the way -------------------------------------------------------------

ODD_NAMES = [
    *("a b", " a ", "a+b", "a%b", "a%20b", "%2e%2e", "..%2fb", "a%2Fb", "a|b", "a=b&c=d", "a;b?c#d", "[a]{b}*", "a:b"),
    *("a'\"b", "<a>", "a,b", "~a", "$a@!()`", "ü", "u\u0308", "\u65e5\u672c", "\U0001f600", "a\u2028b"),
    *("a\u200fb", "\ufeffa", "...", "..a", "a.", "\u2024\u2024", "\uff0e\uff0e", "\u2025"),
    *("x" * 200, "/".join(["y" * 200] * 4)),
]  # fmt: skip


@pytest.mark.parametrize("server", ["versitygw", "ceph"], indirect=True)
def test_any_legal_name_is_a_key_of_its_own(client: S3Client, bucket: str):
    blackboard = S3Blackboard(client, bucket, "base \u00e9+%")
    for number, name in enumerate(ODD_NAMES):
        key = f"p/{name}/f"
        written = blackboard.create(key, b"%d" % number)
        assert blackboard.read(key).data == b"%d" % number
        blackboard.replace(key, b"2", tag=written.tag)
        blackboard.copy(key, f"copies/{name}/f")
    expected = sorted((f"copies/{name}/f" for name in ODD_NAMES), key=str.encode)
    assert [entry.key for entry in list_all(blackboard, "copies/")] == expected
    assert set(list_folders(blackboard, "copies/")) == {name.split("/")[0] for name in ODD_NAMES}
    for first, second in itertools.pairwise(expected):
        assert blackboard.page("copies/", after=first).entries[0].key == second
    blackboard.delete(*expected)
    assert {entry.key for entry in list_all(blackboard, "")} == {f"p/{name}/f" for name in ODD_NAMES}


# -- large files -----------------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * (2 * SMALLEST_PART // 256) + b"and a rest")
    return path


def test_a_large_file_is_uploaded_in_parts(client: S3Client, server: str, bucket: str, large: Path, sent: list[str]):
    blackboard = S3Blackboard(client, bucket, part_bytes=SMALLEST_PART)
    uploaded = blackboard.upload("a/b", large)
    assert sent == ["HeadObject", "CreateMultipartUpload", *["UploadPart"] * 3, "CompleteMultipartUpload"] + (
        # Ceph answers without the tag, so it is asked for.
        ["HeadObject"] if server == "ceph" else []
    )
    content = blackboard.read("a/b")
    assert content.data == large.read_bytes()
    assert (uploaded.size, uploaded.tag) == (content.entry.size, content.entry.tag)


def test_a_large_object_is_copied_in_parts_by_the_store(
    client: S3Client, server: str, bucket: str, large: Path, sent: list[str]
):
    blackboard = S3Blackboard(client, bucket, copy_bytes=SMALLEST_PART)
    blackboard.upload("a", large)
    sent.clear()
    copied = blackboard.copy("a", "b")
    assert [each for each in sent if each != "HeadObject"] == [
        "CreateMultipartUpload",
        *["UploadPartCopy"] * 3,
        "CompleteMultipartUpload",
    ]
    content = blackboard.read("b")
    assert content.data == large.read_bytes()
    assert (copied.size, copied.tag) == (content.entry.size, content.entry.tag)
    with pytest.raises(AlreadyExistsError, match="b"):
        blackboard.copy("a", "b")


def test_a_download_whose_connection_breaks_goes_on_where_it_broke(
    client: S3Client, bucket: str, large: Path, tmp_path: Path
):
    blackboard = S3Blackboard(client, bucket)
    blackboard.upload("a", large)
    ranges = []

    def break_off(parsed: dict[str, Any], **_: object) -> None:
        ranges.append(parsed.get("ContentRange"))
        if len(ranges) <= 2:
            parsed["Body"] = Broken(parsed["Body"])

    client.meta.events.register("after-call.s3.GetObject", break_off)
    try:
        entry = blackboard.download("a", tmp_path / "copy")
    finally:
        client.meta.events.unregister("after-call.s3.GetObject", break_off)
    assert (tmp_path / "copy").read_bytes() == large.read_bytes()
    assert entry.tag == blackboard.page("").entries[0].tag
    size = large.stat().st_size
    assert ranges == [None, *(f"bytes {n * 1024 * 1024}-{size - 1}/{size}" for n in (1, 2))]


class Broken:
    """The body of an answer whose connection breaks after a MiB."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def iter_chunks(self, _: int) -> Iterator[bytes]:
        yield self._body.read(1024 * 1024)
        raise IncompleteReadError(actual_bytes=1, expected_bytes=2)

    def close(self) -> None:
        self._body.close()


def test_a_large_file_never_overwrites_and_leaves_no_parts(client: S3Client, bucket: str, large: Path):
    blackboard = S3Blackboard(client, bucket, part_bytes=SMALLEST_PART)
    blackboard.create("a/b", b"first")
    with pytest.raises(AlreadyExistsError, match="a/b"):
        blackboard.upload("a/b", large)
    assert blackboard.read("a/b").data == b"first"
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)


def test_uploads_of_killed_writers_are_removed_below_a_prefix_when_they_are_old(
    client: S3Client, server: str, bucket: str
):
    blackboard = S3Blackboard(client, bucket, "base")
    for key in ("base/feed/a", "base/feed/b", "base/other/a"):
        client.create_multipart_upload(Bucket=bucket, Key=key)
    if server == "moto":  # it dates all uploads alike
        assert blackboard.abort_uploads("feed/", before=datetime(2000, 1, 1, tzinfo=UTC)) == 0
    now = datetime.now(UTC)
    assert blackboard.abort_uploads("feed/", before=now - timedelta(hours=1)) == (2 if server == "moto" else 0)
    assert blackboard.abort_uploads("feed/", before=now + timedelta(hours=1)) == (0 if server == "moto" else 2)
    assert [each["Key"] for each in client.list_multipart_uploads(Bucket=bucket)["Uploads"]] == ["base/other/a"]


def test_an_upload_that_somebody_else_ends_meanwhile_does_not_keep_the_others_from_being_removed(
    client: S3Client, bucket: str
):
    blackboard = S3Blackboard(client, bucket)
    for key in ("a", "b"):
        client.create_multipart_upload(Bucket=bucket, Key=key)

    def another_retention_comes_first(params: dict[str, Any], **_: object) -> None:
        client.meta.events.unregister("provide-client-params.s3.AbortMultipartUpload", another_retention_comes_first)
        client.abort_multipart_upload(**params)

    client.meta.events.register("provide-client-params.s3.AbortMultipartUpload", another_retention_comes_first)
    assert blackboard.abort_uploads("", before=datetime.now(UTC) + timedelta(days=365)) == 1
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)


def test_an_upload_in_parts_that_loses_at_the_end_leaves_no_parts(
    client: S3Client, server: str, bucket: str, large: Path, request: pytest.FixtureRequest
):
    if server == "ceph":
        request.applymarker(pytest.mark.xfail(reason="Ceph ignores If-None-Match when an upload in parts completes"))
    blackboard = S3Blackboard(client, bucket, part_bytes=SMALLEST_PART)

    def another_writer_comes_first(**_: object) -> None:
        client.put_object(Bucket=bucket, Key="a/b", Body=b"first")

    client.meta.events.register_first("before-call.s3.CompleteMultipartUpload", another_writer_comes_first)
    try:
        with pytest.raises(AlreadyExistsError, match="a/b"):
            blackboard.upload("a/b", large)
    finally:
        client.meta.events.unregister("before-call.s3.CompleteMultipartUpload", another_writer_comes_first)
    assert blackboard.read("a/b").data == b"first"
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)


def test_an_upload_in_parts_that_cannot_be_cleared_away_ends_with_what_went_wrong_first(
    client: S3Client, bucket: str, large: Path, caplog: pytest.LogCaptureFixture
):
    def stop(**_: object) -> None:
        raise KeyboardInterrupt

    def refuse(**_: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "AbortMultipartUpload")

    handlers = {"before-call.s3.UploadPart": stop, "before-call.s3.AbortMultipartUpload": refuse}
    for event, handler in handlers.items():
        client.meta.events.register_first(event, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            S3Blackboard(client, bucket, part_bytes=SMALLEST_PART).upload("a/b", large)
    finally:
        for event, handler in handlers.items():
            client.meta.events.unregister(event, handler)
    (upload,) = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert upload["UploadId"] in caplog.text


def test_a_pipe_is_refused_by_name_as_a_request_may_have_to_be_sent_again(blackboard: S3Blackboard, tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with suppress(BrokenPipeError):
            pipe.write_bytes(b"content")

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(OSError, match=f"{pipe} cannot be read again"):
        blackboard.upload("a", pipe)
    writer.join()
    assert keys(blackboard) == []
