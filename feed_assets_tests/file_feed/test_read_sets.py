"""Large read sets: small records, a listing beside them that few read, and what remains where it is gone."""

from __future__ import annotations

import gzip
import json
import logging
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets.file_feed import (
    Facts,
    Feed,
    FeedInput,
    Policy,
    RawFile,
    RawInput,
    carry_out,
    claim,
    downstream,
    in_full,
    inputs_digest,
    plan,
    publish,
    read_record,
    recorded_digests,
    stage,
    upstream,
    verify,
)
from feed_assets.sources.growth import decide
from feed_assets.sources.raw import evening, evening_read
from feed_assets_tests.blackboard.recording import RecordingBlackboard

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
LATER = NOW + timedelta(days=9)
DAY = "2018-05-20"
CATALOG = FeedInput("catalog/v1.0", None, "20180520.000000")
FIVE_PERCENT = Decimal(5)
OTHER = gzip.compress(json.dumps([["ads/x", DAY, [["00/other", 1, "t"]]]]).encode())


def read_set(files: int, *, start: int = 0, size: int = 100_000) -> RawInput:
    """So many raw files over the hours of a day."""
    names = range(start, start + files)
    return RawInput("ads/x", DAY, tuple(RawFile(f"{n % 24:02}/part-{n:08}.parquet", size, f"{n:032x}") for n in names))


def listed(read: RawInput) -> RawInput:
    """The same as a record keeps it."""
    return replace(read, files=(), listed=read.hours)


def published(feed: Feed, *inputs: FeedInput | RawInput) -> str:
    """The name of an update that was made from these."""
    return publish(stage(claim(feed, DAY, now=NOW, owner="run"), (), Facts(inputs=inputs), now=NOW), now=NOW).name


@pytest.fixture
def board() -> RecordingBlackboard:
    return RecordingBlackboard(MemoryBlackboard())


@pytest.fixture
def feed(board: RecordingBlackboard) -> Feed:
    return Feed(board, "clean/v1.0")


def listing(feed: Feed, name: str) -> str:
    return f"{feed.root}.feed/read-sets/{DAY}/{name}.json.gz"


def test_the_record_of_50_000_raw_files_is_as_small_as_that_of_5_000(feed: Feed, board: RecordingBlackboard) -> None:
    sizes = {}
    for files in (100, 5_000, 50_000):
        board.forget()
        name = published(feed, CATALOG, read_set(files))
        written = [each.key for each in board.requests if each.operation == "create" and "/claims/" not in each.key]
        assert [listing(feed, name)] * (files > 100) == [key for key in written if "/read-sets/" in key]
        (key,) = (key for key in written if "/records/" in key)
        sizes[files] = len(board.read(key).data)

    assert sizes[50_000] < 4_000
    assert sizes[50_000] < sizes[5_000] + 200
    assert sizes[100] > 9_000  # these are named in the record itself


def test_the_totals_of_a_read_set_take_no_request_and_its_files_take_one(
    feed: Feed, board: RecordingBlackboard
) -> None:
    read = read_set(5_000)
    name = published(feed, CATALOG, read)
    board.forget()
    record = read_record(feed, DAY, name)
    assert record is not None
    assert board.counts() == {"page": 1, "read": 1}
    totals = record.read_sets["ads/x", DAY]
    assert (totals.count, totals.bytes, totals.hours) == (read.count, read.bytes, read.hours)
    assert record.facts.inputs == (CATALOG, listed(read))
    board.forget()

    assert in_full(feed, DAY, name, totals) == read
    assert board.counts() == {"read": 1}


def test_the_key_of_the_record_tells_single_files_as_ever(feed: Feed) -> None:
    name = published(feed, CATALOG, read_set(5_000))
    assert recorded_digests(feed) == {DAY: {name: inputs_digest([CATALOG, read_set(5_000)])}}


def test_lineage_finds_a_single_raw_file_in_both_directions(feed: Feed) -> None:
    read = read_set(4_000)
    name = published(feed, read)
    assert upstream(feed, DAY, name) == (read,)
    assert [each.update for each in downstream(read.files[7], [feed])] == [name]
    assert downstream(RawFile("01/other", 1, "t"), [feed]) == []


@pytest.mark.parametrize(
    "damage",
    [None, b"", gzip.compress(b"[]"), OTHER, b"\x1f\x8b"],
    ids=["gone", "empty", "of nothing", "of other files", "cut off"],
)
def test_a_listing_that_is_lost_is_named_and_leaves_the_totals(
    feed: Feed, board: RecordingBlackboard, caplog: pytest.LogCaptureFixture, damage: bytes | None
) -> None:
    name = published(feed, read_set(5_000))
    board.delete(listing(feed, name))
    if damage is not None:
        board.create(listing(feed, name), damage)
    record = read_record(feed, DAY, name)
    assert record is not None

    with caplog.at_level(logging.WARNING, "feed_assets.file_feed"):
        assert in_full(feed, DAY, name, record.read_sets["ads/x", DAY]) == record.read_sets["ads/x", DAY]

    assert "Which raw files the update read is lost" in caplog.text
    assert listing(feed, name) in caplog.text
    faults = [(each.kind, each.message) for each in verify(feed, now=NOW)]
    gone = ("read set", "the list of its raw files is gone: their totals are known")
    assert faults == ([gone] if damage is None else [])


def test_a_listing_that_is_a_bomb_is_not_unpacked(feed: Feed, board: RecordingBlackboard) -> None:
    name = published(feed, read_set(5_000))
    board.delete(listing(feed, name))
    board.create(listing(feed, name), gzip.compress(bytes(2**29), compresslevel=1))
    record = read_record(feed, DAY, name)
    assert record is not None

    tracemalloc.start()
    try:
        assert in_full(feed, DAY, name, record.read_sets["ads/x", DAY]).count == 5_000
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()


def test_retention_removes_the_listing_with_the_record(feed: Feed, board: RecordingBlackboard) -> None:
    old, new = (published(feed, read_set(files)) for files in (5_000, 5_001))
    assert verify(feed, now=LATER) == []
    removals = plan(feed, Policy(keep=1, younger_than=timedelta(0), longest_write=timedelta(0)), now=LATER)

    assert [outcome.removed for outcome in carry_out(feed, removals, now=LATER)] == [True]

    assert [removal.update for removal in removals] == [old]
    left = {entry.key for entry in board.page(f"{feed.root}.feed/").entries}
    assert listing(feed, new) in left
    assert not [key for key in left if old in key and "/changes/" not in key]


def test_a_listing_without_its_update_is_a_fault(feed: Feed, board: RecordingBlackboard) -> None:
    board.create(listing(feed, "20180520.160000"), b"")
    (found,) = verify(feed, now=LATER)
    assert (found.kind, found.update) == ("orphan", "20180520.160000")


# --- growth without the files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "kind", "needs_files"),
    [
        (read_set(5_000), "unchanged", False),
        (read_set(5_250), "grown", False),
        (read_set(4_999), "shrunk", False),
        (None, "vanished", False),
        (read_set(5_001), "replaced", True),
        (read_set(5_000, start=1), "replaced", True),
    ],
)
def test_totals_decide_all_but_a_small_change(now: RawInput | None, kind: str, needs_files: bool) -> None:
    totals = listed(read_set(5_000))
    decision = decide(totals, now, FIVE_PERCENT)
    assert (decision.kind, decision.needs_files) == (kind, needs_files)
    by_file = decide(read_set(5_000), now, FIVE_PERCENT)
    assert decision.growth_percent == by_file.growth_percent
    assert decision.kind == by_file.kind or needs_files
    assert "None" not in decision.sentence()


def test_the_evening_is_known_from_totals_unless_it_has_changed() -> None:
    read = read_set(5_000)
    totals, asked = listed(read), []

    def fetch(of: RawInput) -> RawInput:
        asked.append(of)
        return read

    noon = replace(read, files=(*read.files, RawFile("12/late", 1, "t")))
    assert evening_read(totals, noon, 1, fetch) == evening(read, 1)
    assert not asked
    late = replace(read, files=(*read.files, RawFile("23/late", 1, "t")))
    assert evening_read(totals, late, 1, fetch) == evening(read, 1)
    assert asked == [totals]
    assert evening_read(totals, late, 1, lambda of: of) is None


def test_on_s3_a_large_read_set_is_one_put_more_and_a_small_record(versitygw) -> None:
    s3_client = versitygw.client()
    s3_client.create_bucket(Bucket="read-sets")
    counted: list[str] = []
    event = "before-call.s3"
    s3_client.meta.events.register(event, lambda model, **_: counted.append(model.name), unique_id="read-sets")
    feed = Feed(S3Blackboard(s3_client, "read-sets"), "clean/v1.0")
    costs = {}
    for files in (100, 50_000):
        counted.clear()
        name = published(feed, read_set(files))
        costs[files] = (counted.count("PutObject"), counted.count("GetObject"), counted.count("ListObjectsV2"))
    record = read_record(feed, DAY, name)
    assert record is not None
    *_, entry = feed.blackboard.page(f"{feed.root}.feed/records/{DAY}/").entries
    counted.clear()

    assert in_full(feed, DAY, name, record.read_sets["ads/x", DAY]) == read_set(50_000)
    s3_client.meta.events.unregister(event, unique_id="read-sets")

    assert counted == ["GetObject"]
    assert entry.size < 4_000
    assert costs[50_000] == (costs[100][0] + 1, *costs[100][1:])
