"""How the requests of operations grow with a feed: with its pages, and with what is asked for.

A shape is partitions x updates x files, in units of a page: 10,000 partitions of one update, one partition of 2,000
updates, and 100 partitions of 50 updates of 5 files with pages of 1,000 objects; proportionally less in a bucket.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache

import pytest

from feed_assets.file_feed import (
    Facts,
    Feed,
    Policy,
    Record,
    Transition,
    carry_out,
    histories,
    latest,
    latest_of_all,
    plan,
    recorded_digests,
    update_name,
    verify,
)
from feed_assets.file_feed.discovery import summarize
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.blackboard.sized import SizedStore

NOW = datetime(2050, 1, 1, tzinfo=UTC)
FIRST = date(1990, 1, 1)
POLICY = Policy(keep=1, younger_than=timedelta(0), longest_write=timedelta(0))
WIDE, DEEP, BOTH = "many partitions", "many updates", "many of both"


class Shape:
    """A feed of some shape in a store, each update with its claim and its record, the newest begun a year ago."""

    def __init__(self, store: SizedStore, shape: str) -> None:
        small = store.page < 1000
        self.partitions, self.updates, self.files = {
            WIDE: (10 * store.page, 1, 1),
            DEEP: (1, 2 * store.page, 1),
            BOTH: (6, 10, 5) if small else (100, 50, 5),
        }[shape]
        self.days = [str(FIRST + timedelta(days=number)) for number in range(self.partitions)]
        self.names = [update_name(NOW - timedelta(days=365, hours=number)) for number in reversed(range(self.updates))]
        objects = {}
        for day in self.days:
            for name in self.names:
                record = Record(day, name, "me", "", (), Facts(), history=(Transition("published", NOW),))
                objects[f"f/.feed/claims/{day}/{name}"] = b"{}"
                objects[f"f/.feed/records/{day}/{name}.0.json"] = record.to_json()
                objects |= {f"f/{day}/{name}/part-{number}": b"" for number in range(self.files)}
                objects[f"f/{day}/{name}/_SUCCESS"] = str(self.files).encode()
        self.store, self.board = store, store.holding(objects)
        self.feed = Feed(self.board, "f")

    @property
    def all_updates(self) -> int:
        return self.partitions * self.updates

    @property
    def pages(self) -> int:
        """The pages of all files, and of the records."""
        return self.store.pages(self.all_updates * (self.files + 1))

    @property
    def control_pages(self) -> int:
        return self.store.pages(self.all_updates)

    @property
    def pages_of_one(self) -> int:
        return self.store.pages(self.updates * (self.files + 1))


def requests(board: RecordingBlackboard) -> dict[str, int]:
    counts = dict(board.counts())
    board.forget()
    return counts


@pytest.fixture(params=[WIDE, DEEP, BOTH])
def shape(store: SizedStore, request: pytest.FixtureRequest) -> Shape:
    made = _shape(store, request.param)
    made.board.forget()
    return made


@cache
def _shape(store: SizedStore, name: str) -> Shape:
    """Made once, for tests that change nothing."""
    return Shape(store, name)


def test_the_latest_of_one_partition_is_looked_for_in_its_own_pages(shape: Shape) -> None:
    assert latest(shape.feed, shape.days[0], now=NOW) is not None
    assert requests(shape.board)["page"] <= (2 if shape.pages_of_one == 1 else 20)  # halving a year
    assert latest(shape.feed, shape.days[0], now=NOW - timedelta(days=365)) is not None
    of_a_day = min(shape.updates, 25) * (shape.files + 1)
    assert requests(shape.board)["page"] <= 1 + shape.store.pages(of_a_day)


def test_the_latest_of_all_takes_a_listing_a_page_or_a_partition_and_that_of_the_records(shape: Shape) -> None:
    found = latest_of_all(shape.feed, now=NOW)
    assert {update.name for update in found.values()} == {shape.names[-1]}
    assert len(found) == shape.partitions
    assert requests(shape.board)["page"] <= min(shape.pages, 2 * shape.partitions) + shape.control_pages + 4


def test_what_lies_between_the_partitions_that_are_asked_for_is_not_listed(shape: Shape) -> None:
    wanted = {shape.days[0], shape.days[-1]}
    assert latest_of_all(shape.feed, now=NOW, only=wanted).keys() == wanted
    assert requests(shape.board)["page"] <= 2 * (2 + shape.store.pages(shape.updates)) + 1
    assert recorded_digests(shape.feed, only=wanted).keys() == wanted
    assert requests(shape.board)["page"] <= 2 * shape.store.pages(shape.updates)


def test_the_summary_of_a_feed_takes_the_latest_of_all_and_the_listing_of_the_records(shape: Shape) -> None:
    assert summarize(shape.feed, now=NOW).partitions == shape.partitions
    assert requests(shape.board)["page"] <= min(shape.pages, 2 * shape.partitions) + 2 * shape.control_pages + 4


def test_the_history_of_a_feed_takes_its_pages_and_those_of_its_records_as_far_as_it_is_read(shape: Shape) -> None:
    assert sum(len(statuses) for _, statuses in histories(shape.feed, now=NOW)) == shape.all_updates
    assert requests(shape.board) == {"page": shape.pages + shape.control_pages + 1}  # past the control area
    next(histories(shape.feed, now=NOW))
    # The first partition is known once the second begins.
    assert requests(shape.board)["page"] <= 1 + sum(
        each + 1 for each in (shape.pages_of_one, shape.store.pages(shape.updates))
    )


def test_verification_reads_each_record_once_and_that_of_a_partition_only_its_own(shape: Shape) -> None:
    more = 1 + 2 + 1  # no read sets; tags and pins; no starts
    there = {"page": shape.pages + 2 * shape.control_pages + 1 + more, "read": shape.all_updates}
    assert verify(shape.feed, now=NOW) == []
    assert requests(shape.board) == there
    assert verify(shape.feed, now=NOW, within=shape.days[-1]) == []
    own = {"page": shape.pages_of_one + 2 * shape.store.pages(shape.updates) + more, "read": shape.updates}
    assert requests(shape.board) == own


def test_planning_removals_of_a_partition_lists_only_that_partition(shape: Shape) -> None:
    assert len(plan(shape.feed, POLICY, now=NOW)) == shape.all_updates - shape.partitions
    assert requests(shape.board) == {"page": shape.pages + 2 * shape.control_pages + 1 + 2}
    assert len(plan(shape.feed, POLICY, now=NOW, within=shape.days[-1])) == shape.updates - 1
    assert requests(shape.board) == {"page": shape.pages_of_one + 2 * shape.store.pages(shape.updates) + 2}


def test_removals_write_twice_for_each_update_and_delete_in_batches(store: SizedStore) -> None:
    shape = Shape(store, DEEP)
    removals = plan(shape.feed, POLICY, now=NOW, within=shape.days[0])[:30]
    requests(shape.board)
    assert all(outcome.removed for outcome in carry_out(shape.feed, removals, now=NOW))
    counts = requests(shape.board)
    assert (counts["replace"], counts["delete"]) == (2 * 30, 3)  # files; claims and records; manifests
    assert len(plan(shape.feed, POLICY, now=NOW)) == shape.updates - 1 - 30
