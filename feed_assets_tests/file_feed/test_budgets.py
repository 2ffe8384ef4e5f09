"""How many requests, and of which kind, each operation makes: what S3 bills, and what keeps sensors quick."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import PAGE_SIZE
from feed_assets.file_feed import (
    CheckOutcome,
    Column,
    Facts,
    Feed,
    Policy,
    carry_out,
    claim,
    find_staged,
    histories,
    invalidate,
    is_latest,
    latest,
    latest_of_all,
    plan,
    publish,
    publish_files,
    recorded_digests,
    reject,
    require_latest,
    stage,
    staged_files,
    tags,
    update_name,
)
from feed_assets.file_feed import history as statuses_of
from feed_assets_tests.blackboard.recording import RecordingBlackboard

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
DAY = "2018-05-20"
PASSED = (CheckOutcome("rows", passed=True, severity="ERROR"),)
FACTS = Facts(schema=(Column("ad_id", "bigint"),))


def history(count: int, *, every: timedelta, last: datetime = NOW) -> list[str]:
    """The names of so many updates, the last of them begun at `last`."""
    return [update_name(last - number * every) for number in reversed(range(count))]


def objects(names: Iterable[str], *, partition: str = DAY, files: int = 1) -> dict[str, bytes]:
    content = {f"part-{number}": b"" for number in range(files)} | {"_SUCCESS": str(files).encode()}
    return {f"ads/v1.0/{partition}/{name}/{path}": data for name in names for path, data in content.items()}


def recorded(content: dict[str, bytes], *, content_tags: bool = True) -> tuple[Feed, RecordingBlackboard]:
    board = RecordingBlackboard(MemoryBlackboard(content, content_tags=content_tags))
    return Feed(board, "ads/v1.0"), board


def area(key: str) -> str:
    """Which part of a feed a request was about."""
    parts = {
        "claims": "claim",
        "read-sets": "read set",
        "records": "record",
        "_SUCCESS": "manifest",
        "schema.json": "schema",
        "/changes/": "log",
    }
    return next((name for part, name in {**parts, "tags": "tags", "pins": "pins"}.items() if part in key), "data")


def areas(board: RecordingBlackboard, operation: str) -> list[str]:
    return [area(request.key) for request in board.requests if request.operation == operation]


@pytest.fixture
def empty() -> tuple[Feed, RecordingBlackboard]:
    return recorded({})


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("updates", [1, 10, 10_000])
@pytest.mark.parametrize(("content_tags", "cost"), [(True, {"page": 1}), (False, {"page": 1, "read": 1})])
def test_the_latest_costs_one_listing_whatever_the_length_of_the_history(
    updates: int, content_tags: bool, cost: dict[str, int]
) -> None:
    feed, board = recorded(objects(history(updates, every=timedelta(minutes=10))), content_tags=content_tags)
    assert require_latest(feed, DAY, now=NOW).name == "20180521.160000"
    assert board.counts() == cost


@pytest.mark.parametrize(("updates", "pages"), [(1, 2), (10, 2), (500, 2), (10_000, 5)])
def test_the_latest_of_a_year_ago_costs_a_few_listings(updates: int, pages: int) -> None:
    feed, board = recorded(objects(history(updates, every=timedelta(days=1), last=NOW - timedelta(days=365))))
    assert require_latest(feed, DAY, now=NOW).name == "20170521.160000"
    assert board.counts() == {"page": pages}


@pytest.mark.parametrize("files", [1, 20])
def test_the_latest_of_a_year_ago_is_found_by_halving_where_its_history_is_long(files: int) -> None:
    names = history(10_000, every=timedelta(minutes=10), last=NOW - timedelta(days=365))
    feed, board = recorded(objects(names[:-300]) | objects(names[-300:], files=files))
    assert require_latest(feed, DAY, now=NOW).name == "20170521.160000"
    assert board.counts()["page"] <= 14
    assert board.counts()["read"] == 0


def test_as_of_a_time_costs_the_same_as_now() -> None:
    feed, board = recorded(objects(history(10_000, every=timedelta(minutes=10))))
    assert latest(feed, DAY, now=NOW, as_of=NOW - timedelta(days=30)) is not None
    assert board.counts() == {"page": 1}


def test_that_there_is_nothing_costs_two_listings(empty: tuple[Feed, RecordingBlackboard]) -> None:
    feed, board = empty
    assert latest(feed, DAY, now=NOW) is None
    assert board.counts() == {"page": 2}


def test_updates_that_were_rejected_or_invalidated_cost_a_reader_nothing(
    empty: tuple[Feed, RecordingBlackboard],
) -> None:
    feed, board = empty
    first, second = (publish_files(feed, DAY, [], now=NOW, owner="me") for _ in range(2))
    invalidate(feed, DAY, second.name, reason="wrong", author="me", now=NOW)
    reject(stage(claim(feed, DAY, now=NOW, owner="me"), (), Facts(), now=NOW), reason="no", now=NOW)
    board.forget()
    assert latest(feed, DAY, now=NOW) == first
    assert board.counts() == {"page": 1}


@pytest.mark.parametrize("updates", [10, 10_000])
def test_whether_an_update_is_still_the_latest_costs_one_listing(updates: int) -> None:
    feed, board = recorded(objects(history(updates, every=timedelta(minutes=10))))
    held = require_latest(feed, DAY, now=NOW)
    board.forget()
    assert is_latest(held)
    invalidate(feed, DAY, held.name, reason="wrong", author="me", now=NOW)
    board.forget()
    assert not is_latest(held)
    assert board.counts()["page"] == 1


@pytest.mark.parametrize(("partitions", "updates"), [(1, 1), (400, 1), (1000, 2), (40, 24)])
def test_the_latest_of_all_partitions_of_short_history_costs_the_listing_of_their_keys(
    partitions: int, updates: int
) -> None:
    content: dict[str, bytes] = {}
    for number in range(partitions):
        content |= objects(history(updates, every=timedelta(hours=1)), partition=f"p{number:04}")
    feed, board = recorded(content)
    assert len(latest_of_all(feed, now=NOW)) == partitions
    # And one listing of the records, as a page ends inside a history.
    assert board.counts()["page"] <= math.ceil(len(content) / PAGE_SIZE) + 2


@pytest.mark.parametrize("last", [NOW, NOW - timedelta(days=365)])
def test_the_latest_of_all_partitions_of_deep_history_costs_a_listing_for_each_and_that_of_the_records(
    last: datetime,
) -> None:
    names = history(3_000, every=timedelta(minutes=10), last=last)
    partitions = [f"p{number}" for number in range(5)]
    content: dict[str, bytes] = {}
    for partition in partitions:
        content |= objects(names, partition=partition)
        content |= {f"ads/v1.0/.feed/records/{partition}/{name}.0.json": b"" for name in names}
    feed, board = recorded(content)
    found = latest_of_all(feed, now=NOW)
    assert {partition: update.name for partition, update in found.items()} == dict.fromkeys(partitions, names[-1])
    records = math.ceil(len(partitions) * len(names) / PAGE_SIZE)
    assert board.counts()["page"] <= len(partitions) + records + 3
    assert board.counts()["read"] == 0


def test_a_large_control_area_is_jumped_over() -> None:
    control = {f"ads/v1.0/.feed/records/{DAY}/{name}.0.json": b"" for name in history(5_000, every=timedelta(hours=1))}
    feed, board = recorded(objects(["20180521.160000"]) | control)
    assert set(latest_of_all(feed, now=NOW)) == {DAY}
    assert board.counts() == {"page": 2}


def test_what_every_update_was_made_from_costs_the_listing_of_the_records() -> None:
    names = history(2_500, every=timedelta(hours=1))
    feed, board = recorded({f"ads/v1.0/.feed/records/{DAY}/{name}.0.json": b"" for name in names})
    assert recorded_digests(feed) == {DAY: dict.fromkeys(names, "0")}
    assert board.counts() == {"page": 3}


# --- what holds updates -----------------------------------------------------------------------------------------------


def tagged_partitions(count: int) -> tuple[Feed, RecordingBlackboard]:
    """So many partitions of three updates, the oldest of them with a tag."""
    names = history(3, every=timedelta(days=100))
    content: dict[str, bytes] = {}
    for number in range(count):
        content |= objects(names, partition=f"p{number:03}")
        content[f"ads/v1.0/.feed/tags/p{number:03}/golden"] = f'{{"update": "{names[0]}"}}'.encode()
    return recorded(content)


def test_the_history_of_a_partition_reads_the_tags_of_that_one_and_none_where_they_are_known() -> None:
    feed, board = tagged_partitions(100)
    statuses = statuses_of(feed, "p001", now=NOW)
    assert [status.tags for status in statuses] == [(), (), ("golden",)]
    assert board.counts() == {"page": 3, "read": 1}
    known = tags(feed)
    board.forget()
    assert statuses_of(feed, "p001", now=NOW, tagged=known) == statuses
    assert board.counts() == {"page": 2}


def test_removals_look_together_so_their_reads_grow_with_pages() -> None:
    feed, board = tagged_partitions(100)
    removals = plan(feed, Policy(keep=1, younger_than=timedelta(0), longest_write=timedelta(0)), now=NOW)
    assert len(removals) == 100
    board.forget()
    assert all(outcome.removed for outcome in carry_out(feed, removals, now=NOW))
    kinds = Counter((request.operation, area(request.key)) for request in board.requests)
    assert kinds == {
        ("page", "data"): 3,  # before and after taking over, and to see that nothing is left
        ("page", "tags"): 2,
        ("read", "tags"): 200,
        ("page", "pins"): 2 + 1,  # and one for their own that have ended
        ("page", "record"): 1,
        ("replace", "manifest"): 200,
        ("create", "log"): 100,
        ("delete", "data"): 1,  # the files of all of them,
        ("delete", "claim"): 1,  # their claims, records and pins,
        ("delete", "manifest"): 1,  # and their manifests and folders
    }


@pytest.mark.parametrize(("keys", "pages"), [(998, 1), (1_000, 1), (1_002, 2)])
def test_the_reads_of_removals_grow_with_the_pages_of_the_listing(keys: int, pages: int) -> None:
    feed, board = recorded(objects(history(keys // 2, every=timedelta(hours=1))))
    policy = Policy(keep=keys // 2 - 99, younger_than=timedelta(0), longest_write=timedelta(0))
    removals = plan(feed, policy, now=NOW)
    assert board.counts() == {"page": pages + 4}  # claims, records, tags, pins
    assert len(removals) == 99
    board.forget()
    assert all(outcome.removed for outcome in carry_out(feed, removals, now=NOW))
    assert Counter(areas(board, "page")) == {"data": 2 * pages + 1, "tags": 2, "pins": 3, "record": 1}
    assert board.counts()["read"] == 0


# --- looking at all of it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("updates", "pages"), [(1, 1), (499, 1), (500, 1), (501, 2), (5_000, 11)])
def test_the_history_of_a_feed_costs_the_pages_of_its_listing(updates: int, pages: int) -> None:
    names = history(updates, every=timedelta(hours=1))
    records = {f"ads/v1.0/.feed/records/{DAY}/{name}.0.json": b"" for name in names}
    feed, board = recorded(objects(names) | records)
    assert len(dict(histories(feed, now=NOW))[DAY]) == updates
    assert board.counts()["page"] <= pages + math.ceil(updates / PAGE_SIZE) + 2
    assert board.counts()["read"] == 0


def test_the_history_of_many_partitions_costs_the_pages_of_one_listing() -> None:
    content: dict[str, bytes] = {}
    for number in range(950):
        content |= objects(["20180521.160000"], partition=f"p{number:03}")
        content[f"ads/v1.0/.feed/records/p{number:03}/20180521.160000.0.json"] = b""
    feed, board = recorded(content)
    assert len(dict(histories(feed, now=NOW))) == 950
    assert board.counts() == {"page": 2 + 2}


def test_of_updates_that_are_not_valid_the_records_are_read(empty: tuple[Feed, RecordingBlackboard]) -> None:
    feed, board = empty
    for _ in range(3):
        publish_files(feed, DAY, [], now=NOW, owner="me")
    reject(stage(claim(feed, DAY, now=NOW, owner="me"), (), Facts(), now=NOW), reason="no", now=NOW)
    board.forget()
    assert [status.state for status in statuses_of(feed, DAY, now=NOW)] == ["rejected", "valid", "valid", "valid"]
    assert board.counts() == {"page": 3, "read": 1}


@pytest.mark.parametrize(("updates", "pages"), [(0, 1), (10, 2), (999, 2), (1_000, 2), (1_001, 3)])
def test_that_nothing_is_staged_costs_two_listings(updates: int, pages: int) -> None:
    names = history(updates, every=timedelta(hours=1))
    records = {f"ads/v1.0/.feed/records/{DAY}/{name}.0.json": b"" for name in names}
    feed, board = recorded(objects(names) | records)
    assert find_staged(feed, DAY) is None
    assert find_staged(feed, DAY, root_run_id="run") is None
    assert board.counts() == {"page": 2 * pages}


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("updates", [0, 1_000])
def test_publishing_costs_five_writes_and_three_listings_besides_the_data(updates: int, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / str(number)).touch()
    feed, board = recorded(objects(history(updates, every=timedelta(minutes=10))))
    publish_files(feed, DAY, sorted(tmp_path.iterdir()), now=NOW, owner="me")
    assert areas(board, "create") == ["claim", "record", "manifest", "log"]
    # What is there to come after; whether all the files are there, and no others; and what readers see at last. The
    # record says `publishing` before the manifest and `published` after it.
    assert board.counts() == {"create": 4, "replace": 1, "upload": 3, "page": 3}


def test_a_schema_costs_one_more_read(tmp_path: Path, empty: tuple[Feed, RecordingBlackboard]) -> None:
    feed, board = empty
    publish_files(feed, DAY, [], now=NOW, owner="me", facts=FACTS)
    board.forget()
    publish_files(feed, DAY, [], now=NOW, owner="me", facts=FACTS)
    assert areas(board, "read") == ["schema"]
    assert board.counts() == {"create": 4, "replace": 1, "read": 1, "page": 3}


@pytest.mark.parametrize("checks", [PASSED, ()], ids=["with outcomes of checks", "without"])
def test_publishing_what_was_staged_before_costs_four_writes_and_a_listing(
    empty: tuple[Feed, RecordingBlackboard], checks: tuple[CheckOutcome, ...]
) -> None:
    feed, board = empty
    claimed = claim(feed, DAY, now=NOW, owner="me")
    staged = stage(claimed, staged_files(claimed, 0), Facts(), now=NOW)
    board.forget()
    publish(staged, now=NOW, checks=checks)
    assert [(request.operation, area(request.key)) for request in board.requests] == [
        ("replace", "record"),
        ("create", "manifest"),
        ("page", "data"),
        ("replace", "record"),
        ("create", "log"),
    ]


def test_rejecting_costs_the_record_and_an_entry_in_the_log(empty: tuple[Feed, RecordingBlackboard]) -> None:
    feed, board = empty
    claimed = claim(feed, DAY, now=NOW, owner="me")
    staged = stage(claimed, (), Facts(), now=NOW)
    board.forget()
    reject(staged, reason="no", now=NOW)
    assert [(request.operation, area(request.key)) for request in board.requests] == [
        ("replace", "record"),
        ("create", "log"),
    ]


def test_invalidating_costs_the_record_the_manifest_and_an_entry_in_the_log(
    empty: tuple[Feed, RecordingBlackboard],
) -> None:
    feed, board = empty
    update = publish_files(feed, DAY, [], now=NOW, owner="me")
    board.forget()
    invalidate(feed, DAY, update.name, reason="wrong", author="me", now=NOW)
    assert Counter(areas(board, "replace")) == {"record": 1, "manifest": 1}
    assert board.counts() == {"read": 3, "page": 1, "replace": 2, "create": 1}
