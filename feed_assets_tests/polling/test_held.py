"""Files that polls leave alone: people are told of each failure once, and decide on it."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.polling.held import HELD, HeldFiles
from feed_assets.polling.places import open_place
from feed_assets.polling.port import PlaceError
from feed_assets.sources.loading import load_source
from feed_assets.sources.source_errors import PassingError
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.polling.partners import (
    LONG_AGO,
    TODAY,
    Watched,
    describe,
    landed,
    poller,
    send,
    without_spark,
)

BAD, GOOD = "2019-11-28/bad.csv", "2019-11-28/good.csv"


@pytest.fixture(autouse=True)
def _without_spark():
    with without_spark():
        yield


@pytest.fixture
def source(tmp_path, outbox):
    return describe(tmp_path / "shop_ads.yaml", outbox)


def spoil(outbox, time=LONG_AGO):
    path = outbox / BAD
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (time, time))


def test_a_file_that_cannot_land_fails_once_for_each_of_its_states_and_is_downloaded_once(outbox, source):
    board, found = MemoryBlackboard(), []
    place = Watched(open_place(source))
    for state in range(3):
        spoil(outbox, LONG_AGO + state)
        for _ in range(3):
            polled = poller(board).poll(source, place)
            found.append((list(polled.failed), polled.refused))

    assert found == [([BAD], []), ([], [BAD]), ([], [BAD])] * 3
    assert place.downloads == [BAD] * 3
    assert len([key for key in board.objects() if key.startswith(HELD)]) == 1  # that of the newest state
    send(outbox, BAD, "1", time=LONG_AGO + 9)
    assert (poller(board).poll(source).taken, landed(board)) == ([BAD], ["1"])
    assert [key for key in board.objects() if key.startswith(HELD)] == []


def test_a_refused_file_keeps_no_new_file_back_and_costs_one_more_listing(outbox, source):
    board = RecordingBlackboard(MemoryBlackboard())
    spoil(outbox)
    poller(board).poll(source)
    board.forget()

    again = poller(board).poll(source)

    assert (again.refused, board.counts()) == ([BAD], {"page": 2})
    send(outbox, GOOD, "1")
    assert poller(board).poll(source).taken == [GOOD]


def test_a_refused_file_is_tried_again_once_after_its_source_was_corrected(tmp_path, outbox, source):
    board = MemoryBlackboard()
    spoil(outbox)
    poller(board).poll(source)
    corrected = describe(tmp_path / "more" / "shop_ads.yaml", outbox, settle_seconds=1)

    first, second = (poller(board).poll(corrected) for _ in range(2))

    assert (list(first.failed), first.refused) == ([BAD], [])
    assert (second.failed, second.refused) == ({}, [BAD])


def test_a_person_releases_a_file_and_the_next_poll_tries_it(outbox, source):
    board = MemoryBlackboard()
    held = HeldFiles(board, source)
    spoil(outbox)
    poller(board, clock=lambda: TODAY).poll(source)
    (mark,) = held.all()

    assert (mark.file, mark.ignored, mark.final, mark.since) == (BAD, False, True, TODAY)
    assert mark.reason.startswith(f"{BAD} is empty")
    assert (held.release(BAD), held.release(BAD), list(held.all())) == (True, False, [])
    assert list(poller(board).poll(source).failed) == [BAD]


def test_an_ignored_name_is_left_alone_in_any_state_until_it_is_released(outbox, source):
    board = MemoryBlackboard()
    held = HeldFiles(board, source)
    held.ignore(BAD, "a test of the partner", now=TODAY)
    place = Watched(open_place(source))
    for state in range(2):
        send(outbox, BAD, str(state), time=LONG_AGO + state)
        polled = poller(board).poll(source, place)
        assert (polled.ignored, polled.taken, polled.failed) == ([BAD], [], {})

    assert (place.downloads, landed(board)) == ([], [])
    assert [(each.file, each.ignored, each.reason) for each in held.all()] == [(BAD, True, "a test of the partner")]
    held.release(BAD)
    assert poller(board).poll(source).taken == [BAD]


def test_a_file_that_its_place_does_not_give_is_tried_by_each_poll_and_told_once_for_each_reason(outbox, source):
    board, found = MemoryBlackboard(), []
    send(outbox, GOOD, "1")
    reasons = iter(["no permission", "no permission", "no such thing", "no such thing", None])

    def before(operation, _):
        if operation == "download" and (reason := next(reasons)):
            raise PlaceError(reason)

    for _ in range(5):
        polled = poller(board).poll(source, Watched(open_place(source), before))
        found.append((polled.failed, polled.refused, polled.taken))

    assert found == [
        ({GOOD: "no permission"}, [], []),
        ({}, [GOOD], []),
        ({GOOD: "no such thing"}, [], []),
        ({}, [GOOD], []),
        ({}, [], [GOOD]),
    ]
    assert list(HeldFiles(board, source).all()) == []


@pytest.mark.parametrize("error", [PassingError("it changed while it was read"), OSError("no space")])
def test_a_failure_that_is_none_of_the_file_is_told_by_each_poll(outbox, source, error):
    board = MemoryBlackboard()
    send(outbox, GOOD, "1")
    failing = replace(poller(board), land=lambda _, files, __: iter([error] * len(files)))

    assert [(list(each.failed), each.refused) for each in (failing.poll(source), failing.poll(source))] == [
        ([GOOD], []),
        ([GOOD], []),
    ]
    assert poller(board).poll(source).taken == [GOOD]


def test_a_name_of_another_format_is_refused_before_it_is_downloaded(tmp_path, outbox):
    source, board = describe(tmp_path / "shop_ads.yaml", outbox, pattern="*", lookback_days=3650), MemoryBlackboard()
    send(outbox, "a.csv", "1")
    for name in ("a.jsonl", "a.csv.xz"):
        (outbox / name).write_bytes(b"x")
        os.utime(outbox / name, (LONG_AGO, LONG_AGO))
    place = Watched(open_place(source))

    first, second = (poller(board).poll(source, place) for _ in range(2))

    assert (first.taken, sorted(first.failed), place.downloads) == (["a.csv"], ["a.csv.xz", "a.jsonl"], ["a.csv"])
    assert (second.failed, sorted(second.refused)) == ({}, ["a.csv.xz", "a.jsonl"])


def test_a_name_that_no_store_takes_is_told_once(tmp_path, outbox):
    source, board = describe(tmp_path / "shop_ads.yaml", outbox, pattern="*.csv"), MemoryBlackboard()
    (outbox / "a\\b.csv").write_bytes(b"x")

    first, second = (poller(board, clock=lambda: TODAY).poll(source) for _ in range(2))
    days_later = replace(poller(board), now=lambda: TODAY + timedelta(days=9)).poll(source)

    assert [len(each.failed) for each in (first, second, days_later)] == [1, 0, 0]
    assert [len(each.refused) for each in (first, second, days_later)] == [0, 1, 1]


def test_locks_of_office_programs_and_pipes_are_passed_over(tmp_path, outbox):
    source = describe(tmp_path / "shop_ads.yaml", outbox, pattern="*.csv")
    send(outbox, "a.csv", "1")
    (outbox / "~$a.csv").write_bytes(b"x")
    os.mkfifo(outbox / "pipe.csv")

    polled = poller(LocalBlackboard(tmp_path / "base")).poll(source)

    assert (polled.seen, polled.taken, polled.failed) == (1, ["a.csv"], {})


def test_marks_of_one_source_are_none_of_another(tmp_path, outbox, source):
    board = MemoryBlackboard()
    path = tmp_path / "other.yaml"
    path.write_text((tmp_path / "shop_ads.yaml").read_text(encoding="utf-8").replace("shop_ads", "shop_ads_2"))
    other = load_source(path, KINDS)
    HeldFiles(board, source).ignore(GOOD, "", now=TODAY)
    send(outbox, GOOD, "1")

    assert poller(board).poll(source).ignored == [GOOD]
    assert poller(board).poll(other).taken == [GOOD]
