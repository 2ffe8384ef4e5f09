"""Which blackboard a URI names."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from feed_assets.blackboard.credentials import without_credentials
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.location import UnknownLocationError, check_location, open_blackboard
from feed_assets.blackboard.port import InvalidKeyError, UnavailableError

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

_buckets = (f"location-{number}" for number in itertools.count())


def test_a_path_is_a_local_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for location in (str(tmp_path / "a b"), "a b", "./a b/"):
        blackboard = open_blackboard(location)
        assert isinstance(blackboard, LocalBlackboard)
        assert blackboard.uri("x") == (tmp_path / "a b/x").as_uri()
    assert not (tmp_path / "a b").exists(), "opening creates nothing"


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert open_blackboard("~/feed").uri("x") == (tmp_path / "feed/x").as_uri()
    with pytest.raises(UnknownLocationError, match="home directory"):
        open_blackboard("~nobody-of-this-name/feed")


def test_a_file_uri_is_a_local_directory_and_percent_encoded(tmp_path: Path):
    directory = tmp_path / "a b%é#?"
    for location in (directory.as_uri(), directory.as_uri().replace("file://", "file:", 1), directory.as_uri() + "/"):
        open_blackboard(location).create(f"{len(location)}", b"")
    assert len(list(directory.glob("[0-9]*"))) == 3
    localhost = directory.as_uri().replace("file://", "file://localhost", 1)
    assert len(open_blackboard(localhost).page("").entries) == 3


def test_the_uri_of_a_blackboard_opens_it_again(tmp_path: Path):
    blackboard = open_blackboard(str(tmp_path / "a b%é#?"))
    blackboard.create("x/y", b"content")
    assert open_blackboard(blackboard.uri("")).read("x/y").data == b"content"
    assert open_blackboard(blackboard.uri("x/")).read("y").data == b"content"


def test_an_s3_uri_is_a_bucket_and_a_prefix(s3_client: S3Client):
    bucket = next(_buckets)
    s3_client.create_bucket(Bucket=bucket)
    for location in (f"s3://{bucket}/a/b?#%20", f"s3://{bucket}/a/b?#%20/", f"S3://{bucket}/a/b?#%20"):
        blackboard = open_blackboard(location, s3_client_factory=lambda: s3_client)
        assert blackboard.uri("x") == f"s3://{bucket}/a/b?#%20/x"
    for location in (f"s3://{bucket}", f"s3://{bucket}/"):
        assert open_blackboard(location, s3_client_factory=lambda: s3_client).uri("x") == f"s3://{bucket}/x"
    blackboard.create("x", b"content")
    assert open_blackboard(blackboard.uri(""), s3_client_factory=lambda: s3_client).read("x").data == b"content"


def test_without_a_factory_the_client_is_that_of_the_environment(
    s3_client: S3Client, s3_server: str, monkeypatch: pytest.MonkeyPatch
):
    bucket = next(_buckets)
    s3_client.create_bucket(Bucket=bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    open_blackboard(f"s3://{bucket}/base").create("x", b"content")
    assert s3_client.list_objects_v2(Bucket=bucket)["Contents"][0]["Key"] == "base/x"


@pytest.mark.parametrize(
    ("name", "value"),
    [("AWS_PROFILE", "no-such-profile"), ("AWS_ENDPOINT_URL_S3", "user:secret@not a url")],
)
def test_settings_that_cannot_be_used_say_so(name: str, value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(UnavailableError, match="AWS_ENDPOINT_URL_S3") as raised:
        open_blackboard("s3://bucket")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("location", "advice"),
    [
        ("", "Give a path"),
        ("gs://bucket/x", "gs:"),
        ("https://host/x", "https:"),
        ("s3a://bucket/x", "Write s3://"),
        ("s3://", "no bucket"),
        ("s3:///x", "no bucket"),
        ("s3:/bucket", "no bucket"),
        ("file://server/x", "three slashes"),
        ("file:///x?y", "%3F"),
        ("file://", "no directory"),
    ],
)
def test_other_locations_are_refused_with_what_to_write(location: str, advice: str):
    with pytest.raises(UnknownLocationError, match=advice):
        open_blackboard(location)


@pytest.mark.parametrize(
    "location",
    [
        "s3://AKIAID:tiger@bucket/x",
        "S3://AKIAID:tiger@bucket",
        "s3:/AKIAID:tiger@bucket/x",
        "s3:///AKIAID:tiger@bucket/x",
        "s3://AKIAID:ti/ger+tiger@bucket/x",  # secrets of AWS have slashes
        "s3://AKIAID:tiger",
        "s3://tiger@bucket/x",
        "s3a://AKIAID:tiger@bucket/x",
        "https://user:tiger@host/x",
        "https://host/x?X-Amz-Signature=tiger",
        "postgresql://user:tiger@host/database",
        "file://user:tiger@host/x",
    ],
)
def test_a_location_with_credentials_is_refused_without_showing_them(location: str):
    for refuse in (open_blackboard, check_location):
        with pytest.raises(UnknownLocationError) as raised:
            refuse(location)
        assert "tiger" not in str(raised.value)
        assert "ger" not in str(raised.value)
        assert raised.value.__cause__ is None


def test_passwords_in_urls_of_a_text_are_not_shown():
    text = "No 's3://AKIAID:ti/ger@bucket/x'. Not postgresql://u:tiger@host/db, either."
    assert without_credentials(text) == "No 's3://***@bucket/x'. Not postgresql://***@host/db, either."


@pytest.mark.parametrize(
    "text", ["s3://bucket/a:b@c", "sftp://user@host:22/x", "file:/home/a:b@c/x", "http://host:80/x", "me@x.org: a@b"]
)
def test_what_is_no_password_is_shown(text: str):
    assert without_credentials(f"Look at {text}.") == f"Look at {text}."


@pytest.mark.parametrize("location", ["s3://bucket/a//b", "s3://bucket/../b"])
def test_a_prefix_is_as_safe_as_a_key(location: str, s3_client: S3Client):
    with pytest.raises(InvalidKeyError):
        open_blackboard(location, s3_client_factory=lambda: s3_client)


def test_a_local_blackboard_loads_no_s3_client_and_no_framework(tmp_path: Path):
    program = """
import sys
from feed_assets.blackboard.location import open_blackboard
open_blackboard(sys.argv[1]).create("x", b"")
print(*sorted({"boto3", "botocore", "dagster", "pyspark", "pyarrow", "pydantic"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
