"""What the answers of a store mean, and what is said where none comes."""

from __future__ import annotations

import os
import socket
import ssl
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config

from feed_assets.blackboard.listing import list_all, list_folders
from feed_assets.blackboard.port import (
    AlreadyExistsError,
    BlackboardError,
    ConflictError,
    NotFoundError,
    UnavailableError,
)
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets_tests.certificates import self_signed
from feed_assets_tests.listening import serving

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

SECRET = "wJalrXUtnFEMI-not-to-be-shown"

Answer = tuple[int, str] | None


class Scripted(ThreadingHTTPServer):
    """A store that gives the answers it was told, one for each request: a status and a code, or none at all."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _ScriptedHandler)
        self.answers: list[Answer] = []
        self.asked: list[str] = []

    def blackboard(self, **settings: Any) -> S3Blackboard:
        scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        client = boto3.client(
            "s3",
            endpoint_url=f"{scheme}://127.0.0.1:{self.server_address[1]}",
            region_name="us-east-1",
            aws_access_key_id="AKIDEXAMPLE",
            aws_secret_access_key=SECRET,
            config=Config(retries={"mode": "standard", "max_attempts": 2}, **settings),
        )
        return S3Blackboard(client, "bucket")


class _ScriptedHandler(BaseHTTPRequestHandler):
    server: Scripted
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.server.asked.append(self.command)
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.answers.pop(0)
        self.close_connection = True
        if answer is None:
            return
        status, code = answer
        body = f"<Error><Code>{code}</Code><Message>said the store</Message></Error>".encode() if code else b""
        self.send_response(status)
        self.send_header("ETag", '"tag"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_DELETE = answer  # noqa: N815 - http.server looks for these names

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def store() -> Iterator[Scripted]:
    with serving(Scripted()) as server:
        yield server


COLLIDED = (409, "ConditionalRequestConflict")
LOST = (412, "PreconditionFailed")
DONE = (200, "")


def test_a_write_that_collided_is_sent_again_until_the_store_decides(store: Scripted):
    store.answers = [COLLIDED, (409, "ACodeOfThisStore"), DONE]
    assert store.blackboard().create("a", b"1").tag == "tag"
    store.answers = [COLLIDED, LOST]
    with pytest.raises(AlreadyExistsError):
        store.blackboard().create("a", b"1")
    store.answers = [COLLIDED, DONE]
    assert store.blackboard().replace("a", b"1", tag="t").tag == "tag"
    store.answers = [COLLIDED, (500, "UnknownError"), LOST]
    with pytest.raises(ConflictError):
        store.blackboard().replace("a", b"1", tag="t")
    assert store.answers == []


def test_a_file_is_sent_whole_again_after_a_collision(store: Scripted, tmp_path: Path):
    (tmp_path / "file").write_bytes(b"content")
    store.answers = [COLLIDED, DONE]
    assert store.blackboard().upload("a", tmp_path / "file").size == 7
    assert store.asked == ["PUT", "PUT"]


def test_a_write_that_keeps_colliding_ends_with_an_error(store: Scripted):
    store.answers = [COLLIDED] * 6
    with pytest.raises(UnavailableError, match="Others keep writing"):
        store.blackboard().create("a", b"1")


@pytest.mark.parametrize("answer", [LOST, (404, "NoSuchKey")])
def test_an_object_that_changed_or_vanished_is_a_conflict(store: Scripted, answer: Answer):
    store.answers = [answer]
    with pytest.raises(ConflictError, match="s3://bucket/a"):
        store.blackboard().replace("a", b"", tag="t")


def test_a_create_whose_answer_was_lost_may_find_its_own_object(store: Scripted):
    """Why whoever must know reads the object back: the second request meets what the first one did."""
    store.answers = [None, LOST]
    with pytest.raises(AlreadyExistsError):
        store.blackboard().create("a", b"1")


def test_no_answer_at_all_is_unavailable_not_a_refusal(store: Scripted):
    store.answers = [None, None]
    with pytest.raises(UnavailableError, match=r"no answer from 127\.0\.0\.1:\d+"):
        store.blackboard().create("a", b"1")


@pytest.mark.parametrize("limit", [None, 65])
def test_a_body_that_breaks_off_is_read_again_and_is_unavailable_if_it_always_does(
    store: Scripted, monkeypatch: pytest.MonkeyPatch, limit: int | None
):
    lengths = ["100", "9"]

    def breaks_off(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("ETag", '"tag"')
        handler.send_header("Last-Modified", "Tue, 01 Jan 2019 00:00:00 GMT")
        handler.send_header("Content-Length", lengths.pop(0) if lengths else "100")
        handler.end_headers()
        handler.wfile.write(b"only this")
        handler.close_connection = True

    monkeypatch.setattr(_ScriptedHandler, "do_GET", breaks_off)
    assert store.blackboard().read("a", limit=limit).data == b"only this"
    with pytest.raises(UnavailableError, match="Could not read s3://bucket/a: 6 times the connection broke") as raised:
        store.blackboard().read("a", limit=limit)
    assert raised.value.transient


def test_a_body_that_tls_finds_damaged_is_read_again(store: Scripted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    certificate, key = self_signed(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    store.socket = tls.wrap_socket(store.socket, server_side=True)
    monkeypatch.setenv("AWS_CA_BUNDLE", certificate)
    damaged = [True, False, True, False]

    def damages(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(206 if handler.headers["Range"] else 200)
        handler.send_header("ETag", '"tag"')
        handler.send_header("Last-Modified", "Tue, 01 Jan 2019 00:00:00 GMT")
        body = b"all of this"[int(handler.headers.get("Range", "bytes=0-")[len("bytes=") : -1]) :]
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if damaged.pop(0):
            handler.wfile.write(body[:3])
            record = b"\x17\x03\x03\x00\x20" + bytes(32)  # of TLS 1.2 and later, with data that nobody has encrypted
            os.write(handler.connection.fileno(), record)
        else:
            handler.wfile.write(body)
        handler.close_connection = True

    monkeypatch.setattr(_ScriptedHandler, "do_GET", damages)
    assert store.blackboard().read("a").data == b"all of this"
    store.blackboard().download("a", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"all of this"
    assert damaged == []


KEY = (
    "<Contents><Key>p/a</Key><Size>1</Size><ETag>t</ETag>"
    "<LastModified>2019-01-01T00:00:00.000Z</LastModified></Contents>"
)
FOLDER = "<CommonPrefixes><Prefix>p/a/</Prefix></CommonPrefixes>"


@pytest.mark.parametrize(
    ("found", "listing", "first"),
    [(KEY, lambda board: list_all(board, "p/"), "p/a"), (FOLDER, lambda board: list_folders(board, "p/"), "p/a/")],
)
def test_a_listing_that_repeats_its_last_page_for_ever_ends_with_an_error(
    store: Scripted,
    monkeypatch: pytest.MonkeyPatch,
    found: str,
    listing: Callable[[S3Blackboard], Iterator[object]],
    first: str,
):
    starts: list[str | None] = []

    def repeats(handler: BaseHTTPRequestHandler) -> None:
        starts.append(parse_qs(urlsplit(handler.path).query).get("start-after", [None])[0])
        body = f"<ListBucketResult><IsTruncated>true</IsTruncated>{found}</ListBucketResult>".encode()
        handler.send_response(200 if len(starts) < 5 else 404)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    monkeypatch.setattr(_ScriptedHandler, "do_GET", repeats)
    listed = listing(store.blackboard())
    next(listed)
    with pytest.raises(UnavailableError, match=rf"list s3://bucket/p/: .*keys follow s3://bucket/{first}, .*"):
        next(listed)
    assert starts == [None, first]


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        ((403, "AccessDenied"), "Allow this user"),
        ((403, "InvalidAccessKeyId"), "Check the credentials"),
        ((403, "SignatureDoesNotMatch"), "Check the credentials"),
        ((400, "ExpiredToken"), "Log in again, and restart what runs already"),
        ((403, "RequestTimeTooSkewed"), "clock"),
        ((400, "InvalidBucketName"), "Correct the name of the bucket"),
        ((400, "KeyTooLongError"), "Use a shorter name"),
        ((404, "NoSuchBucket"), "There is no bucket 'bucket' at 127.0.0.1.*create it"),
        ((501, "NotImplemented"), "conditional writes and StartAfter"),
        ((418, "Teapot"), "Teapot .said the store."),
    ],
)
def test_an_error_says_what_was_tried_and_what_to_do(store: Scripted, tmp_path: Path, answer: Answer, advice: str):
    (tmp_path / "file").write_bytes(b"")
    operations: list[tuple[str, Callable[[S3Blackboard], object]]] = [
        ("list s3://bucket/p/", lambda b: b.page("p/")),
        ("read s3://bucket/a", lambda b: b.read("a")),
        ("create s3://bucket/a", lambda b: b.create("a", b"")),
        ("create s3://bucket/a", lambda b: b.upload("a", tmp_path / "file")),
        ("replace s3://bucket/a", lambda b: b.replace("a", b"", tag="t")),
        ("delete s3://bucket/a", lambda b: b.delete("a")),
    ]
    for doing, operation in operations:
        store.answers = [answer] * 2
        with pytest.raises(UnavailableError, match=f"Could not {doing}.*{advice}") as raised:
            operation(store.blackboard())
        assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_copy_that_is_refused_without_a_reason_says_that_credentials_may_have_expired(store: Scripted):
    store.answers = [(400, "")] * 2  # boto3 asks for the bucket's region as well
    with pytest.raises(UnavailableError, match=r"Could not copy s3://bucket/a: .* answered 400 .*Log in again"):
        store.blackboard().copy("a", "b")


def test_a_missing_bucket_is_an_error_not_an_empty_listing(s3_client: S3Client):
    missing = S3Blackboard(s3_client, "no-such-bucket")
    for operation in (lambda: missing.page(""), lambda: missing.read("a"), lambda: missing.create("a", b"")):
        with pytest.raises(UnavailableError, match="There is no bucket 'no-such-bucket'"):
            operation()
    with pytest.raises(NotFoundError):
        missing.copy("a", "b")


def test_a_name_that_is_no_bucket_is_an_error_of_ours(s3_client: S3Client):
    with pytest.raises(BlackboardError, match="not a bucket and a key"):
        S3Blackboard(s3_client, "not a bucket").page("")


def test_a_store_that_is_not_running_is_named_without_the_credentials_in_its_url():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = boto3.client(
        "s3",
        endpoint_url=f"http://user:{SECRET}@127.0.0.1:{port}",
        region_name="us-east-1",
        config=Config(signature_version=UNSIGNED, retries={"total_max_attempts": 1}),
    )
    with pytest.raises(UnavailableError, match=rf"no answer from 127\.0\.0\.1:{port}.*AWS_ENDPOINT_URL_S3") as raised:
        S3Blackboard(client, "bucket").page("")
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, s3_server: str):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    client = boto3.session.Session().client("s3", endpoint_url=s3_server, region_name="us-east-1")
    with pytest.raises(UnavailableError, match=r"no credentials were found.*AWS_ACCESS_KEY_ID"):
        S3Blackboard(client, "bucket").page("")
