"""The table of a feed in Dagster: an asset below the feed, loaded by a sensor when another update is in force."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.test_utils import create_run_for_test

from feed_assets.ads.schemas import AD_CATALOG
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import publish
from feed_assets.project.assembly import Project
from feed_assets.resources.event_log import event_log
from feed_assets.starts.requests import MAX_REQUESTS
from feed_assets.warehouse.address import open_warehouse
from feed_assets.warehouse.port import Warehouse, WarehouseError
from feed_assets_tests.harness import (
    DAY,
    EFFECTIVENESS,
    NEXT_DAY,
    Installation,
    Interposed,
    between,
    failed_checks,
    messages,
    second_read,
    using_board,
)
from feed_assets_tests.warehouse.feeds import Source, counts

TABLE, ASSET = "ad_effectiveness", "warehouse/ad_effectiveness"


@pytest.fixture
def store(desk: Installation, tmp_path) -> Installation:
    """The worked example with a warehouse."""
    settings = replace(desk.settings, warehouse=f"duckdb:///{tmp_path}/warehouse.db")
    return replace(desk, settings=settings, _definitions=None)


@pytest.fixture
def warehouse(store: Installation) -> Warehouse:
    return open_warehouse(store.settings.warehouse)


@pytest.fixture
def source(store: Installation) -> Source:
    """Publishes effectiveness, as a run or another program does."""
    return Source(board=store.board, location=EFFECTIVENESS, table=TABLE)


def ads(count: int) -> pa.Table:
    return pa.table({"ad_id": [f"ad {number}" for number in range(count)], "impressions": [1] * count})


def tick(store: Installation) -> list[str]:
    """The sensors after a change: what the loading sensor requests is run; returns the reasons."""
    store.tick("new_manifests")
    asked = store.tick("warehouse_loads")
    for result in store.execute(asked):
        assert result.success, messages(result)
        assert failed_checks(result) == []
    return [request.tags["feed_assets/why"] for request in asked.requests]


def shown(store: Installation, day: str = DAY) -> dg.AssetMaterialization:
    where = dg.AssetRecordsFilter(asset_key=dg.AssetKey(["warehouse", TABLE]), asset_partitions=[day])
    return store.instance.fetch_materializations(where, limit=1).records[0].asset_materialization


def test_each_change_of_the_update_in_force_is_loaded_once(store, warehouse, source) -> None:
    assert tick(store) == []

    old = source.publish(ads(3))
    assert tick(store) == [f"ad-effectiveness/v1.0 is {old} now, the table has none"]
    assert counts(warehouse, table=TABLE) == {old: 3}
    assert tick(store) == []

    new = source.publish(ads(4))
    assert len(tick(store)) == 1
    assert counts(warehouse, table=TABLE) == {new: 4}

    source.invalidate(new)
    assert tick(store) == [f"ad-effectiveness/v1.0 is {old} now, the table has {new}"]
    assert counts(warehouse, table=TABLE) == {old: 3}

    source.invalidate(old)
    assert tick(store) == [f"ad-effectiveness/v1.0 is none now, the table has {old}"]
    assert counts(warehouse, table=TABLE) == {}
    assert tick(store) == []


def test_the_asset_shows_what_was_loaded(store, source) -> None:
    update = source.publish(ads(3))
    tick(store)

    metadata = shown(store).metadata
    assert {name: metadata[name].value for name in ("update", "state", "dagster/row_count", "loads so far")} == {
        "update": update,
        "state": "in force",
        "dagster/row_count": 3,
        "loads so far": 1,
    }
    assert metadata["table"].value == f"{store.settings.warehouse} {TABLE}"
    assert metadata["seconds"].value >= 0


def test_a_load_waits_for_the_audit_of_an_update_that_another_run_has_staged(store, warehouse, source) -> None:
    maker = create_run_for_test(store.instance, status=dg.DagsterRunStatus.STARTED)
    staged = source.stage(ads(3), run_id=maker.run_id)
    waiting = second_read(store, EFFECTIVENESS, lambda: publish(staged, now=source.now()))

    result = waiting.run(ASSET)

    assert result.success, messages(result)
    assert counts(warehouse, table=TABLE) == {staged.claim.name: 3}


def test_a_tick_reads_dagsters_partitions_only_after_an_event_on_a_table_or_its_feed(store, source, monkeypatch):
    source.publish(ads(3))
    tick(store)
    log, asked = event_log(store.instance), []
    ask = log.get_latest_tags_by_partition
    monkeypatch.setattr(
        log, "get_latest_tags_by_partition", lambda key, *more, **named: asked.append(key) or ask(key, *more, **named)
    )
    found = []
    for change in (lambda: None, lambda: None, lambda: source.publish(ads(4)), lambda: None, lambda: None):
        change()
        store.tick("new_manifests")
        asked.clear()
        requested = store.tick("warehouse_loads")
        found.append((len(requested.requests), len(asked)))
        store.execute(requested)
    assert found == [(0, 2), (0, 0), (1, 2), (0, 2), (0, 0)]


def test_a_tick_without_news_asks_neither_the_storage_nor_the_warehouse(store, source, monkeypatch) -> None:
    source.publish(ads(3))
    tick(store)
    store.tick("new_manifests")

    asked: list[str] = []
    monkeypatch.setattr(
        "feed_assets.warehouse.duckdb_file.DuckdbWarehouse.open", lambda *_, **__: asked.append("warehouse")
    )
    quiet = using_board(store, Interposed(store.board, lambda operation, _: asked.append(operation)))
    assert quiet.tick("warehouse_loads").requests == ()
    assert asked == []


def test_while_a_load_is_under_way_a_tick_does_not_look_at_its_day(store, source) -> None:
    source.publish(ads(3))
    store.tick("new_manifests")
    (request,) = store.tick("warehouse_loads").requests
    tags = {**request.tags, "dagster/partition": DAY}
    selection = frozenset(request.asset_selection)
    create_run_for_test(store.instance, status=dg.DagsterRunStatus.STARTED, tags=tags, asset_selection=selection)

    asked: list[str] = []
    quiet = using_board(store, Interposed(store.board, lambda operation, _: asked.append(operation)))
    assert quiet.tick("warehouse_loads").requests == ()
    assert asked == []


def test_a_load_outside_dagster_is_reported_and_not_repeated(store, warehouse, source) -> None:
    update = source.publish(ads(2))
    source.load(warehouse)
    store.tick("new_manifests")

    asked = store.tick("warehouse_loads")
    assert asked.requests == ()
    assert asked.reported == [(ASSET, DAY, update)]
    assert store.tick("warehouse_loads").reported == []


def test_the_check_finds_rows_that_are_not_as_recorded_and_a_materialization_repairs_them(
    store, warehouse, source
) -> None:
    source.publish(ads(2))
    tick(store)
    with warehouse.open(writes=True) as connection:
        warehouse.execute(connection, f"DELETE FROM {TABLE} WHERE ad_id = 'ad 1'")

    assert failed_checks(store.check(ASSET)) == ["rows_as_published"]
    assert failed_checks(store.run(ASSET)) == []
    source.publish(ads(2), stated=3)
    assert failed_checks(store.run(ASSET)) == ["rows_as_published"]


def test_a_run_over_several_days_loads_each_and_the_sensor_corrects_what_dagster_shows(
    store, warehouse, source
) -> None:
    first, second = source.publish(ads(1)), source.publish(ads(2), NEXT_DAY)

    result = store.run(ASSET, day=None, tags=between(DAY, NEXT_DAY))
    assert result.success, messages(result)
    assert counts(warehouse, [DAY, NEXT_DAY], table=TABLE) == {first: 1, second: 2}

    assert tick(store) == []
    assert [shown(store, day).tags["dagster/data_version"] for day in (DAY, NEXT_DAY)] == [first, second]


def test_a_day_that_was_never_published_fails_and_says_so(store) -> None:
    result = store.run(ASSET)

    assert not result.success
    assert any("ad-effectiveness/v1.0 2019-11-24 has no valid update" in each for each in messages(result))


def test_a_warehouse_that_is_busy_is_asked_again_in_the_next_tick(store, source, monkeypatch) -> None:
    source.publish(ads(1))
    store.tick("new_manifests")

    def busy(*_: object, **__: object) -> None:
        raise WarehouseError("the file is in use", transient=True)

    with monkeypatch.context() as patched:
        patched.setattr("feed_assets.warehouse.duckdb_file.DuckdbWarehouse.open", busy)
        assert "the file is in use" in store.tick("warehouse_loads").skipped
    assert len(tick(store)) == 1


CATALOG = dg.AssetSpec("catalog", metadata=feed_metadata("catalog/v1.0", AD_CATALOG, warehouse="catalog"))


def test_a_feed_without_partitions_is_loaded_as_well(store, warehouse, capsys) -> None:
    whole = replace(store, _definitions=Project(store.settings, ()).definitions(assets=[CATALOG]))
    source = Source(board=store.board, location="catalog/v1.0", table="catalog")
    for count in (2, 3):
        update = source.publish(ads(count), None)
        whole.tick("new_manifests")
        (request,) = whole.tick("warehouse_loads").requests
        assert request.partition_key is None
        result = whole.run("warehouse/catalog", day=None, tags=request.tags)
        assert result.success, messages(result)
        assert warehouse.count("catalog", "") == {update: count}
    assert whole.tick("warehouse_loads").requests == ()

    assert "warehouse/catalog: run requested" in capsys.readouterr().err


def test_a_feed_without_partitions_is_not_loaded_by_two_runs_at_once(store) -> None:
    whole = replace(store, _definitions=Project(store.settings, ()).definitions(assets=[CATALOG]))
    source = Source(board=store.board, location="catalog/v1.0")
    asked = []
    for count in (2, 3):
        source.publish(ads(count), None)
        whole.tick("new_manifests")
        asked.append(whole.tick("warehouse_loads"))
        whole.fail(asked[-1], dg.DagsterRunStatus.STARTED)
    assert [len(tick.requests) for tick in asked] == [1, 0]


def test_a_table_with_more_to_load_than_a_tick_requests_does_not_keep_the_others_waiting(store) -> None:
    daily = dg.DailyPartitionsDefinition("2019-11-01")
    long, short = (
        dg.AssetSpec(name, metadata=feed_metadata(f"{name}/v1.0", AD_CATALOG, warehouse=name), partitions_def=daily)
        for name in ("long", "short")
    )
    both = replace(store, _definitions=Project(store.settings, ()).definitions(assets=[long, short]))
    for number in range(1, MAX_REQUESTS + 4):
        Source(board=store.board, location="long/v1.0").publish(ads(1), f"2019-11-{number:02}")
    Source(board=store.board, location="short/v1.0").publish(ads(1), DAY)
    both.tick("new_manifests")

    assert len(both.tick("warehouse_loads").requests) == MAX_REQUESTS
    requested = [request.asset_selection[0] for request in both.tick("warehouse_loads").requests]
    assert requested == [dg.AssetKey(["warehouse", "short"]), *[dg.AssetKey(["warehouse", "long"])] * 3]


def test_without_a_warehouse_there_is_no_table_and_no_sensor(desk) -> None:
    assert not any(key.path[0] == "warehouse" for key in desk.definitions.resolve_asset_graph().get_all_asset_keys())
    assert "warehouse_loads" not in [each.name for each in desk.definitions.sensors]


def test_two_feeds_cannot_have_one_table_and_a_table_needs_a_plain_name(store) -> None:
    assets = [dg.AssetSpec(name, metadata=feed_metadata(f"{name}/v1.0", AD_CATALOG, warehouse="one")) for name in "ab"]
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"a/v1.0 and b/v1.0 name the same table, one"):
        Project(store.settings, ()).definitions(assets=assets)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="'a; DROP' cannot be a table"):
        feed_metadata("a/v1.0", AD_CATALOG, warehouse="a; DROP")
