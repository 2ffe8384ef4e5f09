"""The judge: signatures, requests that are none of the API, and its process."""

from __future__ import annotations

import http.client
import signal
from collections import Counter

import pytest
from botocore.exceptions import ClientError

from feed_assets_tests.delivery.judge.asking import failure, numbered
from feed_assets_tests.delivery.judge.faults import Rule
from feed_assets_tests.delivery.judge.running import ACCESS_KEY, SECRET_KEY, judging
from feed_assets_tests.listening import family, listening


def test_only_a_right_signature_of_known_and_valid_credentials_is_let_in(shared):
    def listed(key: str = ACCESS_KEY, secret: str = SECRET_KEY, token: str | None = None):
        given = {"aws_access_key_id": key, "aws_secret_access_key": secret, "aws_session_token": token}
        return shared.client(**given).list_streams

    assert failure(listed(secret="wrong")) == ("InvalidSignatureException", 400)
    assert failure(listed(key="AKIAUNKNOWN")) == ("UnrecognizedClientException", 400)
    shared.know("ASIATEMPORARY", "secret", "token", expires_in=100)
    assert failure(listed("ASIATEMPORARY", "secret", "other")) == ("UnrecognizedClientException", 400)
    listed("ASIATEMPORARY", "secret", "token")()
    shared.advance(100)
    assert failure(listed("ASIATEMPORARY", "secret", "token")) == ("ExpiredTokenException", 400)
    shared.know("ASIATEMPORARY", "secret", "token-2", expires_in=100)
    listed("ASIATEMPORARY", "secret", "token-2")()
    kinds = [violation.kind for violation in shared.account().described]
    assert "InvalidSignatureException" in kinds
    assert "ExpiredTokenException" not in kinds


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({}, "MissingAuthenticationTokenException"),
        ({"Authorization": "Basic abc"}, "IncompleteSignatureException"),
        ({"X-Amz-Target": "DynamoDB_20120810.ListTables"}, "UnknownOperationException"),
        ({"Content-Type": "application/json"}, "UnknownOperationException"),
    ],
)
def test_a_request_that_is_none_of_the_api_is_refused(shared, headers: dict[str, str], kind: str):
    connection = http.client.HTTPConnection("127.0.0.1", shared.port)
    given = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "Kinesis_20131202.ListStreams"} | headers
    connection.request("POST", "/", b"{}", given)
    response = connection.getresponse()
    assert (response.status, response.headers["Content-Type"]) == (400, "application/x-amz-json-1.1")
    assert kind in response.read().decode()
    connection.close()


def test_calls_that_manage_streams_are_limited_as_in_an_account(judge):
    judge.stop_clock()
    client = judge.client()
    codes = Counter()
    for _ in range(12):
        try:
            client.list_streams()
        except ClientError as error:
            codes[error.response["Error"]["Code"]] += 1
    assert codes == {"LimitExceededException": 7}
    judge.advance(1)
    client.list_streams()


def test_the_log_outlives_a_killed_judge_and_a_torn_last_entry(judge):
    judge.create("kept")
    judge.client().put_records(StreamName="kept", Records=numbered(5))
    judge.kill()
    assert [stored.data for stored in judge.log.of("kept")] == [b"0", b"1", b"2", b"3", b"4"]
    content = judge.log.path.read_bytes()
    judge.log.path.write_bytes(content[:-1])
    assert len(list(judge.log)) == 4


def test_the_judge_listens_on_loopback_only_and_ends_when_told(shared, tmp_path):
    processes = [each for started in shared._processes for each in family(started.pid)]
    assert {address for _, address in listening(processes)} == {"loopback"}
    with judging(tmp_path) as started:
        process = started._processes[0]
        started.stop()
        assert process.returncode == -signal.SIGTERM


def test_a_control_that_the_judge_does_not_know_says_what_is_wrong(shared):
    with pytest.raises(ValueError, match="the_end"):
        shared.set(the_end=1)
    with pytest.raises(ValueError, match="It has: ready, faults"):
        shared._control("POST", "nothing", {})
    with pytest.raises(ValueError, match="Invalid enum value 'boom'"):
        shared.inject(Rule("boom"))
