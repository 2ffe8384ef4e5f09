"""`feed-assets serve` and `feed-assets deps`: what they refuse, their tokens, and a service from start to end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from feed_assets.cli.installation import load_installation
from feed_assets.cli.main import main
from feed_assets.run_history.executions import Execution
from feed_assets.run_history.tables import record
from feed_assets.state.store import Store
from feed_assets_tests.harness import SHOP_ADS, write_sources
from feed_assets_tests.listening import free_port
from feed_assets_tests.waiting import HANGS, until
from feed_assets_tests.web.gated_shop import WAITING, environment, serving
from feed_assets_tests.web.windows_service import Client


@pytest.fixture
def run(tmp_path, monkeypatch):
    write_sources(tmp_path / "sources", SHOP_ADS)
    for name, value in environment(tmp_path / "base").items():
        monkeypatch.setenv(name, value)
    return lambda *arguments: CliRunner().invoke(main, [*arguments], catch_exceptions=False)


def told(result):
    return " ".join(result.stderr.split())


def test_tokens_are_added_with_grants_listed_without_their_secret_and_revoked(run):
    added = run("serve", "tokens", "add", "--name", "me", "--grant", "read:raw/*", "--grant", "report:raw/ads")
    listed = json.loads(run("serve", "tokens", "list", "--json").stdout)

    assert added.exit_code == 0
    assert [(each["name"], each["grants"]) for each in listed] == [("me", ["read:raw/*", "report:raw/ads"])]
    assert added.stdout.strip().split("_", 2)[2] not in json.dumps(listed)
    assert json.loads(run("receive", "tokens", "list", "--json").stdout) == []
    assert run("serve", "tokens", "revoke", listed[0]["id"]).exit_code == 0
    assert "There is no token." in told(run("serve", "tokens", "list"))


@pytest.mark.parametrize(
    ("grant", "message"),
    [
        ("raw/ads", "is no grant: write one of read, report, expect, mark, start"),
        ("delete:raw/ads", "is no grant"),
        ("read:", "names no dataset"),
        ("read:raw/*/x", "names no dataset"),
        ("read:../x", "names no dataset"),
    ],
)
def test_a_grant_that_means_nothing_is_refused(run, grant, message):
    refused = run("serve", "tokens", "add", "--name", "me", "--grant", grant)

    assert (refused.exit_code, message in told(refused)) == (2, True)


def test_a_service_that_everybody_could_ask_does_not_start(run, tmp_path):
    nothing = tmp_path / "certificate.pem"
    nothing.write_text("nothing")

    assert "There is no valid token, so nobody could ask at 0.0.0.0: `feed-assets serve tokens add" in told(
        run("serve", "--host", "0.0.0.0")
    )
    assert "TLS takes both" in told(run("serve", "--tls-key", str(nothing)))
    assert "are no certificate in PEM" in told(
        run("serve", "--tls-key", str(nothing), "--tls-certificate", str(nothing))
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "The service cannot listen on 127.0.0.1" in told(run("serve", "--port", port))


def test_the_command_names_its_address_serves_and_ends_in_order(run, tmp_path):
    command = [sys.executable, "-m", "feed_assets.cli", "serve", "--port", str(free_port()), "--json"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=os.environ, cwd=tmp_path)
    try:
        client = Client(json.loads(process.stdout.readline())["url"])
        names = [each["name"] for each in client.get("datasets").body["datasets"]]
        page = client.ask("/")
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

    assert {"raw/ads", "clean-ads/v1.0"} <= set(names)
    assert "<title>Data dependencies</title>" in page.body
    assert "Stopped." in (tmp_path / "log").read_text()


def test_the_commands_say_what_the_service_says(shop_base, shop_url, monkeypatch):
    client = Client(shop_url)
    for name, value in environment(shop_base).items():
        monkeypatch.setenv(name, value)

    def printed(*arguments):
        result = CliRunner().invoke(main, ["deps", *arguments, "--json"], catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    assert printed("datasets") == client.get("datasets").body["datasets"]
    days = ("2019-11-25", "2019-11-27")
    assert (
        printed("slots", "clean-ads/v1.0", *days)
        == client.get("slots", dataset="clean-ads/v1.0", from_=days[0], to=days[1]).body["slots"]
    )
    events = printed("events", "--after", "0", "--limit", "7")
    assert events == client.get("events", after=0, limit=7).body["events"]
    assert printed("events", "--limit", "3")[-1]["sequence"] == client.get("events").body["next"]
    assert (
        printed("explain", "ad_effectiveness", WAITING)["sentence"]
        == (client.get("explain", flow="ad_effectiveness", partition=WAITING).body["sentence"])
    )


def test_how_long_runs_take_is_the_same_by_command_and_by_http(shop_base, shop_url, monkeypatch):
    for name, value in environment(shop_base).items():
        monkeypatch.setenv(name, value)
    base = load_installation()
    hours = [datetime.now(UTC) - timedelta(hours=ago) for ago in range(40)]
    found = [
        Execution("schedule a", f"run-{at}", None, at, at, at + timedelta(minutes=12), succeeded=True) for at in hours
    ]
    record(Store(base.settings.state), base.blackboard.uri(""), found, now=datetime.now(UTC))

    shown = json.loads(CliRunner().invoke(main, ["health", "--json"], catch_exceptions=False).stdout)

    assert [each["series"] for each in shown] == ["schedule a"]
    assert Client(shop_url).ask("/v1/runs").body == shown


def test_how_sources_stand_is_the_same_by_command_and_by_http(shop_base, shop_url, monkeypatch):
    for name, value in environment(shop_base).items():
        monkeypatch.setenv(name, value)

    shown = json.loads(CliRunner().invoke(main, ["sources", "status", "--json"], catch_exceptions=False).stdout)

    assert [each["source"] for each in shown] == ["ads/shop_ads", "clicks/shop_clicks"]
    assert Client(shop_url).ask("/v1/sources").body == shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("slots", "nothing"), "There is no dataset 'nothing'. There are: "),
        (("slots", "raw/ads", "--grain", "minute"), "'minute' is no grain: use 5min"),
        (("slots", "raw/ads", "--member", "eu/fr"), "no member has the path 'eu/fr'"),
        (("slots", "raw/ads", "2019-11-31"), "is no day"),
        (("slots", "raw/ads", "2019-11-30", "2019-11-01"), "2019-11-01"),
        (("slots", "raw/ads", "1970-01-01", "2099-12-31"), "more than 5,000 slots"),
        (("events", "--dataset", "nothing"), "There is no dataset 'nothing'"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_what_there_is(run, arguments, message):
    refused = run("deps", *arguments)

    assert refused.exit_code == (1 if message.startswith("more than") else 2)
    assert re.search(re.escape(message), told(refused)), refused.stderr
    assert refused.stdout == ""


def test_what_comes_by_http_is_copied_to_the_blackboard_within_seconds(run, tmp_path):
    mark = {"dataset": "raw/ads", "start": WAITING, "reason": "bots", "id": "m"}
    with serving(environment(tmp_path / "base"), tmp_path) as url:
        client = Client(url)
        until(lambda: client.ask("/ready").status == 200)
        assert client.post("marks", [mark]).body["outcomes"][0]["status"] == "accepted"
        until(lambda: run("state", "check").exit_code == 0)
    assert "are equal" in told(run("state", "check"))
    assert [each["id"] for each in json.loads(run("deps", "marks", "--json").stdout)] == ["m"]
