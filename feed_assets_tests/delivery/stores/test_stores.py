"""What both stores do with single keys: outcomes, expiry, spaces, unusual keys and values."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from feed_assets.delivery.errors import SpaceTakenError
from feed_assets.delivery.stores.port import Change, Store, Value
from feed_assets_tests.delivery.stores import writing

OLD, NEW = b"1", b"2"


def test_a_value_is_there_with_its_version_until_it_ends(store: Store, space: str):
    ends = time.time() + 3600.25
    store.apply(space, [Change("never", NEW, b"a"), Change("ends", NEW, b"b", ends)])
    never, ending = Value(b"a", NEW), Value(b"b", NEW)
    assert store.get_many(space, ["never", "ends", "absent"], now=ends) == {"never": never, "ends": ending}
    assert store.get_many(space, ["never", "ends"], now=ends + 0.001) == {"never": never}


def test_a_newer_value_that_never_ends_replaces_one_that_has_ended(store: Store, space: str):
    store.apply(space, [Change("k", OLD, b"old", 1.0)])
    assert store.get_many(space, ["k"], now=2.0) == {}
    store.apply(space, [Change("k", NEW, b"new")])
    assert store.get_many(space, ["k"], now=time.time()) == {"k": Value(b"new", NEW)}


def test_a_value_that_has_ended_before_it_came_still_hides_older_ones(
    store: Store, space: str, forget: Callable[[str], int]
):
    assert store.apply(space, [Change("k", NEW, b"new", 1.0)]) == ["applied"]
    store.sweep(before=time.time() - 60)  # it came later than that
    assert store.apply(space, [Change("k", OLD, b"old")]) == ["superseded"]
    assert store.get_many(space, ["k"], now=time.time()) == {}
    assert forget(space) == 1
    assert store.apply(space, [Change("k", OLD, b"old")]) == ["applied"]


def test_values_and_those_that_end_later_are_never_forgotten(store: Store, space: str, forget: Callable[[str], int]):
    store.apply(space, [Change("never", NEW, b"a"), Change("later", NEW, b"b", 4e9), Change("gone", NEW, None)])
    store.apply(space, [Change("back", OLD, None), Change("back", NEW, b"c")])
    assert forget(space) == 1
    assert store.get_many(space, ["never", "later", "back"], now=time.time()).keys() == {"never", "later", "back"}
    assert forget(space) == 0


def test_changes_of_one_call_see_the_earlier_ones(store: Store, space: str):
    changes = [Change("k", OLD, b"a"), Change("k", NEW, None), Change("k", OLD, b"a"), Change("k", NEW, None)]
    assert store.apply(space, changes) == ["applied", "applied", "superseded", "applied"]
    assert store.apply(space, []) == []
    assert store.get_many(space, ["k"], now=0) == {}
    assert store.get_many(space, [], now=0) == {}


@pytest.mark.parametrize("key", ["ü", "💡", "a:b", "a\0b", "\0", " ", "{a}", "%", "'\"\\\n", "x" * 4096, "e\u0301"])
def test_a_key_has_any_characters(store: Store, space: str, key: str):
    store.apply(space, [Change(key, NEW, b"found"), Change(f"{key}x", NEW, b"other")])
    assert store.get_many(space, [key, "é"], now=0) == {key: Value(b"found", NEW)}


def test_half_a_character_is_refused_and_nothing_of_its_transaction_stays(store: Store, space: str):
    with pytest.raises(UnicodeEncodeError):
        store.apply(space, [Change("k", NEW, b"x"), Change("\ud83d", NEW, b"x")])
    assert store.get_many(space, ["k"], now=0) == {}
    assert store.apply(space, [Change("k", NEW, b"x")]) == ["applied"]


def test_spaces_share_no_key_whatever_their_names(store: Store, space: str):
    places = [(space, "b:c"), (f"{space}:b", "c"), (f"{space}%3Ab", "c"), (f"{space}:b:", "c")]
    for number, (each, key) in enumerate(places):
        store.apply(each, [Change(key, NEW, b"%d" % number)])
    found = [store.get_many(each, [key], now=0)[key].data for each, key in places]
    assert found == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("value", [b"", b"\0", b"a\0b", bytes(range(256)) * 4096], ids=["empty", "0", "a0b", "1 MiB"])
def test_a_value_has_any_bytes(store: Store, space: str, value: bytes):
    store.apply(space, [Change(f"k{number}", NEW, value) for number in range(5)])
    assert store.get_many(space, ["k0", "k4"], now=0) == {"k0": Value(value, NEW), "k4": Value(value, NEW)}


def test_a_thousand_keys_are_applied_and_found_at_once(store: Store, space: str):
    changes = [Change(f"k{number}", NEW, b"%d" % number) for number in range(1000)]
    assert store.apply(space, changes) == ["applied"] * 1000
    found = store.get_many(space, [f"k{number}" for number in range(1500)], now=0)
    assert {key: value.data for key, value in found.items()} == {key: value for key, _, value, _ in changes}


def test_a_space_keeps_its_owner_and_values_when_the_store_is_opened_again(
    url: str, store: Store, space: str, tmp_path: Path
):
    store.claim(space, "prices")
    store.apply(space, [Change("k", NEW, b"x")])
    with writing.opened(url, tmp_path) as again:
        assert again.title == store.title
        with pytest.raises(SpaceTakenError, match=f"{again.title}: the space '{space}' belongs to 'prices'.*choose"):
            again.claim(space, "stock")
        again.claim(space, "prices")
        assert again.get_many(space, ["k"], now=0) == {"k": Value(b"x", NEW)}
