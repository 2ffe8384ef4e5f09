"""Which errors pass by themselves: a store that did not answer; and which do not."""

from __future__ import annotations

import errno

import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ReadTimeoutError
from py4j.protocol import Py4JJavaError

from feed_assets.blackboard import InvalidKeyError, UnavailableError
from feed_assets.file_feed import TornUpdateError
from feed_assets.steps.transient import is_transient


def answered(status, code):
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")


def unavailable(cause):
    """As the blackboards raise it."""
    error = UnavailableError("Could not create it.")
    error.__cause__ = cause
    return error


def test_a_store_that_does_not_answer_or_says_that_it_is_busy_is_tried_again():
    for cause in (
        None,
        answered(503, "SlowDown"),
        answered(500, "InternalError"),
        answered(429, "TooManyRequests"),
        ReadTimeoutError(endpoint_url="http://storage"),
        OSError(errno.EIO, "Input/output error"),
        OSError(errno.ESTALE, "Stale file handle"),
    ):
        assert is_transient(unavailable(cause)), cause


def test_what_waiting_does_not_cure_is_not_tried_again():
    for cause in (
        answered(403, "AccessDenied"),
        answered(404, "NoSuchBucket"),
        NoCredentialsError(),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EROFS, "Read-only file system"),
        PermissionError(errno.EACCES, "Permission denied"),
    ):
        assert not is_transient(unavailable(cause)), cause
    for error in (TornUpdateError("torn"), InvalidKeyError("odd"), ValueError("bad data")):
        assert not is_transient(error), error


def test_sparks_own_errors_are_told_apart_by_their_cause(spark):
    with pytest.raises(Py4JJavaError) as unreachable:
        spark._jvm.java.net.Socket("127.0.0.1", 1)
    with pytest.raises(Exception, match="PATH_NOT_FOUND") as missing:
        spark.read.parquet("/nowhere/at/all.parquet").collect()

    assert is_transient(unreachable.value)
    assert not is_transient(missing.value)
