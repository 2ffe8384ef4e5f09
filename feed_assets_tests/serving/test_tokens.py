"""Tokens on both databases, and as a service knows them that runs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from starlette.exceptions import HTTPException

from feed_assets.serving.tables import Token, record_token, remove_token, tokens
from feed_assets.serving.tokens import KnownTokens, TooManyTokensError, add_token
from feed_assets.state.address import StoreError
from feed_assets.state.store import Store
from feed_assets_tests.waiting import until

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


def is_known(known, text, now=NOW):
    try:
        return known.required(f"Bearer {text}", now=now).owner
    except HTTPException as refused:
        return refused.status_code


def test_a_service_knows_what_others_add_and_revoke_and_reads_the_table_only_then(database, monkeypatch):
    store, reads = Store(database), []
    known = KnownTokens(store)
    read = known._followed.load
    known._followed.load = lambda connection: reads.append(1) or read(connection)
    known.refresh()
    first, second = (add_token(Store(database), "acme", ["ads/a"], now=NOW, expires=end) for end in (None, NOW + DAY))
    before = is_known(known, first)
    for _ in range(3):
        known.refresh()
    both = [is_known(known, each) for each in (first, second)]
    reads_of_both = len(reads)
    with Store(database).writing() as transaction:
        assert remove_token(transaction, first.split("_")[1], now=NOW)
        transaction.append("something else", NOW, {})
    known.refresh()

    assert (before, both) == (401, ["acme", "acme"])
    assert [is_known(known, each) for each in (first, second)] == [401, "acme"]
    assert is_known(known, second, NOW + DAY) == 401
    assert len(reads) == reads_of_both


def test_a_service_forgets_the_tokens_of_a_database_that_was_replaced(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'state.db'}")
    known = KnownTokens(store)
    text = add_token(store, "acme", ["ads/a"], now=NOW, expires=None)
    known.refresh()
    assert is_known(known, text) == "acme"

    for each in tmp_path.iterdir():
        each.unlink()
    known.refresh()

    assert is_known(known, text) == 401


def test_without_the_database_the_tokens_stay_as_they_were_and_the_problem_is_logged_once(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("feed_assets.serving.tokens.LOOK_SECONDS", 0.001)
    store = Store(f"sqlite:///{tmp_path / 'state.db'}")
    known = KnownTokens(store)
    text, later = (add_token(store, each, ["ads/a"], now=NOW, expires=None) for each in ("acme", "other"))
    known.refresh()
    refresh, failures = known.refresh, []

    def fail():
        failures.append(1)
        raise StoreError("The state database cannot be used")

    async def run():
        following = asyncio.create_task(known.follow())
        known.refresh = fail
        await asyncio.to_thread(until, lambda: len(failures) >= 5, every=0.001)
        known.refresh = refresh
        with store.writing() as transaction:
            remove_token(transaction, later.split("_")[1], now=NOW)
        await asyncio.to_thread(until, lambda: is_known(known, later) == 401, every=0.001)
        following.cancel()

    asyncio.run(run())

    assert is_known(known, text) == "acme"
    assert [each.getMessage() for each in caplog.records] == [
        "Tokens stay as they were read last: The state database cannot be used"
    ]


def test_an_owner_has_two_valid_tokens_at_a_time(database):
    store = Store(database)
    for end in (NOW, NOW + DAY, None):  # the first is over
        add_token(store, "acme", ["ads/a"], now=NOW, expires=end)

    with pytest.raises(TooManyTokensError, match=r"acme has 2 valid tokens: .* Revoke one first") as refused:
        add_token(store, "acme", ["ads/a"], now=NOW, expires=None)
    assert set(refused.value.ids) == {each.id for each in tokens(store) if each.is_valid(NOW)}
