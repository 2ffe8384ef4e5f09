"""`feed-assets deliver` and `doctor`: what they do and print, and what they say of mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from feed_assets.blackboard.location import open_blackboard
from feed_assets.cli.main import main
from feed_assets.delivery.turn import turn_of
from feed_assets.resources.settings import Settings
from feed_assets.state.store import Store
from feed_assets_tests.delivery.test_in_dagster import LOCATION, YAML, prices
from feed_assets_tests.harness import DAY, NEXT_DAY, SHOP_ADS, SHOP_CLICKS, write_sources
from feed_assets_tests.warehouse.feeds import Source

Run = Callable[..., Result]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """The feed of an installation with a destination, which the commands work on."""
    for name, value in {
        "BASE": tmp_path / "base",
        "SOURCES": write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS),
        "AS_OF": "2019-12-02",
    }.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", str(value))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deliveries").mkdir()
    (tmp_path / "deliveries/prices.yaml").write_text(YAML)
    return Source(board=open_blackboard(str(tmp_path / "base")), location=LOCATION)


@pytest.fixture
def run() -> Run:
    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["deliver", *arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return run


def test_an_update_goes_from_the_feed_to_a_lookup(run: Run, source: Source) -> None:
    update = source.publish(prices(tea=2.5, coffee=4.0))
    assert json.loads(run("ls", "--json").stdout) == [
        {"destination": "prices", "feed": LOCATION, "stream": "local://prices?shards=2", "store": "sqlite"}
    ]
    assert [each["state"] for each in json.loads(run("ls", "prices", "--json").stdout)] == ["new"]

    done = run("run", "prices")
    assert done.stdout.startswith(f"prices {DAY}: edition ")
    assert done.stdout.endswith(f": 2 puts, 0 deletes of {update}; 2 acknowledged.\n")
    assert run("run", "prices").stdout == "Nothing to deliver to prices.\n"
    assert "the update in force was delivered before" in run("run", "prices", "-p", DAY).stdout

    assert "2 rows not received yet: block 0, rows 0 to 1 of" in run("audit", "prices").stdout
    assert run("consume", "prices", "--until-idle").stdout == "2 records settled.\n"
    (audited,) = json.loads(run("audit", "prices", "--json").stdout)
    assert (audited["state"], audited["rows"]["settled"], audited["losses"]) == ("settled", 2, [])
    assert run("lookup", "prices", "tea").stdout.splitlines()[:2] == ["product    tea", "price      2.5"]
    assert json.loads(run("lookup", "prices", "tea", "--json").stdout)["row"] == {"product": "tea", "price": 2.5}


def test_only_changed_keys_are_sent_and_a_replay_sends_all(run: Run, source: Source) -> None:
    source.publish(prices(tea=2.5, coffee=4.0))
    run("run", "prices")
    source.publish(prices(tea=2.75, coffee=4.0))

    (second,) = json.loads(run("run", "prices", "--json").stdout)
    third = json.loads(run("replay", "prices", "-p", DAY, "--json").stdout)

    assert [(each["mode"], each["puts"], each["acked"]) for each in (second, third)] == [
        ("changes", 1, 1),
        ("all", 2, 2),
    ]
    shown = json.loads(run("show", "prices", "--json").stdout)
    assert all(each["began"] <= each["ended"] for each in shown)
    assert [(each["mode"], each["state"]) for each in shown] == [
        ("all", "delivered"),
        ("changes", "delivered"),
        ("all", "delivered"),
    ]
    # An edition is a name: it has no separators.
    assert str(third["edition"]) in run("show", "prices").stdout


def test_an_open_delivery_is_abandoned_by_a_person_and_the_next_one_sends_its_rows(
    run: Run, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.publish(prices(tea=2.5))
    with monkeypatch.context() as patched:
        patched.setattr("feed_assets.delivery.delivering.Deliverer._send", lambda *_: _interrupt())
        CliRunner().invoke(main, ["deliver", "run", "prices"])
    assert "open" in run("ls", "prices").stdout

    assert "abandoned" in run("abandon", "prices", "-p", DAY, "--reason", "wrong").stdout
    assert "No delivery of prices 2019-11-24 is open." in run("abandon", "prices", "-p", DAY, code=1).stderr
    assert "wrong" in run("show", "prices").stdout
    assert "1 put" in run("run", "prices").stdout


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_one_partition_that_fails_does_not_stop_the_others(run: Run, source: Source) -> None:
    source.publish(prices(tea=float("nan")))
    source.publish(prices(tea=3.0), NEXT_DAY)

    done = run("run", "prices", code=1)

    assert f"Error: prices {DAY}: price of row 0 of " in done.stderr
    assert "is NaN or infinite, which JSON cannot say. Nothing was sent." in done.stderr
    assert done.stdout.startswith(f"prices {NEXT_DAY}: edition")
    (failed,) = json.loads(run("run", "prices", "-p", DAY, "--json", code=1).stdout)
    assert (failed["partition"], failed["state"]) == (DAY, "failed")


def test_a_stream_that_takes_another_delivery_is_an_error_before_anything_is_sent(run: Run, source: Source) -> None:
    source.publish(prices(tea=2.5))
    source.publish(prices(tea=2.5), NEXT_DAY)
    with turn_of("local://prices", Store(Settings.from_environment().state)):
        assert run("run", "prices", code=1).stderr.count("is taking another delivery") == 1
    assert [each["state"] for each in json.loads(run("ls", "prices", "--json").stdout)] == ["new", "new"]


def test_mistakes_are_named_with_what_to_do(run: Run, source: Source, tmp_path: Path) -> None:
    assert "nope is no destination of" in (wrong := run("run", "nope", code=2).stderr)
    assert "there are prices" in wrong
    for command in ("run", "replay"):
        assert "has no valid update, and none was delivered" in run(command, "prices", "-p", DAY, code=3).stderr
    assert "Nothing was delivered to prices of 2019-11-24 yet." in run("audit", "prices", "-p", DAY, code=1).stderr
    assert f"Its feed file://{tmp_path}/base/{LOCATION} has no valid update yet." in run("run", "prices").stdout
    assert "has 1 column (product), and 2 values came" in run("lookup", "prices", "a", "b", code=2).stderr
    assert "leave it out, or set `values: per_partition`" in run("lookup", "prices", "a", "-p", DAY, code=2).stderr
    assert "sqlite has no value for tea of prices." in run("lookup", "prices", "tea", code=1).stderr

    path = tmp_path / "deliveries/prices.yaml"
    path.write_text(YAML.replace("local://prices?shards=2", "kafka://x").replace("store", "stor"))
    shown = run("ls", code=2).stderr
    assert f"{path}:3: stream: is wrong: 'kafka://x' is no stream" in shown
    assert f"{path}:6: stor" in shown
    path.unlink()
    assert f"There is no destination: write {tmp_path}/deliveries/NAME.yaml." in run("ls").stderr


def test_a_destination_that_was_changed_is_refused_although_nothing_is_due(
    run: Run, source: Source, tmp_path: Path
) -> None:
    source.publish(prices(tea=2.5))
    run("run", "prices")
    path = tmp_path / "deliveries/prices.yaml"
    path.write_text(YAML.replace("store: sqlite", f"store: sqlite:///{tmp_path}/other.db"))

    for command in (["run"], ["consume", "--until-idle"], ["shards"], ["lookup", "tea"], ["replay", "-p", DAY]):
        shown = run(command[0], "prices", *command[1:], code=2).stderr
        assert f"{path}:6: store: is " in shown
        assert "write 'sqlite' again, or choose a new name for the destination" in shown
    # What was delivered can still be looked at.
    assert "delivered" in run("ls", "prices").stdout

    assert run("moved", "prices").stdout == "prices: store moved.\n"
    assert run("moved", "prices").stdout == "prices: nothing has moved.\n"
    run("consume", "prices", "--until-idle")
    assert "tea" in run("lookup", "prices", "tea").stdout
    path.write_text(path.read_text().replace("key: [product]", "key: [price]"))
    assert "write ['product'] again" in run("moved", "prices", code=2).stderr


def test_a_lookup_takes_and_shows_values_as_records_have_them(run: Run, source: Source, tmp_path: Path) -> None:
    columns = {
        "name": ["7"], "number": [-5], "price": [Decimal("1.10")], "active": [True], "day": [date(2024, 1, 1)],
        "at": [datetime(2024, 1, 1, tzinfo=UTC)], "id": [1234567], "tags": [["a", None]], "gone": [None],
    }  # fmt: skip
    key = [*columns][:6]
    source.publish(pa.table(columns))
    text = YAML.replace("key: [product]", f"key: [{', '.join(key)}]")
    (tmp_path / "deliveries/prices.yaml").write_text(
        text.replace("columns: [product, price]", f"columns: [{', '.join(columns)}]")
    )
    run("run", "prices")
    run("consume", "prices", "--until-idle")
    values = ["7", "-5", "1.10", "true", "2024-01-01", "2024-01-01T00:00:00.000000Z"]

    shown = run("lookup", "prices", *values).stdout.splitlines()

    assert [line.split(maxsplit=1)[1] for line in shown[:-1]] == [*values, "1234567", '["a", null]', "null"]
    assert json.loads(run("lookup", "prices", *values, "--json").stdout)["row"]["number"] == -5
    missing = run("lookup", "prices", "8", *values[1:], "--json", code=1)
    assert json.loads(missing.stdout) is None
    assert "has no value for 8 -5" in missing.stderr


def test_the_password_of_a_store_is_neither_shown_nor_kept(
    run: Run, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deliveries/prices.yaml"
    path.write_text(YAML.replace("store: sqlite", "store: redis://:s3cret@127.0.0.1:1/0"))
    refused = run("ls", code=2)
    assert "user and password are in the variable FEED_ASSETS_STORE_<DESTINATION>" in " ".join(refused.stderr.split())
    assert "s3cret" not in refused.output
    path.write_text(YAML.replace("store: sqlite", "store: redis://127.0.0.1:1/0"))
    monkeypatch.setenv("FEED_ASSETS_STORE_PRICES", '{"password": "s3cret"}')
    source.publish(prices(tea=2.5))

    told = [
        run("ls"), run("ls", "--json"), run("run", "prices"), run("show", "prices", "--json"),
        run("lookup", "prices", "tea", code=1), run("consume", "prices", "--until-idle", code=1),
    ]  # fmt: skip
    kept = [each for each in tmp_path.rglob("*") if each.is_file() and b"s3cret" in each.read_bytes()]

    assert not [each for each in told if "s3cret" in each.output]
    assert "redis://127.0.0.1:1/0" in told[0].stdout
    assert kept == []


def test_doctor_looks_at_stream_and_store_and_makes_neither(run: Run, source: Source, tmp_path: Path) -> None:
    def examined() -> dict[str, tuple[str, str]]:
        found = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)
        return {each["check"]: (each["state"], each["found"]) for each in found if "prices" in f"{each}"}

    before = set(tmp_path.rglob("*.db"))
    found = examined()
    assert found["deliveries"] == ("ok", f"1 destination in {tmp_path}/deliveries: prices")
    assert [found[f"prices: {each}"][0] for each in ("stream", "store")] == ["warning", "warning"]
    assert set(tmp_path.rglob("*.db")) == before

    source.publish(prices(tea=2.5))
    run("run", "prices")
    run("consume", "prices", "--until-idle")
    found = examined()
    assert found["prices: stream"] == ("ok", "local://prices answers: 2 open shards, 2,000 records a second")
    assert found["prices: store"][0] == "ok"

    (tmp_path / "deliveries/prices.yaml").write_text("name: [")
    assert examined()["deliveries"][0] == "fails"
