"""The receiver's answers and counts, on both databases."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from feed_assets.receiving.status import status_of
from feed_assets.receiving.tables import (
    KEYS_OF_A_QUERY,
    answers,
    received,
    record_answers,
    record_landed,
    record_received,
)
from feed_assets.receiving.tallies import Tally
from feed_assets.state.store import Store

NOW = datetime(2019, 12, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def test_answers_are_found_by_their_keys_until_they_are_old_and_recording_them_again_changes_nothing(database):
    store = Store(database)
    given = {
        f"key-{number}": (NOW + number * timedelta(seconds=1), f"{number}") for number in range(KEYS_OF_A_QUERY + 5)
    }
    assert answers(store, given, after=NOW - DAY) == {}

    for _ in range(2):
        with store.writing() as transaction:
            record_answers(transaction, given, forget=NOW - DAY)

    assert answers(store, [*given, "unknown"], after=NOW - DAY) == {key: text for key, (_, text) in given.items()}
    assert answers(store, ["key-0", "key-9"], after=NOW + timedelta(seconds=5)) == {"key-9": "9"}
    with store.writing() as transaction:
        record_answers(transaction, {}, forget=NOW + timedelta(seconds=1000))
    assert sorted(answers(store, given, after=NOW - DAY)) == [f"key-{number}" for number in range(1000, 1005)]


def test_what_was_sent_is_counted_once_however_often_its_segment_is_recorded_and_landed(database):
    store = Store(database)
    acme, other = ("acme", "ads/shop_ads"), ("other", "ads/shop_ads")
    tally = Tally(2, 5, Counter({"is not UTF-8": 1}), NOW - DAY, NOW)
    sealed = {
        "one": {acme: tally, other: Tally(1, 1, Counter(), NOW, NOW)},
        "two": {acme: Tally(1, 3, Counter({"is not UTF-8": 2}), NOW, NOW)},
    }
    assert received(store, after=NOW - DAY) == []

    def status(held=None, **more):
        found = received(store, after=NOW - DAY, **more)
        (each,) = status_of(found, held or {}, [acme], since=NOW - DAY, now=NOW + DAY).sources
        return each.accepted, each.rejected_by_reason, each.waiting, each.quarantined_by_reason, each.lag_seconds

    held = {"two": {acme: tally}, "three": {acme: tally}}  # the store has learnt of one of them meanwhile
    for landed in (False, True, True):
        with store.writing() as transaction:
            record_received(transaction, sealed, forget=NOW - 7 * DAY)
            if landed:
                record_landed(transaction, "one", "ads/shop_ads", {"acme": {"no usable time": 1}}, at=NOW)
        waiting, days, later = (3, 1, {"no usable time": 1}) if landed else (8, 2, {})
        assert status(partner="acme") == (8, {"is not UTF-8": 3}, waiting, later, days * 86400)
    assert status(held)[:3] == (13, {"is not UTF-8": 4}, 8)
    assert {each.partner for each in received(store, after=NOW - DAY)} == {"acme", "other"}
    assert [each.segment for each in received(store, after=NOW + DAY, partner="acme")] == ["two"]  # it has not landed

    with store.writing() as transaction:
        record_received(transaction, {}, forget=NOW + DAY)
    assert received(store, after=NOW - DAY) == []
