"""`feed-assets receive`: what it refuses, its tokens, and its start and end as a process."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest
from click.testing import CliRunner

from feed_assets.cli.main import main
from feed_assets_tests.harness import SHOP_ADS
from feed_assets_tests.receiving.serving import SOURCE, environment, serving


@pytest.fixture
def run(tmp_path, monkeypatch):
    for name, value in environment(tmp_path / "base").items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: CliRunner().invoke(main, ["receive", *arguments], catch_exceptions=False)


def test_tokens_are_added_up_to_two_shown_once_listed_without_their_secret_and_revoked(run):
    added = [run("tokens", "add", "--partner", "acme", "--source", "shop_ads", "--expires", "90d") for _ in range(3)]
    listed = json.loads(run("tokens", "list", "--json").stdout)

    assert [each.exit_code for each in added] == [0, 0, 1]
    assert "acme has 2 valid tokens" in added[2].stderr
    texts = [each.stdout.strip() for each in added[:2]]
    assert [text.split("_")[1] for text in texts] == [each["id"] for each in listed]
    assert {tuple(each["sources"]) for each in listed} == {(SOURCE,)}
    assert all(text.split("_", 2)[2] not in json.dumps(listed) for text in texts)
    assert run("tokens", "revoke", listed[0]["id"]).exit_code == 0
    assert "There is no token" in run("tokens", "revoke", listed[0]["id"]).stderr
    assert listed[0]["id"] not in run("tokens", "list").stdout
    assert "There is no source 'other' that takes events (`type: jsonl`). There are: ads/shop_ads." in run(
        "tokens", "add", "--partner", "x", "--source", "other"
    ).stderr.replace("\n", " ")


def test_a_partner_or_a_token_that_no_database_can_hold_is_refused_without_a_stack_trace(run):
    for partner in ("", " ", "caf\udce9", "two\nlines"):
        refused = run("tokens", "add", "--partner", partner, "--source", "shop_ads")
        assert (refused.exit_code, "is no name of a partner" in refused.stderr) == (2, True)
    assert run("tokens", "revoke", "caf\udce9").exit_code == 1
    assert "There is no token." in run("tokens", "list").stderr


def test_a_token_is_not_made_if_its_time_is_over(run):
    refused = run("tokens", "add", "--partner", "acme", "--source", "shop_ads", "--expires", "2018-01-01")

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "2018-01-01 00:00:00 is over: give a later time." in refused.stderr
    assert "There is no token." in run("tokens", "list").stderr


def test_a_journal_that_is_no_directory_is_named_before_the_server_says_that_it_listens(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    file, bucket = (run("--no-tokens", "--journal", journal) for journal in ("file", "s3://bucket/journal"))

    assert (file.exit_code, bucket.exit_code) == (1, 2)
    assert f"{tmp_path / 'file'} is no directory" in file.stderr
    assert "s3://bucket/journal is no directory: name a directory, or `blackboard`" in bucket.stderr
    assert "listens" not in file.stderr + bucket.stderr
    assert not (tmp_path / "s3:").exists()


def test_a_server_that_nobody_or_everybody_could_use_does_not_start(run, tmp_path):
    def refusal(*options):
        result = run(*options)
        assert result.exit_code in {1, 2}
        return " ".join(result.stderr.split())

    assert "There is no valid token: `feed-assets receive tokens add" in refusal()
    assert "would let everybody who reaches 0.0.0.0 write" in refusal("--no-tokens", "--host", "0.0.0.0")
    assert "TLS takes both" in refusal("--no-tokens", "--tls-key", str(tmp_path / "sources" / "shop_ads.yaml"))
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("nothing")
    tls = ("--tls-certificate", str(certificate), "--tls-key", str(certificate))
    assert "are no certificate in PEM and its key" in refusal("--no-tokens", *tls)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "(Address already in use): name another port with --port" in refusal(
            "--no-tokens", "--port", str(taken.getsockname()[1])
        )
    assert "--body-bytes" in refusal("--body-bytes", "0")
    (tmp_path / "sources" / "shop_ads.yaml").write_text(SHOP_ADS, encoding="utf-8")
    assert "takes events: describe one with `format: {type: jsonl" in refusal("--no-tokens")


@pytest.mark.parametrize("command", ["receive", "dev"])
@pytest.mark.parametrize("host", ["typo" * 20, "192.0.2.1"])
def test_a_host_that_is_not_of_this_machine_is_named_and_not_its_port(run, monkeypatch, tmp_path, command, host):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    run("tokens", "add", "--partner", "acme", "--source", "shop_ads")

    result = CliRunner().invoke(main, [command, "--host", host], catch_exceptions=False)

    message = " ".join(result.stderr.split())
    assert result.exit_code == 1
    assert "): name an address of this machine with --host." in message
    assert "--port" not in message
    assert "Unknown error" not in message


def test_the_command_serves_until_sigterm_and_a_second_one_does_not_take_its_journal(tmp_path, run):
    with serving(tmp_path / "base") as server:
        assert server.post(b'{"id":"1","time":"2019-11-24 12:00:00"}').status == 202
        second = run("--no-tokens", "--port", "65001")
        os.kill(server.process.pid, signal.SIGTERM)
        assert server.process.wait(30) == 0

    assert "is the journal of another process that runs now" in second.stderr
    assert "--journal" in second.stderr
    assert "listens on" not in second.stderr
    assert "The receiver listens on" in server.log.read_text()
    assert "Stopped." in server.log.read_text()
    assert len(list((tmp_path / "base" / ".receiving").glob("*.segment"))) == 1
