"""Which errors pass by themselves: a store that did not answer; and which do not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import NoCredentialsError, ReadTimeoutError
from botocore.stub import Stubber
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import InvalidKeyError, UnavailableError
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets.file_feed import TornUpdateError
from feed_assets.steps.transient import InputChangedError, is_transient


def s3_error(error=None, **answer):
    """The error of a bucket that answers like this, or whose client fails."""
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret")
    stubber = Stubber(client)
    stubber.add_client_error("get_object", **answer)
    stubber.activate()
    if error is not None:
        client.get_object = lambda **_: raise_(error)
    with pytest.raises(UnavailableError) as raised:
        S3Blackboard(client, "bucket").read("key")
    return raised.value


def raise_(error):
    raise error


def disk_error(folder, monkeypatch, error):
    """The error of a disk that fails like this."""
    (folder / "key").write_bytes(b"")
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", lambda *_, **__: raise_(error))
        with pytest.raises(UnavailableError) as raised:
            LocalBlackboard(folder).read("key")
    return raised.value


def test_a_store_that_does_not_answer_or_is_busy_and_an_input_that_changed_are_tried_again(tmp_path, monkeypatch):
    for error in (
        UnavailableError("Could not create it."),
        InputChangedError("replaced"),
        s3_error(service_error_code="SlowDown", http_status_code=503),
        s3_error(service_error_code="InternalError", http_status_code=500),
        s3_error(service_error_code="TooManyRequests", http_status_code=429),
        s3_error(ReadTimeoutError(endpoint_url="http://storage")),
        disk_error(tmp_path, monkeypatch, OSError(errno.EIO, "Input/output error")),
        disk_error(tmp_path, monkeypatch, OSError(errno.ESTALE, "Stale file handle")),
    ):
        assert is_transient(error), error


def test_an_error_that_waiting_does_not_cure_is_not_tried_again(tmp_path, monkeypatch):
    with pytest.raises(UnavailableError) as no_directory:
        LocalBlackboard(Path(__file__))
    for error in (
        s3_error(service_error_code="AccessDenied", http_status_code=403),
        s3_error(service_error_code="NoSuchBucket", http_status_code=404),
        s3_error(NoCredentialsError()),
        disk_error(tmp_path, monkeypatch, OSError(errno.ENOSPC, "No space left on device")),
        disk_error(tmp_path, monkeypatch, OSError(errno.EROFS, "Read-only file system")),
        disk_error(tmp_path, monkeypatch, PermissionError(errno.EACCES, "Permission denied")),
        no_directory.value,
        TornUpdateError("torn"),
        InvalidKeyError("odd"),
        ValueError("bad data"),
    ):
        assert not is_transient(error), error


def test_a_store_that_ends_sparks_connection_without_an_answer_is_tried_again():
    said_by_s3a = (
        "org.apache.hadoop.fs.s3a.HttpChannelEOFException: getFileStatus on s3a://bucket/key: "
        "software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request: "
        "The target server failed to respond (SDK Attempt Count: 2)"
    )

    assert is_transient(PySparkException(said_by_s3a))


def test_sparks_own_errors_are_told_apart_by_their_cause(spark):
    with pytest.raises(Py4JJavaError) as unreachable:
        spark._jvm.java.net.Socket("127.0.0.1", 1)
    with pytest.raises(Exception, match="PATH_NOT_FOUND") as missing:
        spark.read.parquet("/nowhere/at/all.parquet").collect()

    assert is_transient(unreachable.value)
    assert not is_transient(missing.value)
