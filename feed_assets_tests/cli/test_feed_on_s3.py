"""The same commands on a bucket, with the settings of S3 from the environment."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from click.testing import Result

if TYPE_CHECKING:
    import subprocess

    from feed_assets_tests.servers.server import S3Server

Run = Callable[..., Result]
Program = Callable[..., "subprocess.CompletedProcess[str]"]
Written = Callable[[str, str], Path]

_buckets = (f"commands-{number}" for number in itertools.count())


@pytest.fixture
def feed(versitygw: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in versitygw.environment.items():
        monkeypatch.setenv(name, value)
    bucket = next(_buckets)
    versitygw.client().create_bucket(Bucket=bucket)
    return f"s3://{bucket}/base/clean/v1.0"


def answer(result: Result) -> Any:
    return json.loads(result.stdout)


def test_no_answer_and_no_error_shows_a_secret(
    run: Run, written: Written, feed: str, versitygw: S3Server, monkeypatch: pytest.MonkeyPatch
):
    run("feed", "publish", feed, "-p", "day", written("a.csv", "x\n1\n"), "--json")
    commands = [("feed", name, feed, "--json") for name in ("ls", "verify", "gc")]
    answers = [run(*each).output for each in commands]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", wrong := "wrong/secret+of+ours")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of its first client
    answers += [run(*each, code=1).output for each in commands]
    assert "SignatureDoesNotMatch" in answers[len(commands)]
    assert [each for each in answers if versitygw.secret_key in each or wrong in each] == []


def test_publish_latest_ls_and_invalidate(run: Run, written: Written, feed: str, versitygw: S3Server):
    run("feed", "latest", feed, "-p", "day", code=3)
    first = answer(run("feed", "publish", feed, "-p", "day", written("a.csv", "x\n1\n"), "--json"))
    assert first == {
        "feed": feed,
        "partition": "day",
        "update": "20191201.120000",
        "uri": f"{feed}/day/20191201.120000",
        "files": [{"path": "a.csv", "bytes": 4}],
    }
    second = answer(run("feed", "publish", f"{feed}/day", written("a.csv", "x\n2\n"), "--json"))
    assert second["update"] == "20191201.120001"
    assert answer(run("feed", "latest", f"{feed}/day", "--json")) == second
    assert answer(run("feed", "latest", feed, "-p", "day", "--json"))["uri"] == second["uri"]

    bucket, _, prefix = feed.removeprefix("s3://").partition("/")
    manifest = versitygw.client().get_object(Bucket=bucket, Key=f"{prefix}/day/20191201.120001/_SUCCESS")
    assert manifest["Body"].read() == b"1", "what a plain reader compares with one file"

    found = answer(run("feed", "diff", feed, "-p", "day", "--json"))
    assert (found["first_removed"], found["first_added"]) == ([{"x": "1"}], [{"x": "2"}])
    run("feed", "invalidate", feed, "-p", "day", "--reason", "wrong")
    states = [(row["update"], row["state"]) for row in answer(run("feed", "ls", feed, "--json"))]
    assert states == [("20191201.120001", "invalidated"), ("20191201.120000", "valid")]
    assert answer(run("feed", "latest", feed, "-p", "day", "--json"))["update"] == "20191201.120000"
    run("feed", "latest", feed, code=2)
    run("feed", "verify", feed)
    base, _, version = feed.rpartition("/")
    assert f"Did you mean {version}?" in run("feed", "ls", f"{base}/{version}x", code=3).stderr


def test_holds_and_removal(run: Run, written: Written, feed: str, monkeypatch: pytest.MonkeyPatch):
    for day in range(1, 5):
        monkeypatch.setenv("FEED_ASSETS_AS_OF", f"2019-11-0{day}")
        run("feed", "publish", feed, written("a.csv", "x\n"))
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "2019-12-20")
    run("feed", "tag", feed, "golden", "--update", "20191101.000000")
    run("feed", "pin", feed, "--update", "20191102.000000", "--until", "1d")
    done = answer(run("feed", "gc", feed, "--keep", "1", "--yes", "--json"))
    assert [(each["update"], each["removed"]) for each in done] == [("20191103.000000", True)]
    run("feed", "unpin", feed)
    run("feed", "untag", feed, "golden")
    assert len(answer(run("feed", "gc", feed, "--keep", "1", "--yes", "--json"))) == 2
    assert len(answer(run("feed", "ls", feed, "--json"))) == 1


def test_the_program_on_a_bucket(program: Program, written: Written, feed: str):
    published = program("feed", "publish", feed, written("a.csv", "x\n"), "--json")
    assert (published.returncode, published.stderr) == (0, "")
    assert program("feed", "latest", feed, "--json").stdout == published.stdout


def test_a_store_that_cannot_be_reached_is_exit_code_1(program: Program, feed: str):
    nowhere = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1"}
    failed = program("feed", "latest", feed, "--json", environment=nowhere)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("Error: ")
    assert "Traceback" not in failed.stderr


def test_listings_below_a_base_in_a_bucket(run: Run, written: Written, feed: str, monkeypatch: pytest.MonkeyPatch):
    base = feed.removesuffix("/clean/v1.0")
    run("feed", "publish", feed, "-p", "2019-11-24", written("a.csv", "x\n1\n"))
    record = {"source": "s", "file": "log.csv", "line": 2, "reason": "no ad", "record": "r"}
    aside = written("a.json", json.dumps(record))
    run("feed", "publish", f"{base}/quarantine/clean/v1.0", "-p", "2019-11-24", aside)
    monkeypatch.setenv("FEED_ASSETS_BASE", base)

    (found,) = answer(run("feeds", "--json"))
    assert (found["location"], found["newest"], found["latest"]) == ("clean/v1.0", "2019-11-24", "20191201.120000")
    (kept,) = answer(run("quarantine", "--json"))
    assert (kept["where"], kept["reason"], kept["records"], kept["example"]) == ("clean/v1.0", "no ad", 1, "r")
    assert [each["days"] for each in answer(run("sources", "--json"))] == [0, 0]
    assert "feed-assets backfill" in run("report", "--json", code=3).stderr
