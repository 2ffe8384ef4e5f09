"""Group commit: one append for many requests, one answer to repeated ones, and nothing is acknowledged too early."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.journal.on_blackboard import BlackboardSegments
from feed_assets.journal.on_disk import DiskSegments
from feed_assets.receiving.committing import Committer, UnavailableError
from feed_assets.receiving.entries import Entry, Header, entries
from feed_assets.receiving.limits import Limits
from feed_assets.receiving.tables import record_answers
from feed_assets.state.address import StoreError
from feed_assets_tests.waiting import HANGS, until

LIMITS = Limits(roll_seconds=3600)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def entry(number, key="", content=""):
    at = datetime.now(UTC)
    return Entry(Header("ads/shop_ads", f"request-{number}", 1, key=key, content=content, at=at), b'{"id":1}\n')


class Slow:
    """A journal whose appends wait until they are let go, and then fail as often as told."""

    def __init__(self, journal):
        self.journal, self.appends, self.failures = journal, [], 0

    def __getattr__(self, name):
        return getattr(self.journal, name)

    def append(self, frames):
        self.appends.append(len(frames))
        if self.failures:
            self.failures -= 1
            self.journal.append(frames)  # what an error says of a write may be wrong
            raise OSError(5, "Input/output error")
        self.journal.append(frames)


@contextmanager
def committing(journal, store, limits=LIMITS):
    sealed = []
    committer = Committer(journal, store, sealed.append, limits)
    committer.start()
    committer.sealed = sealed
    try:
        yield committer
    finally:
        committer.close()
        if (lock := getattr(journal, "_lock", None)) is not None:
            os.close(lock)  # as the end of the process does


def together(committer, *entries):
    """The outcomes of requests that come at the same time."""

    async def commit():
        return await asyncio.gather(*map(committer.commit, entries), return_exceptions=True)

    return asyncio.run(commit())


def landed(journal):
    """The requests that the segments have."""
    found = []
    for segment in journal.segments():
        journal.seal(segment)
        found += [each.header.request_id for each in entries(journal, segment)]
    return found


def test_requests_that_come_while_an_append_waits_share_the_next_one(tmp_path, store):
    journal = Slow(DiskSegments(tmp_path / "journal"))
    with committing(journal, store) as committer:
        headers = together(committer, *map(entry, range(200)))

    assert [header.request_id for header in headers] == [f"request-{number}" for number in range(200)]
    assert sum(journal.appends) == 200
    assert len(journal.appends) <= 20
    assert landed(DiskSegments(tmp_path / "journal")) == [header.request_id for header in headers]


def test_a_repeated_request_is_written_once_at_once_later_after_a_restart_and_after_its_segment_is_gone(
    tmp_path, store
):
    journal = DiskSegments(tmp_path / "journal")
    with committing(journal, store) as committer:
        first, same = together(committer, entry(1, "key"), entry(2, "key"))
        (later,) = together(committer, entry(3, "key"))
    (sealed,) = committer.sealed
    with committing(DiskSegments(tmp_path / "journal"), store) as committer:
        (restarted,) = together(committer, entry(4, "key"))
        with store.writing() as transaction:
            answer = msgspec.json.encode(sealed.repeatable["key"]).decode()
            record_answers(transaction, {"key": (sealed.repeatable["key"].at, answer)}, forget=LONG_AGO)
        committer.forget(["key"])
        (stored, other) = together(committer, entry(5, "key"), entry(6, "other"))

    assert {each.request_id for each in (first, same, later, restarted, stored)} == {"request-1"}
    assert other.request_id == "request-6"
    assert landed(DiskSegments(tmp_path / "journal")) == ["request-1", "request-6"]


def test_an_answer_is_given_again_for_a_day(tmp_path, store):
    for hours in (23, 25):
        old = datetime.now(UTC) - timedelta(hours=hours)
        header = replace_header(entry(hours).header, key=f"{hours} h", at=old)
        with store.writing() as transaction:
            answer = msgspec.json.encode(header).decode()
            record_answers(transaction, {header.key: (old, answer)}, forget=LONG_AGO)
    with committing(DiskSegments(tmp_path / "journal"), store) as committer:
        kept, forgotten = together(committer, entry(1, "23 h"), entry(2, "25 h"))

    assert (kept.request_id, forgotten.request_id) == ("request-23", "request-2")


def replace_header(header, **changes):
    return msgspec.structs.replace(header, **changes)


def test_an_append_that_fails_acknowledges_nothing_and_the_next_request_goes_into_a_new_segment(tmp_path, store):
    journal = Slow(DiskSegments(tmp_path / "journal"))
    with committing(journal, store) as committer:
        (first,) = together(committer, entry(1, "a"))
        journal.failures = 1
        (failed,) = together(committer, entry(2, "b"))
        failure = committer.failure
        (repeated,) = together(committer, entry(3, "b"))
        ready = not committer.failure

    assert first.request_id == "request-1"
    assert isinstance(failed, UnavailableError)
    assert "Input/output error" in failure
    assert ready
    assert repeated.request_id in landed(DiskSegments(tmp_path / "journal"))
    assert len(landed(DiskSegments(tmp_path / "journal"))) == 2


def test_a_write_to_the_blackboard_that_succeeded_although_it_failed_is_known_when_it_is_repeated(store):
    board = MemoryBlackboard()
    journal = Slow(BlackboardSegments(board, "journals/here/"))
    with committing(journal, store) as committer:
        journal.failures = 1
        (failed,) = together(committer, entry(1, "a"))
        (repeated,) = together(committer, entry(2, "a"))

    assert isinstance(failed, UnavailableError)
    assert repeated.request_id == "request-1"
    assert landed(BlackboardSegments(board, "journals/here/")) == ["request-1"]


def test_a_receiver_of_the_same_name_that_starts_ends_the_segment_and_loses_nothing_of_it(store):
    board = MemoryBlackboard()
    with committing(BlackboardSegments(board, "journals/here/"), store) as first:
        together(first, entry(1))
        with committing(BlackboardSegments(board, "journals/here/"), store) as second:
            together(second, entry(2))
            (refused,) = together(first, entry(3))
            (taken,) = together(first, entry(4))
            (segment,) = [each.name for each in second.sealed]
            assert [
                each.header.request_id for each in entries(BlackboardSegments(board, "journals/here/"), segment)
            ] == ["request-1"]

    assert isinstance(refused, UnavailableError)
    assert taken.request_id == "request-4"
    assert sorted(landed(BlackboardSegments(board, "journals/here/"))) == ["request-1", "request-2", "request-4"]


def test_a_segment_is_sealed_when_it_is_large_or_old_and_what_comes_then_is_in_the_next(tmp_path, store):
    journal = DiskSegments(tmp_path / "journal")
    with committing(journal, store, replace(LIMITS, roll_bytes=1)) as committer:
        for number in range(3):
            together(committer, entry(number))
        assert len(journal.segments()) == 3
    with committing(journal, store, replace(LIMITS, roll_seconds=0.01)) as committer:
        recovered = len(committer.sealed)
        together(committer, entry(4))
        until(lambda: len(committer.sealed) > recovered)

    assert recovered == 3
    assert len(committer.sealed) == 4


def test_the_age_of_what_waits_begins_with_the_first_entry_of_the_open_segment(tmp_path, store):
    with committing(DiskSegments(tmp_path / "journal"), store) as committer:
        before = committer.oldest_seconds
        together(committer, entry(1))
        first = committer.oldest_seconds
        together(committer, entry(2))
        second = committer.oldest_seconds

    assert before == committer.oldest_seconds == 0
    assert 0 < first < second


def test_without_the_store_requests_that_may_be_repeated_wait_and_others_go_on(tmp_path, store, monkeypatch):
    def fail(*_, **__):
        raise StoreError("The state database cannot be used")

    with committing(DiskSegments(tmp_path / "journal"), store) as committer:
        (before,) = together(committer, entry(1, "known"))
        monkeypatch.setattr("feed_assets.receiving.committing.answers", fail)
        known, unknown, free = together(committer, entry(2, "known"), entry(3, "new"), entry(4))

    assert known is before or known.request_id == "request-1"
    assert isinstance(unknown, UnavailableError)
    assert free.request_id == "request-4"


def test_a_loop_that_ends_during_an_append_loses_nothing_and_ends_no_process(tmp_path, store):
    journal = Slow(DiskSegments(tmp_path / "journal"))
    started, go_on = threading.Event(), threading.Event()
    append = journal.append

    def wait(frames):
        started.set()
        go_on.wait(HANGS)
        append(frames)

    journal.append = wait

    async def give_up(committer):
        request = asyncio.create_task(committer.commit(entry(1)))
        await asyncio.to_thread(started.wait, HANGS)
        request.cancel()  # as uvicorn does after the grace period

    with committing(journal, store) as committer:
        asyncio.run(give_up(committer))
        go_on.set()

    assert [each.name for each in committer.sealed] == journal.segments()
    assert landed(DiskSegments(tmp_path / "journal")) == ["request-1"]


def test_a_full_disk_is_told_and_nothing_is_taken_until_there_is_room(tmp_path, store, monkeypatch):
    journal = DiskSegments(tmp_path / "journal")

    def full():
        raise OSError(28, "No space left on device")

    with committing(journal, store) as committer:
        with monkeypatch.context() as patch:
            patch.setattr(journal, "begin", full)
            (refused,) = together(committer, entry(1))
            assert "No space left" in committer.failure
        (taken,) = together(committer, entry(2))
        assert not committer.failure

    assert isinstance(refused, UnavailableError)
    assert taken.request_id == "request-2"
    assert landed(journal) == ["request-2"]


@pytest.mark.parametrize("parts", [1, 3])
def test_recovered_segments_are_given_on_with_the_requests_that_may_be_repeated(tmp_path, store, parts):
    for number in range(parts):
        with committing(DiskSegments(tmp_path / f"{number}"), store) as committer:
            together(committer, entry(number, f"key-{number}"))
        (path,) = (tmp_path / f"{number}").glob("*.segment")
        (tmp_path / "journal").mkdir(exist_ok=True)
        path.rename(tmp_path / "journal" / path.name)

    with committing(DiskSegments(tmp_path / "journal"), store) as committer:
        found = {key for each in committer.sealed for key in each.repeatable}

    assert found == {f"key-{number}" for number in range(parts)}
