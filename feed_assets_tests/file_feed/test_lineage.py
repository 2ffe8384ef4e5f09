"""Lineage in both directions, from records alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.file_feed import (
    Facts,
    Feed,
    FeedError,
    FeedInput,
    RawFile,
    RawInput,
    Update,
    downstream,
    publish_files,
    upstream,
)

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
DAY = "2018-05-20"
HOUR_ONE, HOUR_TWO = RawFile("raw/ads/x/01/a", 10, "t1"), RawFile("raw/ads/x/02/b", 20, "t2")


@pytest.fixture
def board() -> MemoryBlackboard:
    return MemoryBlackboard()


@pytest.fixture
def clean(board: MemoryBlackboard, tmp_path: Path) -> Update:
    (tmp_path / "part").write_bytes(b"data")
    facts = Facts(inputs=(RawInput("ads/x", DAY, (HOUR_ONE, HOUR_TWO)),))
    return publish_files(Feed(board, "clean/v1.0"), DAY, [tmp_path / "part"], now=NOW, owner="test", facts=facts)


@pytest.fixture
def derived(board: MemoryBlackboard, clean: Update) -> Update:
    catalog = FeedInput("catalog/v1.0", None, None, context=True)
    facts = Facts(inputs=(FeedInput("clean/v1.0", DAY, clean.name), catalog))
    return publish_files(Feed(board, "derived/v1.0"), DAY, [], now=NOW, owner="test", facts=facts)


def test_upstream_names_what_an_update_was_made_from(clean: Update, derived: Update) -> None:
    assert upstream(derived.feed, DAY, derived.name) == (
        FeedInput("clean/v1.0", DAY, clean.name),
        FeedInput("catalog/v1.0", None, None, context=True),
    )
    assert upstream(clean.feed, DAY, clean.name) == (RawInput("ads/x", DAY, (HOUR_ONE, HOUR_TWO)),)


def test_downstream_names_what_was_made_from_an_update(clean: Update, derived: Update) -> None:
    (found,) = downstream(FeedInput("clean/v1.0", DAY, clean.name), [clean.feed, derived.feed])
    assert (found.feed, found.partition, found.update) == (derived.feed, DAY, derived.name)
    assert downstream(FeedInput("clean/v1.0", "2018-05-19", clean.name), [clean.feed, derived.feed]) == []


def test_downstream_names_what_was_made_from_a_raw_file_of_this_content(clean: Update, derived: Update) -> None:
    (found,) = downstream(HOUR_TWO, [clean.feed, derived.feed])
    assert (found.feed, found.update) == (clean.feed, clean.name)
    assert downstream(RawFile(HOUR_TWO.path, 20, "another"), [clean.feed]) == []


def test_downstream_finds_what_looked_for_an_input_and_found_nothing(derived: Update) -> None:
    assert len(downstream(FeedInput("catalog/v1.0", None, None), [derived.feed])) == 1


def test_an_update_without_a_record_has_no_known_lineage(board: MemoryBlackboard) -> None:
    with pytest.raises(FeedError, match="no record"):
        upstream(Feed(board, "clean/v1.0"), DAY, "20180521.160000")
