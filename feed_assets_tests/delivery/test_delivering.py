"""An update goes to a stream and into a store: each row once, and the store has what is in force."""

from __future__ import annotations

from pathlib import Path

import pytest

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
