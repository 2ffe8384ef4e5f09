"""Bytes that are damaged between this machine and a real server: never stored, never returned."""

from __future__ import annotations

import http.client
import itertools
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.config import Config

from feed_assets.blackboard.port import UnavailableError
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets_tests.listening import serving

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

    from feed_assets_tests.servers.server import S3Server

PART = 5 * 1024 * 1024

Fault = Callable[[bytes], bytes]

_buckets = (f"checksums-{number}" for number in itertools.count())


def damaged(body: bytes) -> bytes:
    return body[:-1] + bytes([body[-1] ^ 1])


def damaged_and_cut_off(body: bytes) -> bytes:
    return damaged(body[: len(body) // 2])


class Line(ThreadingHTTPServer):
    """A line to a server that does these things to the next bodies that it carries there and back."""

    daemon_threads = True

    def __init__(self, server: S3Server) -> None:
        super().__init__(("127.0.0.1", 0), _LineHandler)
        self.server = server
        self.there: Iterator[Fault] = iter(())
        self.back: Iterator[Fault] = iter(())

    def client(self, **settings: Any) -> S3Client:
        return boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{self.server_address[1]}",
            region_name=self.server.region,
            aws_access_key_id=self.server.access_key,
            aws_secret_access_key=self.server.secret_key,
            config=Config(**settings),
        )


class _LineHandler(BaseHTTPRequestHandler):
    server: Line
    protocol_version = "HTTP/1.1"

    def carry(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if sent and self.command == "PUT":
            sent = next(self.server.there, bytes)(sent)
        behind = http.client.HTTPConnection("127.0.0.1", self.server.server.port)
        behind.request(self.command, self.path, sent, dict(self.headers))
        answer = behind.getresponse()
        received = answer.read()
        behind.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"transfer-encoding", "content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(received)))
        self.end_headers()
        if self.command != "HEAD":
            carried = next(self.server.back, bytes)(received) if received and self.command == "GET" else received
            self.wfile.write(carried)
            self.close_connection = len(carried) < len(received)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = carry  # noqa: N815 - http.server looks for these names

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(params=["versitygw", "ceph"], scope="module")
def line(request: pytest.FixtureRequest) -> Iterator[Line]:
    with serving(Line(request.getfixturevalue(request.param))) as line:
        yield line


@pytest.fixture
def blackboard(line: Line) -> S3Blackboard:
    line.there = line.back = iter(())
    bucket = next(_buckets)
    client = line.client()
    client.create_bucket(Bucket=bucket)
    return S3Blackboard(client, bucket, part_bytes=PART)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * (PART // 256) + b"and a rest")
    return path


def keeps_no_checksums(line: Line, request: pytest.FixtureRequest) -> None:
    if line.server.name == "ceph":
        request.applymarker(pytest.mark.xfail(reason="Ceph 16 knows no checksums", strict=True))


@pytest.mark.parametrize("secured", ["by the signature", "by the checksum, as over TLS"])
def test_bytes_that_are_damaged_on_the_way_to_the_store_are_refused(
    line: Line,
    blackboard: S3Blackboard,
    large: Path,
    secured: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
):
    first = blackboard.create("there", b"first")
    if secured != "by the signature":
        keeps_no_checksums(line, request)
        # boto3 leaves the content out of the signature where the connection protects it.
        monkeypatch.setattr(S3SigV4Auth, "_should_sha256_sign_payload", lambda *_: False)
    (large.parent / "small").write_bytes(b"content")
    for write in (
        lambda: blackboard.create("a", b"content"),
        lambda: blackboard.replace("there", b"content", tag=first.tag),
        lambda: blackboard.upload("a", large.parent / "small"),
        lambda: blackboard.upload("a", large),
    ):
        line.there = iter([damaged])
        with pytest.raises(UnavailableError, match="damaged on the way: try again") as raised:
            write()
        assert raised.value.transient
    assert [(entry.key, entry.tag) for entry in blackboard.page("").entries] == [("there", first.tag)]
    assert blackboard.abort_uploads("", before=first.modified.replace(year=9999)) == 0


def test_bytes_that_are_damaged_on_the_way_back_are_fetched_again(
    line: Line, blackboard: S3Blackboard, large: Path, tmp_path: Path, request: pytest.FixtureRequest
):
    keeps_no_checksums(line, request)
    blackboard.create("a", b"12")
    blackboard.upload("large", large)
    for limit in (None, 2, 64):
        line.back = iter([damaged, damaged])
        assert blackboard.read("a", limit=limit).data == b"12"
    # The checksum is that of the whole, and no answer is the whole: what was fetched before the cut is damaged.
    for number, faults in enumerate(([damaged], [damaged_and_cut_off], [damaged_and_cut_off, damaged])):
        line.back = iter(faults)
        blackboard.download("large", tmp_path / str(number))
        assert (tmp_path / str(number)).read_bytes() == large.read_bytes()


def test_a_client_that_sends_no_checksums_uploads_and_copies_all_the_same(
    line: Line, blackboard: S3Blackboard, large: Path, tmp_path: Path
):
    bucket = blackboard.uri("").split("/")[2]
    for number, when in enumerate(("when_required", "when_supported")):
        board = S3Blackboard(line.client(request_checksum_calculation=when), bucket, part_bytes=PART)
        board.upload(f"{number}", large)
        board.copy(f"{number}", f"copy of {number}")
        board.download(f"copy of {number}", tmp_path / when)
        assert (tmp_path / when).read_bytes() == large.read_bytes()


def test_bytes_that_are_always_damaged_are_an_error_and_never_returned(
    line: Line, blackboard: S3Blackboard, tmp_path: Path, request: pytest.FixtureRequest
):
    keeps_no_checksums(line, request)
    blackboard.create("a", b"12")
    for read in (lambda: blackboard.read("a"), lambda: blackboard.download("a", tmp_path / "copy")):
        line.back = itertools.repeat(damaged)
        with pytest.raises(UnavailableError, match="6 times the connection broke, or the bytes did not fit") as raised:
            read()
        assert raised.value.transient
