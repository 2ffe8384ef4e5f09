"""The sensor that describes feeds and raw hours in Glue (emulated), and the command that compares and repairs."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from feed_assets.blackboard.location import open_blackboard
from feed_assets.cli.main import main
from feed_assets.data_catalog.glue import CatalogError, GlueCatalog
from feed_assets.resources.data_catalog import CatalogResource
from feed_assets.resources.event_log import event_log
from feed_assets.resources.settings import Settings
from feed_assets_tests.harness import DAY, EFFECTIVENESS, NEXT_DAY, SHOP_ADS, SHOP_CLICKS, Installation, write_sources
from feed_assets_tests.warehouse.feeds import Source

if TYPE_CHECKING:
    from pathlib import Path

RAW, FEED = "raw_ads_shop_ads", "ad_effectiveness_v1_0"


CATALOGS: dict[str, GlueCatalog] = {}


class OfTest(CatalogResource):
    """The catalog of a test, whose requests are counted: Dagster makes the resource anew for each tick."""

    @property
    def catalog(self) -> GlueCatalog:
        return CATALOGS[self.database]


@pytest.fixture
def described(desk: Installation, catalog: GlueCatalog) -> Installation:
    """The worked example with a catalog."""
    settings = replace(desk.settings, catalog=catalog.database)
    CATALOGS[catalog.database] = catalog
    return replace(desk, settings=settings, _definitions=None).using(catalog=OfTest(database=catalog.database))


def partitions(catalog: GlueCatalog, table: str) -> dict[str, str | None]:
    return {"/".join(values): each.update for values, each in catalog.partitions(table).items()}


def tick(installation: Installation) -> str:
    for name in ("landings", "new_manifests"):
        installation.tick(name)
    return installation.tick("data_catalog").skipped or ""


def test_what_dagster_shows_is_described_and_a_quiet_tick_asks_nothing(described, catalog, requests) -> None:
    described.raw_bytes(DAY, {"a": 10})
    first = described.relate(DAY)
    tick(described)
    assert partitions(catalog, RAW) == {f"{DAY}/12": None}
    assert partitions(catalog, FEED) == {DAY: first}

    requests.clear()
    assert tick(described) == "The catalog has what Dagster shows."
    assert requests == Counter()

    described.raw_bytes(DAY, {"a": 10}, hour="13")
    described.raw_bytes(NEXT_DAY, {"a": 10})
    second = described.relate(NEXT_DAY)
    tick(described)
    assert requests == Counter({"GetTables": 1, "GetPartitions": 2, "BatchCreatePartition": 2})
    assert partitions(catalog, RAW) == {f"{DAY}/12": None, f"{DAY}/13": None, f"{NEXT_DAY}/12": None}
    assert partitions(catalog, FEED) == {DAY: first, NEXT_DAY: second}


def test_a_tick_reads_the_partitions_only_of_tables_with_new_events(described, catalog, monkeypatch) -> None:
    described.raw_bytes(DAY, {"a": 10})
    described.relate(DAY)
    tick(described)
    log, asked = event_log(described.instance), []

    def counting(ask):
        return lambda key, *more, **named: asked.append(key.to_user_string()) or ask(key, *more, **named)

    for name in ("get_latest_tags_by_partition", "get_materialized_partitions"):
        monkeypatch.setattr(log, name, counting(getattr(log, name)))
    described.tick("data_catalog")
    assert asked == []

    later = described.at(described.now + timedelta(hours=1))
    second = later.relate(DAY)
    later.tick("new_manifests")
    asked.clear()
    for _ in range(2):
        later.tick("data_catalog")
    assert asked == ["ad_effectiveness"]
    assert partitions(catalog, FEED) == {DAY: second}


def test_a_partition_of_an_invalidated_update_goes_back(described, catalog) -> None:
    first = described.relate(DAY)
    later = described.at(described.now + timedelta(hours=1))
    second = later.relate(DAY)
    tick(later)
    assert partitions(catalog, FEED) == {DAY: second}

    Source(board=described.board, location=EFFECTIVENESS, time=later.now).invalidate(second)
    tick(later)
    assert partitions(catalog, FEED) == {DAY: first}

    Source(board=described.board, location=EFFECTIVENESS, time=later.now).invalidate(first)
    tick(later)
    assert partitions(catalog, FEED) == {}


def test_a_long_history_is_described_in_several_ticks(described, catalog, monkeypatch) -> None:
    monkeypatch.setattr(importlib.import_module("feed_assets.sensors.data_catalog"), "MOST", 2)
    for hour in ("01", "02", "03", "04", "05"):
        described.raw_bytes(DAY, {"a": 10}, hour=hour)
    described.tick("landings")
    found = []
    for _ in range(4):
        described.tick("data_catalog")
        found.append(len(partitions(catalog, RAW)))
    assert found == [2, 4, 5, 5]


def test_a_tick_without_time_describes_one_table_and_the_next_tick_the_next(described, catalog, monkeypatch) -> None:
    monkeypatch.setattr(importlib.import_module("feed_assets.sensors.data_catalog"), "MOST", 1)
    monkeypatch.setattr(importlib.import_module("feed_assets.sensors.data_catalog"), "TICK_SECONDS", -1)
    described.raw_bytes(DAY, {"a": 10})
    described.raw_bytes(NEXT_DAY, {"a": 10})
    for day in (DAY, NEXT_DAY):
        described.relate(day)
    found = []
    for _ in range(4):
        tick(described)
        found.append((len(partitions(catalog, FEED)), len(partitions(catalog, RAW))))
    assert found == [(1, 0), (1, 1), (2, 1), (2, 2)]


def test_a_catalog_that_cannot_be_reached_is_tried_again_and_a_wrong_one_fails_the_tick(
    described, catalog, monkeypatch
) -> None:
    described.relate(DAY)
    described.tick("new_manifests")
    for transient in (True, False):

        def fail(_: GlueCatalog, transient: bool = transient) -> None:
            raise CatalogError("glue://x does not answer", transient=transient)

        with monkeypatch.context() as during:
            during.setattr(GlueCatalog, "tables", fail)
            if transient:
                assert "does not answer" in described.tick("data_catalog").skipped
            else:
                with pytest.raises(CatalogError):
                    described.tick("data_catalog")
    assert described.tick("data_catalog").skipped == f"{FEED}: 2 described"


def test_a_table_that_cannot_be_described_holds_back_no_other(described, catalog, tmp_path) -> None:
    described.publish(EFFECTIVENESS, DAY, {"ads.orc": "ORC"}, tmp_path / "orc")
    described.process(DAY)
    described.tick("new_manifests")

    for _ in range(2):
        tick = described.tick("data_catalog")
        assert f"{FEED} is not described in {catalog.title}: " in tick.skipped
        assert "/ads.orc has a format that Glue is not told about" in tick.skipped
    assert list(partitions(catalog, "clean_ads_v1_0"))


@pytest.fixture
def run(glue, s3_client, catalog: GlueCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The command, in an installation whose data is in a bucket."""
    bucket = catalog.database.replace("_", "-")
    s3_client.create_bucket(Bucket=bucket)
    for name, value in {
        "BASE": f"s3://{bucket}/data",
        "SOURCES": write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS),
        "STATE": f"sqlite:///{tmp_path}/state.db",
        "CATALOG": f"glue://{catalog.database}",
        "AS_OF": "2019-12-02",
        "FIRST_DAY": "2019-11-01",
    }.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", str(value))

    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["catalog", "reconcile", *arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return run


def test_the_command_shows_drift_repairs_it_and_names_the_tables_of_this_base_that_nothing_needs(
    run, catalog, glue
) -> None:
    source = Source(board=open_blackboard(Settings.from_environment().base), location=EFFECTIVENESS)
    name = source.publish(1)
    assert f"{FEED} {DAY}: missing" in run("--dry-run", code=1).stdout
    assert catalog.tables() == {}

    assert "differences, repaired." in run().stdout
    assert partitions(catalog, FEED) == {DAY: name}
    assert run("--dry-run").stdout == f"{catalog.title}: no difference.\n"

    old = {"Name": "old_v1_0", "Parameters": {"feed_assets.owner": source.board.uri("old/v1.0")}}
    glue.create_table(DatabaseName=catalog.database, TableInput=old)
    base = source.board.uri("x").removesuffix("/x")
    of_another_base = {"Name": "others_v1_0", "Parameters": {"feed_assets.owner": f"{base}-eu/others/v1.0"}}
    glue.create_table(DatabaseName=catalog.database, TableInput=of_another_base)
    glue.delete_partition(DatabaseName=catalog.database, TableName=FEED, PartitionValues=[DAY])
    assert json.loads(run("--json").stdout) == {
        "repaired": True,
        "drift": [{"table": FEED, "partition": DAY, "problem": "missing"}],
        "unknown_tables": ["old_v1_0"],
    }


def test_many_partitions_of_one_problem_are_told_in_a_line(run) -> None:
    source = Source(board=open_blackboard(Settings.from_environment().base), location=EFFECTIVENESS)
    for number in range(11):
        source.publish(1, f"2019-11-{number + 10}")

    lines = run("--dry-run", code=1).stdout.splitlines()

    assert [line for line in lines if line.startswith(FEED)] == [
        f"{FEED} (table): missing",
        f"{FEED} 2019-11-10 ... 2019-11-20, 11 partitions: missing; --json names each",
    ]


def test_one_table_that_fails_holds_back_no_other(run, catalog, glue) -> None:
    glue.create_database(DatabaseInput={"Name": catalog.database})
    glue.create_table(DatabaseName=catalog.database, TableInput={"Name": FEED})

    result = run(code=1)
    assert f"Error: {FEED}: The table {FEED} in {catalog.title} belongs to somebody else" in result.stderr
    assert {"clean_ads_v1_0", "clean_clicks_v1_0"} <= set(catalog.tables())


def test_a_damaged_raw_file_that_names_the_columns_holds_back_no_other_table(
    run, catalog, tmp_path, monkeypatch
) -> None:
    text = SHOP_ADS.replace(", columns: [id, time, ad, campaign, user, place, cost]", "")
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(write_sources(tmp_path / "own", text, SHOP_CLICKS)))
    board = open_blackboard(Settings.from_environment().base)
    board.create(f"raw/ads/shop_ads/{DAY}/05/a.parquet", b"no parquet")

    result = run(code=1)

    uri = board.uri(f"raw/ads/shop_ads/{DAY}/05/a.parquet")
    assert f"Error: {RAW}: {uri} is damaged" in result.stderr
    assert {"clean_ads_v1_0", FEED} <= set(catalog.tables())


def test_without_a_catalog_the_command_says_how_to_name_one(run, monkeypatch) -> None:
    monkeypatch.delenv("FEED_ASSETS_CATALOG")
    assert "There is no catalog: set FEED_ASSETS_CATALOG to glue://database." in run(code=1).stderr
    monkeypatch.setenv("FEED_ASSETS_CATALOG", "glue://No")
    assert "takes glue://database" in run(code=1).stderr
