"""The quarantine of a feed, as a library: in force exactly while its update is. Without Spark and Dagster."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import UnavailableError
from feed_assets.file_feed import (
    Facts,
    Feed,
    Staged,
    claim,
    invalidate_both,
    latest,
    open_feed,
    publish,
    publish_both,
    read_record,
    reject_both,
    stage,
    staged_files,
)
from feed_assets.file_feed.quarantine import QUARANTINE, quarantine_of
from feed_assets_tests.harness import Interposed

NOW = datetime(2018, 5, 21, 16, tzinfo=UTC)
DAY = "2018-05-20"


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(LocalBlackboard(tmp_path / "base"), "ads/v1.0")


def staged_with_quarantine(feed: Feed) -> Staged:
    """An update of no rows, and its quarantine of one file."""
    claimed = claim(feed, DAY, now=NOW, owner="a run")
    kept = quarantine_of(feed)
    kept_claim = replace(claimed, feed=kept)
    kept.blackboard.create(f"{kept_claim.prefix}a.json", b"{}\n")
    stage(kept_claim, staged_files(kept_claim, 1), Facts(), now=NOW)
    return stage(claimed, (), Facts(details={QUARANTINE: kept.location}), now=NOW)


def in_force(feed: Feed) -> tuple[str | None, str | None]:
    """The update of the feed and of its quarantine that plain readers see."""
    names = [latest(each, DAY, now=NOW) for each in (feed, quarantine_of(feed))]
    return names[0] and names[0].name, names[1] and names[1].name


def test_both_are_published_and_both_are_taken_out_of_force(feed: Feed):
    first = publish_both(staged_with_quarantine(feed), now=NOW).name
    second = publish_both(staged_with_quarantine(feed), now=NOW).name
    assert in_force(feed) == (second, second)

    kept = invalidate_both(feed, DAY, second, reason="wrong prices", author="ann", now=NOW)

    assert kept == quarantine_of(feed)
    assert in_force(feed) == (first, first)
    record = read_record(quarantine_of(feed), DAY, second)
    assert record is not None
    assert record.history[-1].reason == f"its update {second} was invalidated: wrong prices"


@pytest.mark.parametrize(
    ("blackboard", "location"), [("base/ads/v1.0", ""), ("base/ads", "v1.0"), ("", "base/ads/v1.0")]
)
def test_the_quarantine_is_found_from_wherever_the_feed_is_opened(
    feed: Feed, tmp_path: Path, blackboard: str, location: str
):
    name = publish_both(staged_with_quarantine(feed), now=NOW).name
    opened = Feed(LocalBlackboard(tmp_path / blackboard), location)

    invalidate_both(opened, DAY, name, reason="wrong", author="ann", now=NOW)

    assert in_force(feed) == (None, None)


@pytest.mark.parametrize("location", ["clean ads/v1.0", "bestellungen-größe/v1.0", "what?/#1/100%41/v1.0"])
def test_the_quarantine_of_a_feed_at_its_own_uri_is_found_whatever_letters_its_location_has(
    tmp_path: Path, location: str
):
    feed = Feed(LocalBlackboard(tmp_path / "a base"), location)
    name = publish_both(staged_with_quarantine(feed), now=NOW).name

    kept = invalidate_both(open_feed(feed.uri), DAY, name, reason="wrong", author="ann", now=NOW)

    assert kept is not None
    assert kept.uri == quarantine_of(feed).uri
    assert in_force(feed) == (None, None)


def test_an_update_without_a_quarantine_is_taken_out_of_force_alone(feed: Feed):
    name = publish(stage(claim(feed, DAY, now=NOW, owner="r"), (), Facts(), now=NOW), now=NOW).name

    assert invalidate_both(feed, DAY, name, reason="wrong", author="ann", now=NOW) is None
    assert in_force(feed) == (None, None)


def test_a_copied_feed_leaves_the_quarantine_of_the_original_as_it_is(
    feed: Feed, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    name = publish_both(staged_with_quarantine(feed), now=NOW).name
    shutil.copytree(tmp_path / "base/ads/v1.0", tmp_path / "copy")

    invalidate_both(open_feed(str(tmp_path / "copy")), DAY, name, reason="wrong", author="ann", now=NOW)

    assert in_force(feed) == (name, name)
    assert "its quarantine, quarantine/ads/v1.0, is left as it is" in caplog.text


def test_one_that_stopped_after_the_update_is_completed_when_it_is_called_again(feed: Feed):
    name = publish_both(staged_with_quarantine(feed), now=NOW).name
    failures = ["once"]

    def fail(operation: str, key: str) -> None:
        if operation == "replace" and key.startswith("quarantine/") and failures:
            failures.pop()
            message = "503 Slow Down"
            raise UnavailableError(message)

    shaky = Feed(Interposed(feed.blackboard, fail), feed.location)
    with pytest.raises(UnavailableError):
        invalidate_both(shaky, DAY, name, reason="wrong", author="ann", now=NOW)
    assert in_force(feed) == (None, name)

    invalidate_both(shaky, DAY, name, reason="wrong", author="ann", now=NOW)
    assert in_force(feed) == (None, None)


def test_a_quarantine_that_was_not_published_yet_never_is_once_its_update_is_invalidated(feed: Feed):
    name = publish(staged_with_quarantine(feed), now=NOW).name

    invalidate_both(feed, DAY, name, reason="wrong", author="ann", now=NOW)

    record = read_record(quarantine_of(feed), DAY, name)
    assert record is not None
    assert record.state == "rejected"


def test_both_are_rejected(feed: Feed):
    staged = staged_with_quarantine(feed)

    reject_both(staged, reason="no rows", now=NOW)

    assert in_force(feed) == (None, None)
    record = read_record(quarantine_of(feed), DAY, staged.claim.name)
    assert record is not None
    assert record.state == "rejected"
