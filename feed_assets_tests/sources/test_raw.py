"""Listing raw partitions: what counts as a raw file, in which days, and at the cost of how many listings."""

from datetime import date

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.sources.raw import changed_raw_files, raw_days, read_set
from feed_assets_tests.blackboard.recording import RecordingBlackboard

ADS = "ads/partner"
DIGEST = "0123456789abcdef"
FIRST, LAST = date(2019, 11, 24), date(2019, 11, 26)


def names(blackboard, first=FIRST, last=LAST, sources=(ADS,)):
    found = raw_days(blackboard, sources, first, last)
    return {day.isoformat(): [file.path for file in raw.files] for (_, day), raw in found.items()}


def test_the_files_of_each_day_from_the_first_to_the_last_are_found():
    days = [f"2019-11-{day}" for day in range(23, 29)]
    blackboard = MemoryBlackboard(
        {f"raw/{ADS}/{day}/{hour}/x.parquet": b"abc" for day in days for hour in ("00", "23")}
    )

    assert names(blackboard) == {day: ["00/x.parquet", "23/x.parquet"] for day in days[1:4]}
    assert read_set(blackboard, ADS, FIRST).bytes == 6


def test_a_day_without_files_is_left_out_of_the_listing_and_an_empty_read_set():
    blackboard = MemoryBlackboard()

    assert names(blackboard) == {}
    assert read_set(blackboard, ADS, FIRST).files == ()


def test_sources_whose_names_begin_alike_are_not_mixed_up():
    blackboard = MemoryBlackboard(
        {f"raw/{source}/2019-11-24/05/x.parquet": source.encode() for source in (ADS, f"{ADS}2", "clicks/partner")}
    )

    found = raw_days(blackboard, [ADS, "clicks/partner"], FIRST, LAST)

    assert {key: raw.bytes for key, raw in found.items()} == {
        (ADS, FIRST): len(ADS),
        ("clicks/partner", FIRST): len("clicks/partner"),
    }


def test_a_landed_file_counts_only_once_the_ledger_has_its_landing():
    landed = f"raw/{ADS}/2019-11-24/05/landed-{DIGEST}.1.parquet"
    blackboard = MemoryBlackboard({landed: b"x", f"raw/{ADS}/2019-11-24/06/other.parquet": b"x"})

    assert names(blackboard) == {"2019-11-24": ["06/other.parquet"]}

    blackboard.put(f"raw/.landed/{ADS}/entries/{DIGEST}/1.json", b"{}")

    assert names(blackboard) == {"2019-11-24": [f"05/landed-{DIGEST}.1.parquet", "06/other.parquet"]}


def test_a_landing_whose_days_are_not_listed_is_found_in_the_ledger_by_its_content():
    blackboard = MemoryBlackboard(
        {
            f"raw/{ADS}/2019-11-24/05/landed-{DIGEST}.1.parquet": b"x",
            f"raw/{ADS}/2020-05-01/05/landed-{DIGEST}.1.parquet": b"x",
            f"raw/.landed/{ADS}/entries/{DIGEST}/1.json": b"{}",
        }
    )

    assert names(blackboard, FIRST, FIRST) == {"2019-11-24": [f"05/landed-{DIGEST}.1.parquet"]}


def test_a_landing_of_another_source_with_the_same_digest_does_not_count():
    blackboard = MemoryBlackboard(
        {
            f"raw/{ADS}/2019-11-24/05/landed-{DIGEST}.1.parquet": b"x",
            f"raw/.landed/clicks/partner/entries/{DIGEST}/1.json": b"{}",
        }
    )

    assert names(blackboard) == {}


@pytest.mark.parametrize(
    "path",
    [
        "2019-11-24/05/_SUCCESS",
        "2019-11-24/05/_temporary/x.parquet",
        "2019-11-24/05/.x.parquet",
        "2019-11-24/05/x.csv",
        "2019-11-24/24/x.parquet",
        "2019-11-24/x.parquet",
        "2019-11-31/05/x.parquet",
        "2019-11-24x/05/x.parquet",
        "2019-11-24/0\N{ARABIC-INDIC DIGIT THREE}/x.parquet",
    ],
)
def test_what_is_no_raw_file_is_not_one(path):
    days = raw_days(MemoryBlackboard({f"raw/{ADS}/{path}": b"x"}), [ADS], date.min, date.max)

    assert days == {}


class CountsPages(MemoryBlackboard):
    """A blackboard that counts the pages asked of it."""

    pages = 0

    def page(self, prefix, **more):
        self.pages += 1
        return super().page(prefix, **more)


def test_a_month_of_a_source_costs_as_many_pages_as_its_files_fill_and_one_for_the_ledger():
    blackboard = CountsPages(
        {
            f"raw/{ADS}/2019-{month}-{day:02}/{hour:02}/x.parquet": b"x"
            for month in (10, 11)
            for day in range(1, 31)
            for hour in range(24)
        }
    )

    found = raw_days(blackboard, [ADS], date(2019, 10, 1), date(2019, 10, 30))

    assert sum(len(raw.files) for raw in found.values()) == 30 * 24
    assert blackboard.pages == 2


class Interrupted(MemoryBlackboard):
    """A blackboard in which something happens before page number `at`."""

    def __init__(self, objects, at, interrupt):
        super().__init__(objects)
        self._pages_left, self._interrupt = at, interrupt

    def page(self, prefix, **more):
        if self._pages_left == 0:
            self._interrupt(self)
        self._pages_left -= 1
        return super().page(prefix, **more)


@pytest.mark.parametrize("at", range(5))
def test_a_landing_that_becomes_complete_during_the_listing_is_seen_whole_or_not_at_all(at):
    before = {f"raw/{ADS}/2019-11-24/{hour:02}/other-{n}.parquet": b"x" for hour in range(24) for n in range(50)}

    def complete(blackboard):
        for day in range(24, 27):
            blackboard.put(f"raw/{ADS}/2019-11-{day}/05/landed-{DIGEST}.1.parquet", b"x")
        blackboard.put(f"raw/.landed/{ADS}/entries/{DIGEST}/1.json", b"{}")

    found = names(Interrupted(before, at, complete))

    landed = [path for files in found.values() for path in files if "landed" in path]
    assert len(landed) in {0, 3}


@pytest.mark.parametrize("at", range(6))
def test_a_landing_that_is_superseded_during_the_listing_is_seen_or_the_new_one_and_never_both_or_none(at):
    # Enough landings that the ledger's listing takes two pages.
    before = {f"raw/.landed/{ADS}/days/2019-11-24/{number:016x}": b"" for number in range(1500)}
    before |= {f"raw/{ADS}/2019-11-{day}/05/landed-{DIGEST}.1.parquet": b"x" for day in (24, 26)}
    before |= {f"raw/.landed/{ADS}/entries/{DIGEST}/1.json": b"{}"}

    def supersede(blackboard):
        for day in (24, 25, 26):  # also where only the earlier one has records
            blackboard.put(f"raw/{ADS}/2019-11-{day}/05/landed-{DIGEST}-2.1.parquet", b"y")
        blackboard.put(f"raw/.landed/{ADS}/entries/{DIGEST}/2.json", b"{}")

    found = [path for files in names(Interrupted(before, at, supersede)).values() for path in files]

    assert found in ([f"05/landed-{DIGEST}.1.parquet"] * 2, [f"05/landed-{DIGEST}-2.1.parquet"] * 3)


def test_a_landing_is_superseded_also_in_days_without_a_file_of_the_new_one():
    blackboard = MemoryBlackboard(
        {
            f"raw/{ADS}/2019-11-26/05/landed-{DIGEST}.1.parquet": b"x",
            f"raw/.landed/{ADS}/entries/{DIGEST}/1.json": b"{}",
            f"raw/{ADS}/2019-11-24/05/landed-{DIGEST}-2.1.parquet": b"x",
            f"raw/.landed/{ADS}/entries/{DIGEST}/2.json": b"{}",
            f"raw/{ADS}/2019-11-26/06/landed-{DIGEST}-10.1.parquet": b"x",
            f"raw/{ADS}/2019-11-26/06/landed-{DIGEST}-9.1.parquet": b"x",
        }
    )

    assert names(blackboard, LAST, LAST) == {}
    for generation in (9, 10):
        blackboard.put(f"raw/.landed/{ADS}/entries/{DIGEST}/{generation}.json", b"{}")

    assert names(blackboard) == {"2019-11-26": [f"06/landed-{DIGEST}-10.1.parquet"]}


def test_files_of_a_read_set_that_were_replaced_or_removed_are_named_and_new_ones_are_not():
    days = [date(2019, 11, 24), date(2019, 11, 25)]
    keys = [f"raw/{ADS}/{day}/05/{name}.parquet" for day in days for name in "ab"]
    blackboard = RecordingBlackboard(MemoryBlackboard(dict.fromkeys(keys, b"x")))
    read = [read_set(blackboard, ADS, day) for day in days]

    assert changed_raw_files(blackboard, read) == []
    blackboard.replace(keys[0], b"y", tag=blackboard.read(keys[0]).entry.tag)
    blackboard.delete(keys[3])
    blackboard.create(f"raw/{ADS}/2019-11-24/05/late.parquet", b"x")
    blackboard.forget()

    assert changed_raw_files(blackboard, read) == [blackboard.uri(keys[0]), blackboard.uri(keys[3])]
    assert [request.operation for request in blackboard.requests] == ["page"]
