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
from feed_assets.file_feed import Feed, publish
from feed_assets.project.assembly import Project
from feed_assets_tests.harness import DAY, NEXT_DAY, Installation, Tick, between, messages, second_read
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
    assets = [asset, fa.delivered(asset, name), *more]
    definitions = Project(desk.settings, ()).definitions(assets=assets, resources=desk.replaced)
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
    found = result.get_asset_check_evaluations()
    return {each.check_name: (each.passed, each.severity.value, each.description or "") for each in found}


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
    assert [each.name for each in spec.metadata["dagster/column_schema"].columns] == ["product", "price"]
    assert spec.assets_def.op.pool == "local://prices"


def test_a_delivery_of_some_seconds_shows_its_rate_beside_the_limit(store: Installation) -> None:
    series = Series(0.0)
    for second, count in enumerate((900, 1900, 1200)):
        series.add(second + 0.5, count)
    begun = Begun(
        destination="prices", partition=DAY, edition=1, update="20191201.000010", at=store.now, bases=(Base(0, None),),
        mode="changes", rules={}, files=(), puts=3990, deletes=10,
    )  # fmt: skip
    ended = Ended(
        outcome="delivered", at=store.now, acked=4000, throttled=1000, series=tuple(series.counts), seconds=4.0,
        size=2_000_000, shards=2,
    )  # fmt: skip

    found = delivery_metadata(deliverer(store).to, begun, ended)

    assert (found["throttled %"], found["share of the limit %"]) == (20.0, 50.0)
    assert found["acked per second"].value.startswith("![acknowledged per second](data:image/png;base64,iVBOR")


def test_a_delivery_settles_when_a_consumer_has_brought_it_into_the_store(store: Installation, source: Source) -> None:
    source.publish(prices(tea=2.5, coffee=4.0))
    store.tick("new_manifests")
    (request,) = store.tick("deliveries").requests
    before = checked(store.run(DELIVERY, tags=request.tags))
    assert {name: each[:2] for name, each in before.items()} == {
        "all_acked": (True, "ERROR"), "settled": (False, "WARN"), "lookups": (False, "WARN"),
    }  # fmt: skip
    assert "not settled yet: staged 2, acked 2, received 0, settled 0" in before["settled"][2]
    assert store.tick("deliveries").requests == ()

    consume(store)
    (request,) = store.tick("deliveries").requests
    assert sorted(each.name for each in request.asset_check_keys or ()) == ["lookups", "settled"]
    after = checked(store.check(DELIVERY, DAY, "settled", "lookups"))
    assert {name: each[0] for name, each in after.items()} == {"settled": True, "lookups": True}
    assert after["lookups"][2].startswith("2 of 2 keys answer with edition")
    assert store.tick("deliveries").requests == ()
    assert {name: each[0] for name, each in checked(store.check(DELIVERY)).items()} == dict.fromkeys(before, True)


def test_a_delivery_that_nobody_consumes_is_overdue(store: Installation, source: Source) -> None:
    source.publish(prices(tea=2.5))
    tick(store)
    late = delivering(store.at(store.now + timedelta(minutes=16)), priced())

    (request,) = late.tick("deliveries").requests
    found = checked(late.check(DELIVERY, DAY, "settled"))

    assert request.tags["feed_assets/why"].endswith("is overdue")
    assert found["settled"][:2] == (False, "ERROR")
    assert "Rows are not received" in found["settled"][2]


def test_the_check_of_lookups_finds_a_store_that_lost_what_had_settled(store: Installation, source: Source) -> None:
    source.publish(prices(tea=2.5, coffee=4.0, milk=1.0))
    tick(store)
    consume(store)
    for file in store.settings.local_state.glob("stores.db*"):
        file.unlink()

    found = checked(store.check(DELIVERY))

    assert (found["settled"][0], found["lookups"][:2]) == (True, (False, "ERROR"))
    assert found["lookups"][2].startswith("0 of 3 keys answer")
    assert "`feed-assets deliver replay prices` sends all rows" in found["lookups"][2]


def test_keys_that_a_newer_day_has_deleted_are_no_loss(store: Installation, source: Source) -> None:
    source.publish(prices(tea=2.5, coffee=4.0))
    source.publish(prices(tea=3.0, milk=1.0), NEXT_DAY)
    tick(store)
    source.publish(prices(milk=1.0), NEXT_DAY)
    tick(store)
    consume(store)

    assert "1 have no value, and a newer delivery may have deleted them" in checked(store.check(DELIVERY))["lookups"][2]
    assert {each[0] for each in checked(store.check(DELIVERY)).values()} == {True}


def test_a_delivery_outside_dagster_is_reported_and_not_repeated(store: Installation, source: Source) -> None:
    update = source.publish(prices(tea=2.5))
    deliverer(store).deliver(DAY)
    store.tick("new_manifests")

    asked = store.tick("deliveries")
    assert asked.requests == ()
    assert asked.reported == [(DELIVERY, DAY, update)]
    assert store.tick("deliveries").reported == []


def test_a_run_that_fails_leaves_an_open_delivery_that_the_sensor_has_resumed(
    store: Installation, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.publish(prices(tea=2.5, coffee=4.0))
    store.tick("new_manifests")
    (request,) = store.tick("deliveries").requests
    with monkeypatch.context() as patched:
        patched.setattr("feed_assets.delivery.streams.local._used", lambda *_: 1 / 0)
        assert not store.run(DELIVERY, tags=request.tags).success
    (open_one,) = deliverer(store).ledger.of(DAY)
    assert not open_one.has_ended

    asked = tick(store)

    assert why(asked)[0].endswith("the delivery is open")
    (ended,) = deliverer(store).ledger.of(DAY)
    assert (ended.number, ended.has_ended) == (open_one.number, True)


def test_while_a_command_delivers_to_the_stream_no_run_is_requested_and_none_sends(
    store: Installation, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feed_assets.assets.deliveries.BUSY_SECONDS", 0.0)
    source.publish(prices(tea=2.5))
    store.tick("new_manifests")
    with turn_of("local://prices", store.store):
        assert store.tick("deliveries").requests == ()
        result = store.run(DELIVERY)
        assert not result.success
        assert deliverer(store).ledger.of(DAY) == []
        with pytest.raises(
            StreamBusyError, match=rf"local://prices is taking another delivery.* after {LEASE.seconds} s"
        ):
            deliverer(store).deliver(DAY)

    assert any("takes one at a time. Nothing was sent" in each for each in messages(result))
    assert len(tick(store).requests) == 1


def test_days_queue_behind_a_run_of_dagster(store: Installation, source: Source) -> None:
    source.publish(prices(tea=2.5))
    store.tick("new_manifests")
    (request,) = store.tick("deliveries").requests
    tags = {**request.tags, "dagster/partition": DAY}
    selection = frozenset(request.asset_selection or ())
    create_run_for_test(store.instance, status=dg.DagsterRunStatus.STARTED, tags=tags, asset_selection=selection)
    source.publish(prices(tea=3.0), NEXT_DAY)
    source.publish(prices(tea=3.5))
    store.tick("new_manifests")

    with turn_of("local://prices", store.store):
        assert store.tick("deliveries").asked == {NEXT_DAY: (DELIVERY,)}


def test_a_run_over_several_days_delivers_each(store: Installation, source: Source) -> None:
    first, second = source.publish(prices(tea=1.0)), source.publish(prices(tea=2.0), NEXT_DAY)

    result = store.run(DELIVERY, day=None, tags=between(DAY, NEXT_DAY))

    assert result.success, messages(result)
    assert checked(result)["all_acked"][0]
    assert [shown(store, day).metadata["update"].value for day in (DAY, NEXT_DAY)] == [first, second]
    tick(store)
    assert [shown(store, day).tags["dagster/data_version"] for day in (DAY, NEXT_DAY)] == [first, second]


def test_a_delivery_waits_for_the_audit_of_an_update_that_another_run_has_staged(
    store: Installation, source: Source
) -> None:
    maker = create_run_for_test(store.instance, status=dg.DagsterRunStatus.STARTED)
    staged = source.stage(prices(tea=2.5), run_id=maker.run_id)
    waiting = second_read(store, LOCATION, lambda: publish(staged, now=source.now()))

    result = delivering(waiting, priced()).run(DELIVERY)

    assert result.success, messages(result)
    assert deliverer(store).ledger.ended(deliverer(store).ledger.of(DAY)[-1]).acked == 1


def test_a_day_that_was_never_published_fails_and_says_so(store: Installation) -> None:
    result = store.run(DELIVERY)

    assert not result.success
    assert any("prices/v1.0 2019-11-24 has no valid update" in each for each in messages(result))


def test_a_feed_without_partitions_is_delivered_as_well(store: Installation, source: Source) -> None:
    whole = delivering(store, priced(partitions_def=None))
    for count in (2.0, 3.0):
        source.publish(prices(tea=count), None)
        whole.tick("new_manifests")
        (request,) = whole.tick("deliveries").requests
        result = whole.run(DELIVERY, day=None, tags=request.tags)
        assert result.success, messages(result)
        consume(whole)
        assert values(whole, "tea") == {"tea": count}
        (request,) = whole.tick("deliveries").requests
        assert request.asset_check_keys
        whole.check(DELIVERY, None)
    assert whole.tick("deliveries").requests == ()


def test_a_tick_without_news_lists_nothing(
    store: Installation, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = replace(store, settings=replace(store.settings, scan_seconds=600), _definitions=None)
    quiet = delivering(quiet, priced())
    source.publish(prices(tea=2.5))
    tick(quiet)
    consume(quiet)
    tick(quiet)
    quiet.check(DELIVERY)
    quiet.tick("deliveries")
    asked: list[object] = []
    monkeypatch.setattr("feed_assets.sensors.deliveries.standings", lambda *given, **_: asked.append(given) or [])

    assert "Nothing has changed" in quiet.tick("deliveries").skipped
    assert asked == []


WRONG = {
    "feed: prices/v1.0": ("feed: other/v1.0", ":2: feed: is 'other/v1.0', and `delivered` got the asset prices"),
    "columns: [product, price]": ("columns: [product, cost]", ":5: columns: has cost, and prices has only product, "),
    "key: [product]": ("key: [product, price]", ":4: key: is product, price, and the identity of prices is product"),
}


@pytest.mark.parametrize("right", WRONG)
def test_a_destination_that_does_not_fit_its_feed_is_refused_with_its_line(
    desk: Installation, described: Callable[[str], Path], right: str
) -> None:
    wrong, message = WRONG[right]
    path = described(YAML.replace(right, wrong))

    with pytest.raises(DestinationError) as raised:
        delivering(desk, priced())

    assert f"{path}{message}" in str(raised.value)


def test_a_type_that_cannot_be_sent_and_a_feed_without_identity_are_refused(
    desk: Installation, described: Callable[[str], Path]
) -> None:
    path = described(YAML.replace("price]", "price, by_number]"))
    odd = StructType([*SCHEMA, StructField("by_number", MapType(LongType(), StringType()))])

    with pytest.raises(DestinationError) as raised:
        delivering(desk, priced(odd, identity=()))

    assert str(raised.value).splitlines() == [
        f"{path}:5: columns: has by_number, whose type map<bigint,string> cannot be sent; convert it in the feed",
        (
            f"{path}:4: key: needs a feed that declares its identity, as there is a store; add identity=['product'] to "
            "the `feed_metadata` of prices"
        ),
    ]


def test_an_unknown_destination_is_refused_and_so_is_one_that_is_named_twice(
    desk: Installation, described: Callable[[str], Path]
) -> None:
    path = described(YAML)
    with pytest.raises(DestinationError, match=r"has no destination costs \(there are prices\): write .*costs.yaml"):
        delivering(desk, priced(), name="costs")
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="`delivered` makes prices twice"):
        delivering(desk, priced(), fa.delivered(priced(), "prices"))
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"needs prices among the `assets`"):
        Project(desk.settings, ()).definitions(assets=[fa.delivered(priced(), "prices")])
    path.unlink()
    with pytest.raises(DestinationError, match="there is none yet"):
        delivering(desk, priced())
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="plain is no feed"):
        fa.delivered(dg.AssetSpec("plain"), "prices")


def test_without_a_delivery_there_is_no_sensor_and_no_check_that_nobody_could_answer(
    desk: Installation, described: Callable[[str], Path]
) -> None:
    assert "deliveries" not in [each.name for each in desk.definitions.sensors]
    described(YAML.replace("store: sqlite\n", ""))
    plain = delivering(desk, priced(identity=()))
    assert {each.name for each in plain.definitions.resolve_asset_graph().asset_check_keys} == {"all_acked"}
