"""An update goes to a stream and into a store: each row once, and the store has what is in force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from feed_assets.delivery.audit import account
from feed_assets.delivery.errors import BadRowsError, DeliveryError, DestinationError
from feed_assets.file_feed.holds import pins
from feed_assets.file_feed.publishing import publish_files
from feed_assets_tests.delivery.worlds import DAY, NEXT_DAY, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_k1_an_update_goes_through_the_stream_into_the_store_and_is_counted_at_every_hop(world: World) -> None:
    update = world.publish({"tea": 2.5, "coffee": 4.0, "milk": 1.25})

    delivery = world.deliver()
    settled = world.consume()

    assert delivery is not None
    assert (delivery.begun.update, delivery.begun.puts, delivery.ended.acked, settled) == (update, 3, 3, 3)
    assert world.values("tea", "coffee", "milk", "salt") == {"tea": 2.5, "coffee": 4.0, "milk": 1.25}
    audited = world.audited()
    assert audited.rows == {"staged": 3, "acked": 3, "received": 3, "settled": 3}
    assert (audited.state, audited.losses) == ("settled", ())


def test_an_update_that_was_delivered_is_not_sent_again(world: World) -> None:
    world.publish({"tea": 2.5})
    world.deliver()

    assert world.deliver() is None


def test_the_next_update_sends_what_is_new_or_changed_and_deletes_what_vanished(world: World) -> None:
    world.publish({"tea": 2.5, "coffee": 4.0, "milk": 1.25})
    world.deliver()
    world.publish({"tea": 2.5, "coffee": 4.5, "salt": 0.5})

    delivery = world.deliver()
    world.consume()

    assert delivery is not None
    assert (delivery.begun.mode, delivery.begun.puts, delivery.begun.deletes) == ("changes", 2, 1)
    assert world.values("tea", "coffee", "milk", "salt") == {"tea": 2.5, "coffee": 4.5, "salt": 0.5}


def test_an_invalidation_brings_the_older_values_back(world: World) -> None:
    world.publish({"tea": 2.5, "coffee": 4.0})
    world.deliver()
    wrong = world.publish({"tea": 99.0, "milk": 1.0})
    world.deliver()
    world.source.invalidate(wrong, DAY)

    world.deliver()
    world.consume()

    assert world.values("tea", "coffee", "milk") == {"tea": 2.5, "coffee": 4.0}


def test_when_nothing_valid_is_left_all_keys_are_deleted(world: World) -> None:
    wrong = world.publish({"tea": 99.0, "milk": 1.0})
    world.deliver()
    world.source.invalidate(wrong, DAY)

    delivery = world.deliver()
    world.consume()

    assert delivery is not None
    assert (delivery.begun.update, delivery.begun.deletes) == (None, 2)
    assert world.values("tea", "milk") == {}


def test_an_old_day_that_is_published_again_does_not_overwrite_a_newer_day(world: World) -> None:
    world.publish({"tea": 2.5, "milk": 1.0})
    world.deliver()
    world.publish({"tea": 3.0}, NEXT_DAY)
    world.deliver(NEXT_DAY)
    world.publish({"tea": 2.75, "milk": 1.5})
    world.deliver()
    world.consume()

    assert world.values("tea", "milk") == {"tea": 3.0, "milk": 1.5}
    assert world.audited().superseded == 1


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        (
            {"": 1.0, "tea": 1.0},
            r"The key \(product\) of row 0 of .*part-0.parquet .* is NULL or empty. Nothing was sent",
        ),
        ({"tea": float("nan")}, r"price of row 0 of .*part-0.parquet .* is NaN or infinite"),
        ({"tea" * 100: 1.0}, r"is longer than 256 characters"),
    ],
)
def test_bad_rows_are_named_before_anything_is_sent(world: World, prices: dict[str, float], message: str) -> None:
    world.publish(prices)

    with pytest.raises(BadRowsError, match=message):
        world.deliver()
    assert world.deliverer.ledger.of(DAY) == []
    assert world.consume() == 0


def test_a_row_that_is_too_large_for_the_stream_is_refused(world: World) -> None:
    world.options["columns"] = ["product", "text"]
    world.source.publish(pa.table({"product": ["tea"], "text": ["x" * 1_048_576]}), DAY)

    with pytest.raises(BadRowsError, match=r"A row has 1,048,\d+ bytes as a record, and the stream takes 1,048,576"):
        world.deliver()
    assert world.deliverer.ledger.of(DAY) == []


def test_two_rows_of_one_key_are_refused(world: World) -> None:
    world.source.publish(pa.table({"product": ["tea", "tea"], "price": [1.0, 2.0]}), DAY)

    with pytest.raises(BadRowsError, match=r"has 2 rows of one key \(product\)"):
        world.deliver()


def test_a_feed_of_another_format_is_refused(world: World) -> None:
    publish_files(world.source.feed, DAY, [], now=world.now(), owner="other")
    prefix = f"prices/v1.0/{DAY}/"
    update = next(key for key in world.board.objects() if key.startswith(prefix)).split("/")[3]
    world.board.create(f"{prefix}{update}/part-0.jsonl", b"{}\n")
    manifest = world.board.read(f"{prefix}{update}/_SUCCESS")
    world.board.replace(manifest.entry.key, b"1", tag=manifest.entry.tag)

    with pytest.raises(DestinationError, match=r"part-0.jsonl is no Parquet, and only Parquet can be delivered"):
        world.deliver()


@pytest.mark.parametrize("day", [DAY, NEXT_DAY, None])
@pytest.mark.parametrize(
    "changed",
    [
        {"stream": "local://others"},
        {"key": ["price"]},
        {"store": "sqlite:////tmp/other.db"},
        {"values": "per_partition"},
        {"space": "others"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_destination_that_becomes_another_one_under_its_name_is_refused(
    world: World, changed: dict[str, Any], day: str | None
) -> None:
    world.publish({"tea": 1.0})
    world.deliver()
    world.publish({"tea": 2.0}, day)
    world.options |= changed

    with pytest.raises(DestinationError, match=rf"prices: {next(iter(changed))}: is .* choose a new name"):
        world.deliver(day)
    with pytest.raises(DestinationError, match="and prices has delivered with"):
        world.consume()
    assert [each for each in world.deliverer.ledger.editions() if each != DAY] == []


def test_a_destination_whose_rows_were_refused_may_still_become_another_one(world: World) -> None:
    world.publish({"": 1.0})
    with pytest.raises(BadRowsError):
        world.deliver()
    world.options["key"] = ["price"]

    assert world.deliver() is not None


def test_other_columns_send_every_row_again(world: World) -> None:
    world.publish({"tea": 1.0, "milk": 2.0})
    world.deliver()
    world.publish({"tea": 1.0, "milk": 2.0})
    world.options["columns"] = ["product"]

    delivery = world.deliver()

    assert delivery is not None
    assert (delivery.begun.mode, delivery.begun.puts) == ("all", 2)


def test_a_base_that_is_gone_fails_before_sending_and_a_replay_without_it_sends_all(world: World) -> None:
    base = world.publish({"tea": 1.0, "milk": 2.0})
    world.deliver()
    world.publish({"tea": 1.0})
    world.board.delete(*(key for key in world.board.objects() if f"/{DAY}/{base}/" in key))

    with pytest.raises(DeliveryError, match=rf"has lost {base}, .*replay --without-base"):
        world.deliver()
    delivery = world.deliver(without_base=True)
    world.consume()

    assert delivery is not None
    assert (delivery.begun.mode, delivery.begun.base_lost, delivery.begun.deletes) == ("all", True, 0)
    assert world.values("tea", "milk") == {"tea": 1.0, "milk": 2.0}


def test_the_update_of_a_delivery_is_kept_from_retention_until_the_next_one(world: World) -> None:
    first = world.publish({"tea": 1.0})
    world.deliver()
    assert [each.update for each in pins(world.source.feed, DAY, now=world.now())] == [first]

    second = world.publish({"tea": 2.0})
    world.deliver()

    assert [each.update for each in pins(world.source.feed, DAY, now=world.now())] == [second]


def test_a_feed_whose_files_are_gone_deletes_nothing(world: World) -> None:
    world.publish({"tea": 1.0})
    world.deliver()
    world.board.delete(*(key for key in world.board.objects() if ".feed/" not in key))

    with pytest.raises(DeliveryError, match=r"has lost .* nobody knows which keys have vanished. Nothing was sent"):
        world.deliver()


def test_the_audit_of_an_earlier_delivery_counts_the_repeats_that_its_end_states(world: World) -> None:
    world.publish({"tea": 2.5, "coffee": 4.0})
    world.deliver()
    world.publish({"tea": 3.0, "coffee": 4.0})
    world.deliver()

    deliverer = world.deliverer
    earlier = account(deliverer.ledger, deliverer.to, deliverer.ledger.of(DAY)[0], now=world.now())
    assert (earlier.rows["acked"], earlier.repeats["acked"]) == (2, 0)
