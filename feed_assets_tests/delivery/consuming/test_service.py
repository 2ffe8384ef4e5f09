"""The command `deliver consume` as a service, and the commands that look at it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from feed_assets.blackboard.location import open_blackboard
from feed_assets.cli.main import main
from feed_assets.delivery.lookups import Lookups
from feed_assets.delivery.stores.sqlite import SqliteStore
from feed_assets_tests.delivery.worlds import DAY, World
from feed_assets_tests.listening import free_port
from feed_assets_tests.servers.redis import RedisServer
from feed_assets_tests.waiting import HANGS, until

MANY = {f"product-{number}": float(number) for number in range(50)}
DESTINATION = """
name: prices
feed: prices/v1.0
stream: local://prices?shards=2
key: [product]
columns: [product, price]
store: sqlite
"""


class Installed:
    """An installation with a destination, and its commands in processes of their own."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder = folder
        (folder / "deliveries").mkdir()
        (folder / "deliveries" / "prices.yaml").write_text(DESTINATION + more)
        (folder / "sources").mkdir()
        self.world = World(folder / "base" / ".state", open_blackboard(str(folder / "base")))
        self.environment = os.environ | {
            "FEED_ASSETS_BASE": str(folder / "base"),
            "FEED_ASSETS_SOURCES": str(folder / "sources"),
            "FEED_ASSETS_DELIVERIES": str(folder / "deliveries"),
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        program = [str(Path(sys.executable).with_name("feed-assets")), "deliver", *arguments]
        return subprocess.Popen(
            program, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def ask(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code and output of a command, in this process."""
        result = CliRunner().invoke(main, ["deliver", *arguments], env=self.environment)
        return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ""


@pytest.mark.slow
def test_the_command_consumes_until_sigterm_and_shows_its_figures(installed: Installed) -> None:
    installed.world.publish(MANY)
    installed.world.deliver()
    port = free_port()
    process = installed.start("consume", "prices", "--metrics-port", str(port), "--json")
    try:
        until(lambda: asked(port, "/health")[0] == 200 or process.poll() is not None)
        until(lambda: installed.world.values(*MANY) == MANY)
        applied = 'feed_assets_delivery_records_total{hop="settled",outcome="applied"} 50.0'
        until(lambda: applied in asked(port, "/metrics")[1])  # counted after they are in the store
        status, figures = asked(port, "/metrics")
        assert status == 200
        assert 'feed_assets_delivery_lag_seconds{shard="shardId-000000000001"}' in figures
        assert "product" not in figures
        assert asked(port, "/ready") == (200, '{"waiting":{},"late":[]}')
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=HANGS)
    assert process.returncode == 0, err
    assert json.loads(out) == {"settled": 50}
    assert installed.world.audited().state == "settled"

    code, out, _ = installed.ask("shards", "prices", "--json")
    assert code == 0
    assert [(each["shard"][-1], each["state"], each["late"]) for each in json.loads(out)] == [
        ("0", "read", False), ("1", "read", False),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_function_of_the_folder_is_found_and_a_poisoned_record_makes_the_service_unready(tmp_path: Path) -> None:
    installed = Installed(tmp_path, "dispatch: lookups:by_product\n")
    (tmp_path / "lookups.py").write_text("def by_product(record):\n    raise KeyError(record.row['price'])\n")
    installed.world.publish({"tea": 47.25})
    installed.world.deliver()
    port = free_port()
    process = installed.start("consume", "prices", "--metrics-port", str(port))
    try:
        until(lambda: asked(port, "/ready")[0] == 503 or process.poll() is not None)
        _, waiting = asked(port, "/ready")
        assert "ordinal 0 of edition" in waiting
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=HANGS)
    assert process.returncode == 0, err
    assert f"raised KeyError at {tmp_path}/lookups.py:2" in err
    assert "tea" not in err
    assert "47.25" not in waiting + err

    (tmp_path / "lookups.py").write_text("def by_product(record):\n    return [('prices', record)]\n")
    process = installed.start("consume", "prices", "--until-idle")
    assert process.communicate(timeout=HANGS)[0] == "1 record settled.\n"
    assert installed.world.values("tea") == {"tea": 47.25}


def test_options_that_do_not_fit_are_refused(installed: Installed) -> None:
    code, _, err = installed.ask("consume", "prices", "--audit-only")
    assert (code, "say `settled_by: watcher`" in err) == (2, True)
    code, _, err = installed.ask("consume", "prices", "--until-idle", "--metrics-port", "1")
    assert (code, "leave it or --until-idle out" in err) == (2, True)


def test_consuming_again_from_the_oldest_record_changes_nothing(installed: Installed) -> None:
    installed.world.publish(MANY)
    installed.world.deliver()
    assert json.loads(installed.ask("consume", "prices", "--until-idle", "--json")[1]) == {"settled": 50}
    assert json.loads(installed.ask("consume", "prices", "--until-idle", "--json")[1]) == {"settled": 0}
    assert json.loads(installed.ask("consume", "prices", "--until-idle", "--json", "--from-oldest")[1]) == {
        "settled": 50
    }
    assert installed.world.values(*MANY) == MANY
    assert installed.world.audited().repeats["received"] == 0


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store; the environment has its password."""
    return "sqlite" if request.param == "sqlite" else request.getfixturevalue("redis_server").given(monkeypatch)


def test_k21_a_lookup_asks_the_store_once(url: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    world = World(tmp_path, options={"store": url, "space": "k21"})
    world.publish(MANY)
    world.deliver()
    world.consume()
    with Lookups.of(world.to, world.folder) as lookups:
        lookups.get("product-1")  # Redis loads a script at its first use
        before = calls(request, url)
        found = lookups.get("product-7")

    assert found is not None
    assert found.row == {"product": "product-7", "price": 7.0}
    assert found.version.partition == DAY
    if url != "sqlite":
        after = calls(request, url)
        assert sum(after.values()) - sum(before.values()) == 1


def calls(request: pytest.FixtureRequest, url: str) -> dict[str, int]:
    """How often each command of Redis that reads was called by clients."""
    if url == "sqlite":
        return {}
    server: RedisServer = request.getfixturevalue("redis_server")
    with server.client() as client:
        return {
            name: figures["calls"]
            for name, figures in client.info("commandstats").items()
            if name.removeprefix("cmdstat_") in {"eval", "evalsha", "get", "hget", "mget"}
        }


def test_k21_a_lookup_of_sqlite_is_one_statement(tmp_path: Path) -> None:
    statements: list[str] = []
    with SqliteStore(tmp_path / "stores.db") as store:
        store._reader.set_trace_callback(statements.append)
        assert store.get_many("prices", ["p1"], now=0.0) == {}
    assert len([each for each in statements if each.startswith("SELECT")]) == 1
    assert len(statements) == 1
