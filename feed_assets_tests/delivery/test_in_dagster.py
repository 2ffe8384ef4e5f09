"""Deliveries in Dagster: an asset below the feed, run by a sensor when another update is in force; and its checks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import msgspec
import pyarrow as pa
import pytest
from dagster._core.test_utils import create_run_for_test
from pyspark.sql.types import DoubleType, LongType, MapType, StringType, StructField, StructType

import feed_assets as fa
from feed_assets.assets.deliveries import delivery_metadata
from feed_assets.delivery.client.settings import Series
from feed_assets.delivery.consuming.starting import consumer_of
from feed_assets.delivery.delivering import Deliverer
from feed_assets.delivery.destination import load_destination
from feed_assets.delivery.errors import DestinationError, StreamBusyError
from feed_assets.delivery.ledger import Base, Begun, Ended
from feed_assets.delivery.lookups import store_of
from feed_assets.delivery.turn import LEASE, turn_of
from feed_assets.file_feed.feed import Feed
from feed_assets.project.assembly import Project
from feed_assets_tests.harness import DAY, NEXT_DAY, Installation, Tick, between, messages
from feed_assets_tests.warehouse.feeds import Source

DELIVERY, LOCATION = "delivery/prices", "prices/v1.0"
SCHEMA = StructType([StructField("product", StringType()), StructField("price", DoubleType())])
YAML = """\
name: prices
feed: prices/v1.0
stream: local://prices?shards=2
key: [product]
columns: [product, price]
store: sqlite
"""
DAYS = dg.DailyPartitionsDefinition("2019-11-20")


def priced(schema: StructType = SCHEMA, *, identity: tuple[str, ...] = ("product",), **more: Any) -> dg.AssetSpec:
    metadata = fa.feed_metadata(LOCATION, schema, identity=identity)
    return dg.AssetSpec("prices", metadata=metadata, **{"partitions_def": DAYS, **more})


@pytest.fixture
def described(desk: Installation) -> Callable[[str], Path]:
    """Writes the YAML of the destination."""

    def write(text: str) -> Path:
        path = desk.settings.deliveries_directory / "prices.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def delivering(desk: Installation, asset: dg.AssetSpec, *more: dg.AssetSpec, name: str = "prices") -> Installation:
    """The installation with a feed of others that is delivered."""
    definitions = Project(desk.settings, ()).definitions(assets=[asset, fa.delivered(asset, name), *more])
    return replace(desk, _definitions=definitions)


@pytest.fixture
def store(desk: Installation, described: Callable[[str], Path]) -> Installation:
    described(YAML)
    return delivering(desk, priced())


@pytest.fixture
def source(store: Installation) -> Source:
    """Publishes prices, as a run or another program does."""
    return Source(board=store.board, location=LOCATION)


def prices(**of: float) -> pa.Table:
    return pa.table({"product": list(of), "price": list(of.values())})


def deliverer(store: Installation) -> Deliverer:
    to = load_destination(store.settings.deliveries_directory / "prices.yaml")
    feed, folder = Feed(store.board, LOCATION), store.settings.local_state
    return Deliverer(feed, to, folder, lambda: store.now, store.store)


def consume(store: Installation) -> int:
    with consumer_of(deliverer(store), store.store) as consumer:
        return consumer.run(threading.Event(), until_idle=True)


def values(store: Installation, *products: str) -> dict[str, float]:
    """The prices in the store of those of the products that have one."""
    to = deliverer(store).to
    with store_of(to, store.settings.local_state) as opened:
        found = opened.get_many(to.store_space, products, now=store.now.timestamp())
    return {each: msgspec.json.decode(value.data)["price"] for each, value in found.items()}


def tick(store: Installation) -> Tick:
    """The sensors after a change: the deliveries that the sensor requests are run."""
    store.tick("new_manifests")
    asked = store.tick("deliveries")
    for request in asked.requests:
        if request.asset_selection:
            result = store.run(DELIVERY, day=request.partition_key, tags=request.tags)
            assert result.success, messages(result)
    return asked


def why(asked: Tick) -> list[str]:
    return [request.tags["feed_assets/why"] for request in asked.requests]


def checked(result: dg.ExecuteInProcessResult | dg.JobExecutionResult) -> dict[str, tuple[bool, str, str]]:
    """The results of checks, by name: whether it passed, the severity of a failure, the text."""
    return {
        each.check_name: (each.passed, each.severity.value, each.description or "")
        for event in result.all_events
        if event.is_asset_check_evaluation
        for each in [event.asset_check_evaluation_data]
    }


def shown(store: Installation, day: str | None = DAY) -> dg.AssetMaterialization:
    where = dg.AssetRecordsFilter(asset_key=dg.AssetKey.from_user_string(DELIVERY), asset_partitions=day and [day])
    return store.instance.fetch_materializations(where, limit=1).records[0].asset_materialization


def test_each_change_of_the_update_in_force_is_delivered_once(store: Installation, source: Source) -> None:
    assert tick(store).requests == ()

    old = source.publish(prices(tea=2.5, coffee=4.0))
    assert why(tick(store)) == [f"{LOCATION} is {old} now, the delivery is new"]
    assert tick(store).requests == ()

    new = source.publish(prices(tea=2.5, coffee=4.5, salt=0.5))
    assert why(tick(store)) == [f"{LOCATION} is {new} now, the delivery is behind"]
    consume(store)
    assert values(store, "tea", "coffee", "salt") == {"tea": 2.5, "coffee": 4.5, "salt": 0.5}

    source.invalidate(new)
    asked = tick(store)
    assert f"{LOCATION} is {old} now, the delivery is behind" in why(asked)
    consume(store)
    assert values(store, "tea", "coffee", "salt") == {"tea": 2.5, "coffee": 4.0}

    source.invalidate(old)
    assert f"{LOCATION} is none now, the delivery is to be removed" in why(tick(store))
    consume(store)
    assert values(store, "tea", "coffee", "salt") == {}


def test_the_asset_shows_what_was_delivered(store: Installation, source: Source) -> None:
    update = source.publish(prices(tea=2.5, coffee=4.0))
    tick(store)

    event = shown(store)
    found = {name: each.value for name, each in event.metadata.items()}
    assert found["edition"] > 0
    assert found.items() >= {
        "update": update, "mode": "all", "puts": 2, "deletes": 0, "acked": 2, "repeats": 0, "ambiguous": 0,
        "throttled %": 0.0, "stream": "local://prices", "dagster/row_count": 2,
    }.items()  # fmt: skip
    assert event.tags["dagster/data_version"] == update
    spec = store.definitions.resolve_asset_graph().get(event.asset_key)
    assert [each.name for each in spec.metadata["dagster/column_schema"].value.columns] == ["product", "price"]
