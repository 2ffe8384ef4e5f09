"""`feed-assets warehouse`: what it loads and shows, and what it says of wrong settings; it never shows a password."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from feed_assets.blackboard.location import open_blackboard
from feed_assets.cli.main import main
from feed_assets.resources.settings import Settings
from feed_assets.warehouse.address import open_warehouse
from feed_assets.warehouse.port import WarehouseError
from feed_assets_tests.harness import DAY, EFFECTIVENESS, NEXT_DAY, SHOP_ADS, SHOP_CLICKS, write_sources
from feed_assets_tests.state.server import SECRET
from feed_assets_tests.warehouse.feeds import Source
from feed_assets_tests.warehouse.test_in_dagster import ads

Run = Callable[..., Result]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """The feed of an installation with a warehouse, which the commands work on."""
    for name, value in {
        "BASE": tmp_path / "base",
        "SOURCES": write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS),
        "WAREHOUSE": f"duckdb:///{tmp_path}/warehouse.db",
        "AS_OF": "2019-12-02",
    }.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", str(value))
    return Source(board=open_blackboard(str(tmp_path / "base")), location=EFFECTIVENESS, table="ad_effectiveness")


@pytest.fixture
def run() -> Run:
    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["warehouse", *arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return run


def test_what_is_behind_is_loaded_and_its_status_shown(run: Run, source: Source) -> None:
    first, second = source.publish(ads(2)), source.publish(ads(3), NEXT_DAY)

    assert run("load", "--from", NEXT_DAY).stdout == f"ad_effectiveness {NEXT_DAY}  loaded  3 rows of {second}\n"
    shown = json.loads(run("status", "--json").stdout)
    assert [(each["partition"], each["state"], each["in_force"], each.get("update")) for each in shown] == [
        (DAY, "not loaded", first, None),
        (NEXT_DAY, "loaded", second, second),
    ]
    assert json.loads(run("load", "--json").stdout) == [
        {"table": "ad_effectiveness", "partition": DAY, "state": "loaded", "update": first, "rows": 2}
    ]
    assert run("load").stdout == "Every table has the updates in force.\n"
    assert "unchanged" in run("load", "--to", DAY, "--feed", EFFECTIVENESS).stdout

    source.invalidate(first)
    assert f"{DAY}  loaded  no update is in force, no rows" in run("load", "--feed", "ad_effectiveness").stdout
    lines = run("status").stdout.splitlines()
    assert lines[0].split()[:4] == ["table", "partition", "state", "in"]
    assert lines[1].split()[:4] == ["ad_effectiveness", DAY, "loaded", "-"]


def test_rows_stay_while_the_disk_of_the_base_is_not_mounted(run: Run, source: Source, tmp_path: Path) -> None:
    update = source.publish(ads(2))
    run("load")
    (tmp_path / "base").rename(tmp_path / "elsewhere")
    (tmp_path / "base").mkdir()

    assert "is empty: its disk is not mounted" in run("load", code=1).stderr

    (tmp_path / "base").rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / "base")
    (row,) = json.loads(run("status", "--json").stdout)
    assert (row["state"], row["update"], row["rows"], row["number"]) == ("loaded", update, 2, 1)


def test_a_time_without_partitions_does_not_say_that_tables_are_up_to_date(run: Run, source: Source) -> None:
    source.publish(ads(1))

    for command in "load", "status":
        result = run(command, "--from", "2019-12-01")
        assert (result.stdout, result.stderr) == ("", "No feed with a table has a partition in this time.\n")

    assert "loaded  1 row of" in run("load").stdout
    assert "2019-12-02 00:00:00" in run("status").stdout  # a time is written as by other commands


def test_a_project_without_a_table_is_not_said_to_be_loaded(run: Run, source: Source, tmp_path: Path, monkeypatch):
    source.publish(ads(1))
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(write_sources(tmp_path / "only-ads", SHOP_ADS)))

    for command in "load", "status":
        result = run(command, code=1)
        assert "No feed of feed_assets.definitions has a table" in result.stderr
        assert result.stdout == ""


def test_a_narrow_terminal_shows_of_which_table_a_partition_is(run: Run, source: Source, monkeypatch) -> None:
    source.publish(ads(1))
    monkeypatch.setattr("feed_assets.cli.output.terminal_width", lambda _=None: 44)

    assert "ad_effectiveness" in run("status").stdout


def test_a_partition_that_fails_holds_back_no_other(run: Run, source: Source) -> None:
    source.publish(ads(2))
    source.board.create(f"{EFFECTIVENESS}/2019-11-23/20191130.000000/part-0.parquet", b"no parquet")
    source.board.create(f"{EFFECTIVENESS}/2019-11-23/20191130.000000/_SUCCESS", b"1")

    result = run("load", code=1)
    assert f"ad_effectiveness {DAY}  loaded  2 rows" in result.stdout
    assert "ad_effectiveness 2019-11-23: The update's files cannot be loaded" in result.stderr
    assert "1 of 2 partitions failed." in result.stderr


def test_wrong_requests_say_what_to_do(run: Run, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "clean-ads has no table. Feeds with tables: ad-effectiveness/v1.0 (ad_effectiveness)." in " ".join(
        run("load", "--feed", "clean-ads", code=2).stderr.split()
    )
    for command in ("load", "status"):
        backwards = run(command, "--from", "2019-11-29", "--to", "2019-11-24", code=2)
        assert "2019-11-24 is before 2019-11-29." in backwards.stderr
        assert backwards.stdout == ""
    monkeypatch.setenv("FEED_ASSETS_WAREHOUSE", "postgresql://owner:tiger@127.0.0.1:1/none")
    stderr = run("status", code=1).stderr
    assert "postgresql://owner@127.0.0.1:1/none" in stderr
    assert "Check FEED_ASSETS_WAREHOUSE and the server" in stderr
    assert "tiger" not in stderr
    monkeypatch.delenv("FEED_ASSETS_WAREHOUSE")
    assert "There is no warehouse: set FEED_ASSETS_WAREHOUSE" in run("status", code=1).stderr


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:tiger@h/d",
        "duckdb://tiger/x",
        "duckdb:///",
        "duckdb:///:memory:",
        "duckdb:///tiger#2.db",
        "tiger",
        "postgresql://u:ti@ger@h:x/d",
        "postgresql://u:2024@tiger@h/d",
        "snowflake://u:tiger@a/d",
        "postgresql://u:ti%2tiger@h/d",
        "postgresql://u@h/d?password=tiger%zz",
        "postgresql://u:2024#tiger@h/d",
        "postgresql://u:2024?tiger@h/d",
        "snowflake://u:2/a/tiger?b@a/d/s",
    ],
)
def test_a_url_that_cannot_be_used_is_not_shown(url: str) -> None:
    with pytest.raises(WarehouseError, match="FEED_ASSETS_WAREHOUSE must be duckdb:") as error:
        Settings.from_environment({"FEED_ASSETS_WAREHOUSE": url})
    assert "tiger" not in str(error.value)


def test_options_that_postgresql_cannot_read_are_not_shown(run: Run, monkeypatch: pytest.MonkeyPatch, source: Source):
    monkeypatch.setenv("FEED_ASSETS_WAREHOUSE", "postgresql://u@127.0.0.1:1/d?tiger=tiger")
    stderr = run("status", code=1).stderr
    assert "postgresql://u@127.0.0.1:1/d: PostgreSQL cannot read the URL in FEED_ASSETS_WAREHOUSE" in stderr
    assert "tiger" not in stderr


def test_no_error_title_or_setting_shows_a_password(server: str, source: Source) -> None:
    warehouse = open_warehouse(f"{server}/nowhere")
    with pytest.raises(WarehouseError, match='database "nowhere" does not exist') as error:
        source.load(warehouse)
    settings = Settings.from_environment({"FEED_ASSETS_WAREHOUSE": f"{server}/nowhere"})

    assert error.value.__cause__ is None
    assert not any(SECRET in text for text in (str(error.value), warehouse.title, repr(settings)))
    assert settings.warehouse.endswith("nowhere")
