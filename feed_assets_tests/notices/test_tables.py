"""Reports and the messages about them: recorded once, claimed by one process at a time, and gone when they are old."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from feed_assets.notices.tables import (
    FIRST_PAUSE,
    LEASE,
    LONGEST_PAUSE,
    Message,
    Report,
    claim_message,
    close_report,
    messages_of,
    open_reports,
    postpone_message,
    record_report,
    record_result,
    record_sent,
)
from feed_assets.state.event_log import EVENTS_KEPT
from feed_assets.state.store import Store

NOW = datetime(2020, 3, 1, tzinfo=UTC)
MAIL = Message("a", "detected", "mail")


def report(name: str = "a", base: str = "file:///one/") -> Report:
    return Report(name, base, "2020-02-27", NOW, {"sources": []})


@pytest.fixture
def store(database: str) -> Store:
    made = Store(database)
    with made.writing() as transaction:
        for each in (report(), report(), report("b"), report("c", "file:///other/")):
            record_report(transaction, each)
    return made


def test_a_report_is_recorded_once_and_has_one_result(store: Store) -> None:
    assert open_reports(store, "file:///one/") == [report(), report("b")]

    for outcome in ("success", "failed"):
        with store.writing() as transaction:
            record_result(transaction, report(), {"outcome": outcome}, at=NOW)

    assert [each.result for each in open_reports(store, "file:///one/")] == [{"outcome": "success"}, None]
    assert [event.kind for event in store.events()] == ["late data"] * 3 + ["late data reported"]


def test_a_message_is_claimed_by_one_process_until_its_lease_ends_and_never_after_it_was_sent(store: Store) -> None:
    def claimed(at: datetime) -> bool:
        with store.writing() as transaction:
            return claim_message(transaction, MAIL, at=at)

    assert claimed(NOW)
    assert not claimed(NOW + LEASE - timedelta(seconds=1))
    assert claimed(NOW + LEASE)
    with store.writing() as transaction:
        # It was the second attempt, and each pause is twice as long as the one before.
        assert postpone_message(transaction, MAIL, at=NOW) == NOW + 2 * FIRST_PAUSE
    assert not claimed(NOW + FIRST_PAUSE)
    for _ in range(20):
        assert claimed(NOW + LONGEST_PAUSE)
        with store.writing() as transaction:
            again = postpone_message(transaction, MAIL, at=NOW)
    assert again == NOW + LONGEST_PAUSE
    with store.writing() as transaction:
        record_sent(transaction, MAIL, at=NOW)
    assert not claimed(NOW + 10 * LONGEST_PAUSE)
    assert messages_of(store, report()) == {("detected", "mail"): True}


def test_what_was_closed_long_ago_is_deleted_with_its_messages(store: Store) -> None:
    for each, at in ((report(), NOW), (report("b"), NOW + EVENTS_KEPT + timedelta(days=1))):
        with store.writing() as transaction:
            claim_message(transaction, Message(each.id, "ended", "mail"), at=at)
            record_sent(transaction, Message(each.id, "ended", "mail"), at=at)
            close_report(transaction, each, at=at)

    assert open_reports(store, "file:///one/") == []
    assert [each.id for each in open_reports(store, "file:///one/", day="2020-02-27")] == ["b"]
    assert (messages_of(store, report()), len(messages_of(store, report("b")))) == ({}, 1)
