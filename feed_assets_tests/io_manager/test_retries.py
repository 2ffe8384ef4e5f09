"""What is tried again: a store that did not answer; and what is not."""

from __future__ import annotations

import errno

import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ReadTimeoutError
from py4j.protocol import Py4JJavaError

from feed_assets.blackboard import InvalidKeyError, UnavailableError
from feed_assets.file_feed import TornUpdateError
from feed_assets.io_manager.retries import is_transient
from feed_assets_tests.harness import ADS, Interposed, ads, messages, using_board


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


def test_a_run_survives_a_store_that_fails_once_at_each_step(shop):
    shop.land(ads(3))
    failing = {
        ("page", "raw/ads/shop_ads/"): "an input is listed",
        ("create", f"{ADS}/.feed/records/"): "the update is staged",
        ("replace", f"{ADS}/.feed/records/"): "the audit publishes",
    }

    def fail(operation, key):
        for place in list(failing):
            if operation == place[0] and key.startswith(place[1]):
                raise UnavailableError(f"503: {failing.pop(place)}")

    result = using_board(shop, Interposed(shop.board, fail)).run("clean_ads")

    assert result.success, messages(result)
    assert not failing
    retried = [event.step_key for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
    assert retried == ["clean_ads", "clean_ads", "clean_ads_audit"]
    assert shop.latest(ADS) == shop.record(ADS).update


def test_a_store_that_never_answers_is_given_up_after_three_more_attempts(shop):
    shop.land(ads(1))

    def fail(operation, key):
        if operation == "create" and key.startswith(ADS):
            raise UnavailableError("503")

    result = using_board(shop, Interposed(shop.board, fail)).run("clean_ads")

    assert not result.success
    assert [event.event_type_value for event in result.all_events].count("STEP_RESTARTED") == 3


def test_a_full_disk_is_not_tried_again(shop):
    shop.land(ads(1))

    def fail(operation, key):
        if operation == "create" and key.startswith(ADS):
            raise unavailable(OSError(errno.ENOSPC, "No space left on device"))

    result = using_board(shop, Interposed(shop.board, fail)).run("clean_ads")

    assert not result.success
    assert "STEP_UP_FOR_RETRY" not in [event.event_type_value for event in result.all_events]
