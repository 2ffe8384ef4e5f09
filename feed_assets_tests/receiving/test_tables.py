"""The receiver's answers, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from feed_assets.receiving.tables import KEYS_OF_A_QUERY, answers, record_answers
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
