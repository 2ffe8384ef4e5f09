"""Functions that say what a record changes: targets, mistakes, and records that they cannot take."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from feed_assets.delivery.consuming.dispatching import Record
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.encoding import key_text
from feed_assets.delivery.errors import DestinationError, PoisonedError, SpaceTakenError
from feed_assets.delivery.lookups import Answers, Lookups, answers, store_of
from feed_assets.delivery.stores.port import Change
from feed_assets.delivery.stores.sqlite import SqliteStore
from feed_assets.delivery.streams.port import Record as Put
from feed_assets.delivery.versions import Version
from feed_assets.errors import FeedAssetsError
from feed_assets_tests.delivery.worlds import DAY, NEXT_DAY, World
from feed_assets_tests.waiting import until

PRICES = {"tea": 2.5, "coffee": 4.0, "milk": 1.25}
Function = Callable[[Record], Iterable[tuple[str, Record]]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, options={"dispatch": "shop_lookups:both", "targets": ["prices", "cents"]})


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """A module of the user."""
    module: Any = types.ModuleType("shop_lookups")
    module.both = both
    monkeypatch.setitem(sys.modules, "shop_lookups", module)
    return module


def both(record: Record) -> Iterator[tuple[str, Record]]:
    """Each price as it is, and in cents by initial."""
    yield "prices", record
    if record.op == "delete":
        yield "cents", record
    else:
        yield "cents", replace(record, row={"cents": round(100 * record.row["price"])})


def stored(world: World, space: str, *keys: str) -> dict[str, Any]:
    with store_of(world.to, world.folder) as store:
        found = store.get_many(space, [key_text([each]) for each in keys], now=0.0)
    return {key: msgspec.json.decode(value.data) for key, value in found.items()}


@pytest.mark.usefixtures("shop")
def test_k18_a_record_is_settled_when_all_its_targets_have_it(world: World) -> None:
    world.publish(PRICES)
    world.deliver()
    world.publish({"tea": 3.0, "coffee": 4.0})
    world.deliver()

    world.consume()

    assert stored(world, "prices", *PRICES) == {
        "tea": {"product": "tea", "price": 3.0}, "coffee": {"product": "coffee", "price": 4.0},
    }  # fmt: skip
    assert stored(world, "cents", *PRICES) == {"tea": {"cents": 300}, "coffee": {"cents": 400}}
    assert world.audited().rows == {"staged": 2, "acked": 2, "received": 2, "settled": 2}


@pytest.mark.usefixtures("shop")
def test_rows_of_a_delivery_are_looked_up_where_the_function_puts_them(world: World) -> None:
    world.publish(PRICES)
    delivery = world.deliver()
    assert delivery is not None
    world.consume()
    version = [DAY, delivery.begun.edition]

    assert answers(world.deliverer, delivery.begun) == Answers(asked=6, behind=0, unknown=0)
    with Lookups.of(world.to, world.folder, "cents") as cents:
        found = cents.get("tea")
    assert found is not None
    assert (found.row, [*found.version[:2]]) == ({"cents": 250}, version)
    with (
        pytest.raises(DestinationError, match="prices has no target euros; choose one of prices, cents"),
        Lookups.of(world.to, world.folder, "euros"),
    ):
        pass
    with SqliteStore(world.folder / "stores.db") as store:
        newer = Version("2999-01-01", 1, 0).packed()
        store.apply("cents", [Change("tea", newer, None)])
    assert answers(world.deliverer, delivery.begun) == Answers(asked=6, behind=1, unknown=0)


def test_k18_a_function_may_be_given_in_python(world: World) -> None:
    world.options = {}
    world.publish(PRICES)
    world.deliver()

    world.consume(dispatch=lambda record: [("prices", replace(record, key=(record.key[0].upper(),)))])

    assert stored(world, "prices", "tea", "TEA") == {"TEA": {"product": "tea", "price": 2.5}}


@pytest.mark.usefixtures("shop")
def test_a_record_for_which_the_function_fails_three_times_stops_its_shard_and_is_named_without_its_data(
    world: World, shop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def fails_for_coffee(record: Record) -> Iterator[tuple[str, Record]]:
        calls.append(record.key[0])
        if record.key[0] == "coffee":
            raise ValueError(f"{record.row} has no brand")
        return both(record)

    shop.both = fails_for_coffee
    world.options["stream"] = "local://prices"
    world.publish(PRICES)
    world.deliver()
    with pytest.raises(PoisonedError) as raised:
        world.consume()
    # In the order of keys.
    assert calls == ["coffee"] * 3
    assert "ordinal 0 of edition " in str(raised.value)
    assert f"raised ValueError at {__file__}:" in str(raised.value)
    assert "coffee" not in str(raised.value)
    assert "4.0" not in str(raised.value)

    shop.both = lambda record: fails_for_coffee(record) if record.row.get("price", 0) > 5 else both(record)
    world.publish({"tea": 9.0, "coffee": 9.0, "apple": 1.0})
    world.deliver()
    with pytest.raises(PoisonedError, match="ordinal 2 of edition"):
        world.consume()
    assert stored(world, "prices", "apple", "tea", "coffee") == {
        "apple": {"product": "apple", "price": 1.0},
        "tea": {"product": "tea", "price": 2.5},
        "coffee": {"product": "coffee", "price": 4.0},
    }
    with world.consuming() as consumer:
        until(lambda: consumer.figures.waiting)
        assert "ordinal 2 of edition" in str(consumer.figures.waiting)
        shop.both = both  # the service looks at the module when it starts: it was given the function before
        assert not consumer.figures.late(consumer.retention / 2, consumer.now())
    assert "coffee" not in caplog.text
    assert world.consume() == 2
    assert world.audited().state == "settled"


@pytest.mark.usefixtures("shop")
def test_a_poisoned_record_does_not_stop_other_shards(world: World, shop: Any) -> None:
    def fails_for_tea(record: Record) -> Iterator[tuple[str, Record]]:
        if record.key[0] == "tea":
            raise KeyError(record)
        return both(record)

    shop.both = fails_for_tea
    world.options["stream"] = "local://prices?shards=16"
    world.publish(PRICES)
    world.deliver()
    with world.consuming() as consumer:
        until(lambda: consumer.figures.waiting and len(stored(world, "prices", *PRICES)) == 2)
        until(lambda: world.audited().rows == {"staged": 3, "acked": 3, "received": 3, "settled": 2})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda record: [("secret", record)], "the target is none of prices, cents: name it in `targets`"),
        (lambda record: [("prices", replace(record, key=("",)))], "the key is empty"),
        (lambda record: [("prices", replace(record, key=(None, 1)))], "the key is empty, or has None"),
        (lambda record: [("prices", replace(record, op="upsert"))], "neither put nor delete"),
        (lambda record: [record], "raised TypeError"),
        (lambda _: None, "raised TypeError"),
        (lambda record: [("prices", replace(record, row={"price": object()}))], "raised TypeError"),
    ],
)
def test_a_wrong_answer_of_the_function_is_told_without_data(
    world: World, shop: Any, function: Function, message: str
) -> None:
    shop.both = function
    world.publish({"tea": 2.5})
    world.deliver()

    with pytest.raises(PoisonedError, match=message) as raised:
        world.consume()
    assert "tea" not in str(raised.value)


def test_foreign_records_are_handled_by_the_function_and_never_overwrite_a_delivery(world: World, shop: Any) -> None:
    def all_of_them(record: Record) -> Iterator[tuple[str, Record]]:
        if record.op == "foreign":
            name, _, price = record.data.decode().partition(":")
            record = replace(record, op="put", key=(name,), row={"price": float(price), "by": record.key[0]})
        yield "prices", record

    shop.both = all_of_them
    world.options["foreign"] = "handle"
    world.publish({"tea": 2.5})
    world.deliver()
    world.stream.put([Put("pos-1", b"salt:1"), Put("pos-1", b"salt:2"), Put("pos-1", b"tea:99")])

    assert world.consume() == 4

    assert stored(world, "prices", "tea", "salt") == {
        "tea": {"product": "tea", "price": 2.5}, "salt": {"price": 2.0, "by": "pos-1"},
    }  # fmt: skip
    with store_of(world.to, world.folder) as store:
        version = store.get_many("prices", ["salt"], now=0.0)["salt"].version
    assert Version.unpacked(version)[:2] == ("", 0)
    assert world.audited().rows == {"staged": 1, "acked": 1, "received": 1, "settled": 1}


@pytest.mark.usefixtures("shop")
def test_each_target_has_one_owner(world: World) -> None:
    world.publish(PRICES)
    world.deliver()
    world.consume()
    other = World(world.folder, world.board, {"name": "cents"})
    other.deliver()

    with pytest.raises(SpaceTakenError, match=r"'cents' belongs to 'prices/v1\.0 by prices'"):
        other.consume()


@pytest.mark.usefixtures("shop")
def test_per_partition_each_target_has_a_value_of_each_partition(world: World) -> None:
    world.options["values"] = "per_partition"
    world.publish({"tea": 1.0})
    world.deliver()
    world.publish({"tea": 2.0}, NEXT_DAY)
    world.deliver(NEXT_DAY)
    world.consume()

    assert stored(world, "cents", "2019-11-24/tea", "2019-11-25/tea") == {
        "2019-11-24/tea": {"cents": 100}, "2019-11-25/tea": {"cents": 200},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dispatch", "message"),
    [
        ("no_such_shop:both", "no_such_shop cannot be imported"),
        ("shop_lookups:neither", "shop_lookups has no neither"),
        ("shop_lookups:__name__", "is no function"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_a_function_that_cannot_be_found_is_an_error_at_the_start(world: World, dispatch: str, message: str) -> None:
    world.options["dispatch"] = dispatch

    with pytest.raises(DestinationError, match=message):
        world.consume()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dispatch": "shop.lookups"}, "write package.module:function"),
        ({"dispatch": "shop.lookups:by brand"}, "write package.module:function"),
        ({"dispatch": "shop:both", "store": None}, "is for a destination with a store"),
        ({"targets": ["prices"]}, "is for a destination with `dispatch`"),
        ({"foreign": "handle"}, "is for a destination with `dispatch`"),
        ({"dispatch": "shop:both", "targets": ["a/b"]}, "targets"),
    ],
)
def test_what_is_wrong_with_a_function_or_its_targets_is_told_when_the_destination_is_loaded(
    options: dict[str, Any], message: str
) -> None:
    fields = {"name": "prices", "feed": "prices/v1.0", "stream": "local://prices", "key": ["product"]}
    with pytest.raises((ValueError, FeedAssetsError), match=message):
        Destination.model_validate(fields | {"columns": ["product", "price"], "store": "sqlite"} | options)
