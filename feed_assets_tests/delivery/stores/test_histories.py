"""Random histories of a store, compared with its model: any order, repeats, deletes, values that end, forgetting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feed_assets.delivery.stores.port import Change, Store
from feed_assets.delivery.versions import Version
from feed_assets_tests.delivery.stores.model import ENDED, ENDS_LATER, NOW, Model, Row, order

KEYS = ["p1", "p2", "ü:💡\0"]
# Bytes of which signed comparisons, comparisons of text, and those that end at a zero byte, tell the wrong one.
NUMBERS = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x80_00_00_00, 1_706_000_000, (1 << 64) - 1])
VERSIONS = st.builds(Version, st.sampled_from(["", "2024-01-01", "2024-01-02", "2024-01-02T05", "ä"]), NUMBERS, NUMBERS)
ROWS = st.builds(Row, st.sampled_from(KEYS), VERSIONS, st.booleans(), st.sampled_from([None, None, ENDED, ENDS_LATER]))
FORGET = None


@st.composite
def histories(draw: st.DrawFn) -> list[list[Row] | None]:
    """Calls with rows of a few deliveries, in any order and repeated, and moments at which the store forgets."""
    rows = st.sampled_from(draw(st.lists(ROWS, min_size=1, max_size=12, unique_by=lambda row: (row.key, row.version))))
    return draw(st.lists(st.lists(rows, max_size=6) | st.just(FORGET), max_size=12))


any_history = settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


def shown(store: Store, space: str, keys: Sequence[str] = KEYS) -> dict[str, tuple[bytes, Version]]:
    found = store.get_many(space, keys, now=NOW)
    return {key: (value.data, Version.unpacked(value.version)) for key, value in found.items()}


@any_history
@given(st.lists(st.lists(ROWS, min_size=1, max_size=6), max_size=8))
def test_k19_an_older_value_never_replaces_a_newer_one(store: Store, history: list[list[Row]]):
    space, come = uuid4().hex, {}
    for rows in history:
        # A version has one row: an equal one is a repeat.
        unique = [come.setdefault((row.key, row.version), row) for row in rows]
        store.apply(space, [row.change for row in unique])
        newest: dict[str, Row] = {}
        for row in sorted(come.values(), key=lambda row: order(row.version)):
            newest[row.key] = row
        expected = {row.key: (row.shown, row.version) for row in newest.values() if row.shown is not None}
        assert shown(store, space) == expected


@any_history
@given(histories())
def test_a_store_does_what_its_model_does_whatever_the_order_of_arrival(
    store: Store, forget: Callable[[str], int], history: list[list[Row] | None]
):
    space, model = uuid4().hex, Model()
    for rows in history:
        if rows is FORGET:
            assert forget(space) == model.forget()
        else:
            outcomes = store.apply(space, [row.change for row in rows])
            assert outcomes == [model.apply(row) for row in rows]
        assert shown(store, space) == model.shown()
    forget(space)  # a sweep of the next history must find only its own


@any_history
@given(st.lists(st.binary(min_size=1, max_size=12), min_size=2, max_size=6))
def test_versions_compare_as_bytes(store: Store, versions: list[bytes]):
    space = uuid4().hex
    outcomes = store.apply(space, [Change("k", version, b"") for version in versions])
    assert outcomes == [
        "applied" if version == max(versions[: number + 1]) else "superseded" for number, version in enumerate(versions)
    ]
    assert store.get_many(space, ["k"], now=NOW)["k"].version == max(versions)


def test_once_a_tombstone_is_forgotten_replaying_an_older_day_revives_its_key(
    store: Store, space: str, forget: Callable[[str], int]
):
    old = Row("k", Version("2024-01-01", 1, 0), deletes=False, expires=None)
    delete = Row("k", Version("2024-01-02", 2, 0), deletes=True, expires=None)
    store.apply(space, [old.change, delete.change])
    assert store.apply(space, [old.change]) == ["superseded"]
    assert shown(store, space, ["k"]) == {}
    assert forget(space) == 1
    assert store.apply(space, [old.change]) == ["applied"]
    assert shown(store, space, ["k"]) == {"k": (old.value, old.version)}
