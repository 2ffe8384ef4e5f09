"""Polls: each file of a partner lands once, a new content of its name replaces it, and no poll downloads in vain."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.leases.on_blackboard import BlackboardLeases
from feed_assets.polling.places import BoardPlace, open_place
from feed_assets.polling.poller import LEASE, SCRATCH_BYTES
from feed_assets.polling.port import PlaceError
from feed_assets.polling.taken import lease_of
from feed_assets.sources.landing import land_files
from feed_assets.sources.layout import LandingId, name_digest
from feed_assets.sources.ledger import entries, find
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.polling.partners import (
    KEY,
    LONG_AGO,
    TODAY,
    Watched,
    content,
    describe,
    landed,
    lander,
    poller,
    send,
    without_spark,
)


@pytest.fixture(autouse=True)
def _without_spark():
    with without_spark():
        yield


@pytest.fixture
def source(tmp_path, outbox):
    return describe(tmp_path / "shop_ads.yaml", outbox)


def test_a_second_poll_downloads_nothing_and_costs_the_partners_listing_and_one_listing_of_ours(
    tmp_path, outbox, source
):
    files = [f"2019-11-{day}/{number}.csv" for day in range(24, 31) for number in range(5)]
    for name in files:
        send(outbox, name, name)
    board, theirs = RecordingBlackboard(MemoryBlackboard()), RecordingBlackboard(LocalBlackboard(outbox))
    first, second = (Watched(BoardPlace(theirs)) for _ in range(2))

    took = poller(board).poll(source, first)
    board.forget()
    theirs.forget()
    again = poller(board).poll(source, second)

    assert (took.seen, sorted(took.taken), took.summary["records"]) == (35, files, 35)
    assert Counter(first.downloads) == Counter(files)
    assert (again.seen, again.taken, second.downloads) == (35, [], [])
    assert board.counts() == {"page": 1}
    assert theirs.counts() == {"page": 9}  # a page for each day of the lookback, with today and tomorrow
    assert landed(board) == files


def test_a_file_that_is_three_days_late_is_found_and_each_source_has_its_own_lookback(tmp_path, outbox, source):
    board, other = MemoryBlackboard(), describe(tmp_path / "more" / "shop_ads.yaml", outbox, lookback_days=2)
    for name in ("2019-11-28/late.csv", "2019-11-24/first.csv", "2019-11-23/too-old.csv", "2019-12-02/tomorrow.csv"):
        send(outbox, name, name)
    send(outbox, "2019-11-28/ignored.txt", "x")
    send(outbox, "2019-11-28/.hidden.csv", "x")

    assert poller(board).poll(source).taken == [
        "2019-11-24/first.csv",
        "2019-11-28/late.csv",
        "2019-12-02/tomorrow.csv",
    ]
    assert poller(MemoryBlackboard()).poll(other).taken == ["2019-12-02/tomorrow.csv"]
    send(outbox, "2019-11-28/later.csv", "later")
    assert poller(board).poll(source).taken == ["2019-11-28/later.csv"]


def test_without_a_date_in_the_path_the_lookback_is_by_the_time_of_the_last_change(tmp_path, outbox):
    source = describe(tmp_path / "shop_ads.yaml", outbox, pattern="*.csv", lookback_days=3)
    day = 24 * 60 * 60
    send(outbox, "old.csv", "old", time=LONG_AGO - 4 * day)
    send(outbox, "new.csv", "new", time=LONG_AGO - 3 * day)
    board = MemoryBlackboard()

    assert poller(board).poll(source).taken == ["new.csv"]
    assert poller(board).poll(source).taken == []
    send(outbox, "old.csv", "newer")
    send(outbox, "new.csv", "newest")
    polled = poller(board).poll(source)
    assert (polled.taken, polled.replaced, landed(board)) == (["old.csv"], ["new.csv"], ["newer", "newest"])


def test_a_new_content_of_a_name_replaces_what_the_first_brought_and_an_earlier_content_can_come_back(outbox, source):
    board, name = MemoryBlackboard(), "2019-11-28/log.csv"
    seen = []
    for ids in (["1", "2"], ["2", "3", "4"], ["1", "2"]):
        send(outbox, name, *ids)
        polled = poller(board).poll(source)
        seen.append((polled.taken, polled.replaced, landed(board)))

    send(outbox, name, "1", "2", time=LONG_AGO + 5)
    touched = poller(board).poll(source)

    assert seen == [
        ([name], [], ["1", "2"]),
        ([], [name], ["2", "3", "4"]),
        ([], [name], ["1", "2"]),
    ]
    assert (touched.same, touched.replaced, landed(board)) == ([name], [], ["1", "2"])
    assert poller(board).poll(source).same == []


def test_a_file_that_was_replaced_often_costs_as_much_as_one_that_was_replaced_twice(outbox, source):
    board, name, costs = RecordingBlackboard(MemoryBlackboard()), "2019-11-28/log.csv", []
    for number in range(31):
        send(outbox, name, str(number), time=LONG_AGO + number)
        board.forget()
        poller(board).poll(source)
        costs.append((board.counts(), len(board.deleted)))
    send(outbox, name, "30", time=LONG_AGO + 40)
    board.forget()
    poller(board).poll(source)

    assert costs[30] == costs[2]
    assert board.counts()["read"] == 2  # the ledger, and the lease before it is given back
    assert landed(board) == ["30"]


def test_landing_again_takes_the_copy_of_the_content_in_force_and_never_an_earlier_one(outbox, source):
    board, name = LocalBlackboard(outbox.parent / "base"), "2019-11-28/log.csv"
    for ids in (["1"], ["2", "3"]):
        send(outbox, name, *ids)
        poller(board).poll(source)
    digest = name_digest(KEY, name)
    earlier, in_force = (find(board, KEY, LandingId(digest, generation)) for generation in (1, 2))
    corrected = source.model_copy(update={"null_tokens": ("none",)})

    again, nothing = land_files(None, board, corrected, [in_force, earlier], now=TODAY, again=True)

    assert (again.generation, again.file, again.sha256) == (3, name, in_force.sha256)
    assert (nothing.already_landed, nothing.generation) == (True, 2)
    assert landed(board) == ["2", "3"]
    assert [each.generation for each in entries(board, KEY, digest)] == [1, 2, 3]
    assert poller(board).poll(corrected).landings == []


def test_files_of_equal_content_are_different_files_and_all_land(outbox, source):
    send(outbox, "2019-11-28/a.csv", "1")
    send(outbox, "2019-11-28/b.csv", "1")
    board = MemoryBlackboard()
    poller(board).poll(source)
    assert landed(board) == ["1", "1"]


def test_of_two_polls_at_once_each_file_is_downloaded_by_one(outbox, source):
    names = [f"2019-11-28/{number}.csv" for number in range(20)]
    for name in names:
        send(outbox, name, name)
    board, places = MemoryBlackboard(), [Watched(open_place(source)) for _ in range(2)]
    results = []
    threads = [threading.Thread(target=lambda p=p: results.append(poller(board).poll(source, p))) for p in places]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert Counter(places[0].downloads + places[1].downloads) == Counter(names)
    assert sorted(results[0].taken + results[1].taken) == sorted(names)
    assert landed(board) == sorted(names)


def test_a_poll_that_stood_still_does_not_replace_newer_bytes_by_older_ones(outbox, source):
    name, board = "2019-11-28/log.csv", MemoryBlackboard()
    send(outbox, name, "old")

    def stand_still(operation, _):
        if operation == "downloaded" and landed(board) == []:
            send(outbox, name, "new")
            assert poller(board).poll(source).taken == [name]
            assert landed(board) == ["new"]

    slow = poller(board).poll(source, Watched(open_place(source), stand_still))
    after = Watched(open_place(source))
    poller(board).poll(source, after)

    assert (slow.landings, slow.left, landed(board)) == ([], {}, ["new"])
    assert after.downloads == []


def test_a_name_that_was_last_taken_before_the_lookback_is_replaced_by_one_poll(tmp_path, outbox):
    source, board = describe(tmp_path / "shop_ads.yaml", outbox, pattern="*.csv"), MemoryBlackboard()
    send(outbox, "latest.csv", "1")
    poller(board).poll(source)
    send(outbox, "latest.csv", "22", time=LONG_AGO + 20 * 24 * 60 * 60)
    polled = replace(poller(board), now=lambda: TODAY + timedelta(days=20)).poll(source)
    assert (polled.replaced, landed(board)) == (["latest.csv"], ["22"])


def test_a_bucket_in_which_an_earlier_object_is_put_back_is_followed(source):
    board, bucket, name = MemoryBlackboard(), MemoryBlackboard(), "2019-11-28/log.csv"
    seen = []
    for ids in ("1", "2", "1"):
        bucket.put(name, content(ids).encode())  # its tag is its content, as in S3
        seen.append((poller(board).poll(source, BoardPlace(bucket)).seen, landed(board)))
    assert seen == [(1, ["1"]), (1, ["2"]), (1, ["1"])]


def test_a_file_that_was_put_back_lands_again_if_the_landing_of_another_content_was_killed_and_is_completed(source):
    board, bucket, name = MemoryBlackboard(), MemoryBlackboard(), "2019-11-28/log.csv"

    class Dying:
        def __getattr__(self, operation):
            return getattr(board, operation)

        def create(self, key, data):
            if key.endswith("/2.json"):
                raise InterruptedError  # with its plan, and without its entry
            return board.create(key, data)

    bucket.put(name, content("1").encode())
    poller(board).poll(source, BoardPlace(bucket))
    bucket.put(name, content("2").encode())
    assert "2" not in landed(board)
    poller(Dying()).poll(source, BoardPlace(bucket))
    bucket.put(name, content("1").encode())
    assert poller(board).poll(source, BoardPlace(bucket)).landings == []
    bucket.put("2019-11-28/other.csv", content("3").encode())
    polled = poller(board).poll(source, BoardPlace(bucket))

    assert (polled.replaced, polled.taken, landed(board)) == ([name], ["2019-11-28/other.csv"], ["1", "3"])


def test_what_landed_before_its_source_was_polled_does_not_land_again_and_is_not_doubled_by_a_replacement(
    outbox, source
):
    board, name = MemoryBlackboard(), "2019-11-28/log.csv"
    path = send(outbox, name, "1")
    list(lander(board)(source.model_copy(update={"poll": None}), [path], None))
    first = poller(board).poll(source)
    send(outbox, name, "1", time=LONG_AGO + 5)
    touched = poller(board).poll(source)
    send(outbox, name, "another")
    replaced = poller(board).poll(source)

    assert (first.same, touched.same, landed(board)) == ([name], [name], ["1"])
    (problem,) = replaced.problems
    assert f"{name}: an earlier content of it landed before {KEY} was polled, and would not be replaced" in problem


def test_a_place_that_tells_no_times_is_looked_at_again_after_a_wait(tmp_path, outbox):
    class Timeless(BoardPlace):
        def entries(self, folder):
            return (replace(each, modified=None) for each in super().entries(folder))

    source, board, waits = describe(tmp_path / "shop_ads.yaml", outbox, settle_seconds=60), MemoryBlackboard(), []
    send(outbox, "2019-11-28/a.csv", "1")
    send(outbox, "2019-11-28/b.csv", "2")

    def wait(seconds):
        waits.append(seconds)
        send(outbox, "2019-11-28/b.csv", "2", "3")

    polled = poller(board, wait=wait).poll(source, Timeless(LocalBlackboard(outbox)))
    again = poller(board, wait=waits.append).poll(source, Timeless(LocalBlackboard(outbox)))

    assert (polled.taken, list(polled.left)) == (["2019-11-28/a.csv"], ["2019-11-28/b.csv"])
    assert (again.taken, landed(board)) == (["2019-11-28/b.csv"], ["1", "2", "3"])
    poller(board, wait=waits.append).poll(source, Timeless(LocalBlackboard(outbox)))
    assert waits == [60, 60]


@pytest.mark.parametrize(("most", "together"), [(SCRATCH_BYTES, [16, 16, 3]), (2 * len(content("00")), [3] * 11 + [2])])
def test_no_more_files_are_on_this_machine_than_land_together_nor_many_more_bytes(
    outbox, source, monkeypatch, most, together
):
    monkeypatch.setattr("feed_assets.polling.poller.SCRATCH_BYTES", most)
    for number in range(35):
        send(outbox, f"2019-11-28/{number}.csv", f"{number:02}")
    board, counts = MemoryBlackboard(), []

    def land(source, files, seen):
        counts.append(len([each for each in files[0].parents[2].rglob("*") if each.is_file()]))
        return lander(board)(source, files, seen)

    polled = replace(poller(board), land=land).poll(source)

    assert (len(polled.taken), counts) == (35, together)


def test_a_killed_poll_keeps_a_file_back_for_two_minutes_and_the_next_poll_says_so(outbox, source):
    name, board = "2019-11-28/log.csv", MemoryBlackboard()
    send(outbox, name, "1")
    (file,) = open_place(source).entries("2019-11-28")
    lease = lease_of(KEY, replace(file, day=TODAY.date() - timedelta(3)))
    assert BlackboardLeases(board).take(lease, LEASE, now=TODAY)

    early = poller(board, clock=lambda: TODAY + timedelta(seconds=119)).poll(source)
    late = poller(board, clock=lambda: TODAY + timedelta(seconds=120)).poll(source)

    assert early.left[name] == "another poll is taking it. If that poll was killed, a poll takes the file in 120 s"
    assert late.taken == [name]
    assert [key for key in board.objects() if "/claim." in key] == []


def test_a_file_that_may_still_be_written_is_left_and_so_is_one_that_changes_while_it_is_read(tmp_path, outbox):
    source = describe(tmp_path / "shop_ads.yaml", outbox, settle_seconds=60)
    now = TODAY.timestamp()
    send(outbox, "2019-11-28/fresh.csv", "1", time=now - 59)
    send(outbox, "2019-11-28/settled.csv", "2", time=now - 60)
    send(outbox, "2019-11-28/growing.csv", "3", time=now - 60)
    board = MemoryBlackboard()

    def write_on(operation, name):
        if operation == "download" and "growing" in name:
            send(outbox, name, "3", "4", time=now - 1)

    polled = poller(board, clock=lambda: TODAY).poll(source, Watched(open_place(source), write_on))

    assert polled.taken == ["2019-11-28/settled.csv"]
    assert polled.left == {
        "2019-11-28/fresh.csv": "it changed at 2019-12-01 11:59:01, and may still be written",
        "2019-11-28/growing.csv": "it changed since it was listed",
    }
    later = poller(board, clock=lambda: TODAY + timedelta(minutes=1)).poll(source)
    assert (sorted(later.taken), later.left, landed(board)) == (
        ["2019-11-28/fresh.csv", "2019-11-28/growing.csv"],
        {},
        ["1", "2", "3", "4"],
    )


def test_a_file_whose_time_is_to_come_is_taken_after_a_wait_unless_it_changes_meanwhile(tmp_path, outbox):
    """The partner's clock is ahead, or the file was copied with a time that somebody set."""
    source, board, waits = describe(tmp_path / "shop_ads.yaml", outbox, settle_seconds=60), MemoryBlackboard(), []
    a_year_on = (TODAY + timedelta(days=365)).timestamp()
    send(outbox, "2019-11-28/a.csv", "1", time=a_year_on)
    send(outbox, "2019-11-28/b.csv", "2", time=a_year_on)

    def wait(seconds):
        waits.append(seconds)
        send(outbox, "2019-11-28/b.csv", "2", "3", time=a_year_on + 1)

    polled = poller(board, clock=lambda: TODAY, wait=wait).poll(source)

    assert (polled.taken, polled.left) == (["2019-11-28/a.csv"], {"2019-11-28/b.csv": "it changed since it was listed"})
    assert poller(board, clock=lambda: TODAY, wait=waits.append).poll(source).taken == ["2019-11-28/b.csv"]
    assert (landed(board), waits) == (["1", "2", "3"], [60, 60])


def test_a_file_that_cannot_land_keeps_no_other_back_and_lands_once_it_is_right(outbox, source):
    send(outbox, "2019-11-28/a.csv", "1")
    (outbox / "2019-11-28" / "b.csv").write_bytes(b"")
    send(outbox, "2019-11-28/c.csv", "2")
    board = MemoryBlackboard()

    polled = poller(board).poll(source)

    assert (polled.taken, landed(board)) == (["2019-11-28/a.csv", "2019-11-28/c.csv"], ["1", "2"])
    assert polled.failed == {
        "2019-11-28/b.csv": "2019-11-28/b.csv is empty, and its source says that it has a header; have it sent again"
    }
    send(outbox, "2019-11-28/b.csv", "3")
    assert poller(board).poll(source).taken == ["2019-11-28/b.csv"]
    assert poller(board).poll(source).failed == {}


@pytest.mark.parametrize("kind", [MemoryBlackboard, LocalBlackboard])
def test_a_file_whose_name_the_disk_does_not_take_keeps_no_other_back(tmp_path, kind):
    source = describe(tmp_path / "shop_ads.yaml", tmp_path, pattern="*/*.csv")
    bucket = MemoryBlackboard(clock=lambda: TODAY)
    good, bad = ["a/1.csv", "d/1.csv"], [f"{'b' * 300}/1.csv", f"c/{'1' * 300}.csv"]
    for name in (*good, *bad):
        bucket.put(name, content(name).encode())
    board = MemoryBlackboard() if kind is MemoryBlackboard else LocalBlackboard(tmp_path / "base")

    polled = poller(board).poll(source, BoardPlace(bucket))

    assert (polled.taken, list(polled.failed), landed(board)) == (good, bad, good)
    assert all("too long" in problem for problem in polled.problems)


class LongTag(Watched):
    """Its first file has a tag that a name on a disk has room for behind `claim.`, and not behind a landing."""

    def look(self, files):
        first, *rest = files
        return [replace(first, tag="t" * 240), *rest]

    def download(self, file, target):
        target.write_bytes(self.place.board.read(file.name).data)


def test_a_file_that_has_landed_and_cannot_be_noted_keeps_no_other_back(tmp_path):
    source = describe(tmp_path / "shop_ads.yaml", tmp_path)
    names = ["2019-11-28/1.csv", "2019-11-28/2.csv"]
    bucket = MemoryBlackboard({name: content(name).encode() for name in names})
    board = LocalBlackboard(tmp_path / "base")

    place = LongTag(BoardPlace(bucket))
    first, second = (poller(board).poll(source, place) for _ in range(2))

    assert (first.taken, list(first.failed), landed(board)) == (names[1:], names[:1], names)
    assert "it has landed, and cannot be noted" in first.problems[0]
    assert (second.taken, second.failed, second.refused, landed(board)) == ([], {}, names[:1], names)


def test_names_that_a_polled_partner_cannot_choose_may_have_any_end_but_that_of_another_format_or_of_no_data(
    tmp_path, outbox
):
    names = ["0000_part_00", "E1.2019-11-28-12.d111abc"]  # as of Redshift and CloudFront
    for name in (*names, "1.jsonl", "a.csv.part"):
        send(outbox, name, name)
    source = describe(tmp_path / "shop_ads.yaml", outbox, pattern="*", lookback_days=3650)
    board = MemoryBlackboard()

    polled = poller(board).poll(source)

    assert (polled.taken, landed(board)) == (names, names)
    other, unfinished = polled.problems
    assert other.startswith("1.jsonl ends in '.jsonl', and ads/shop_ads takes csv files")
    assert unfinished.startswith("a.csv.part ends in '.part', and ads/shop_ads takes csv files")


def test_an_error_of_landing_gives_all_claims_back(outbox, source):
    send(outbox, "2019-11-28/a.csv", "1")
    board = MemoryBlackboard()

    def fail(*_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        replace(poller(board), land=fail).poll(source)
    assert board.objects() == {}
    assert poller(board).poll(source).taken == ["2019-11-28/a.csv"]


def test_a_place_that_is_not_there_is_an_error_and_not_an_empty_place(tmp_path, outbox):
    source = describe(tmp_path / "shop_ads.yaml", outbox / "typo")
    with pytest.raises(
        PlaceError, match=r"typo is no directory; create it, or correct .*shop_ads\.yaml:\d+: poll\.place"
    ):
        poller(MemoryBlackboard()).poll(source)


def test_a_file_that_is_larger_than_the_free_disk_is_not_downloaded(tmp_path, outbox):
    send(outbox, "2019-11-28/1.csv", "1")
    send(outbox, "2019-11-28/2.csv", "2")
    board, source = MemoryBlackboard(), describe(tmp_path / "shop_ads.yaml", outbox)

    class Sparse(Watched):
        def look(self, files):
            return [replace(each, size=2**62) if each.base == "1.csv" else each for each in files]

    place = Sparse(open_place(source))
    polled = poller(board).poll(source, place)

    assert "it has 4,611,686,018,427,387,904 bytes, and " in polled.failed["2019-11-28/1.csv"]
    assert (place.downloads, polled.taken) == (["2019-11-28/2.csv"], ["2019-11-28/2.csv"])
