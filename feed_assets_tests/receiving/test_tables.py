"""The receiver's tokens and answers, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from feed_assets.receiving.tables import (
    KEYS_OF_A_QUERY,
    Token,
    answers,
    record_answers,
    record_token,
    remove_token,
    tokens,
)
from feed_assets.state import Store

NOW = datetime(2019, 12, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def test_tokens_are_kept_until_they_are_removed_and_both_are_events_without_a_digest(database):
    store = Store(database)
    added = [
        Token("1", "acme", ("ads/a", "ads/b"), "d1", NOW, NOW + DAY),
        Token("2", "acme", ("ads/a",), "d2", NOW + DAY),
    ]
    assert tokens(store) == []

    with store.writing() as transaction:
        for token in added:
            record_token(transaction, token)
    assert tokens(store) == added
    assert [token.is_valid(NOW + DAY) for token in added] == [False, True]
    with store.writing() as transaction:
        assert [remove_token(transaction, each, now=NOW) for each in ("1", "1", "3")] == [True, False, False]

    assert tokens(store) == added[1:]
    assert [event.kind for event in store.events()] == ["token added", "token added", "token revoked"]
    assert not any("d1" in str(event.details) for event in store.events())


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
