"""Full disks, really full: each write fails with a message, leaves nothing half-done, and succeeds when there is room."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from feed_assets.blackboard import LocalBlackboard, UnavailableError
from feed_assets.file_feed import Feed, history, latest, publish_files
from feed_assets_tests.harness import DAY, Interposed

NOW = datetime(2019, 12, 1, 12, tzinfo=UTC)
PUTS = {
    "the claim": ("create", ".feed/claims/"),
    "a data file": ("upload", f"{DAY}/"),
    "the record": ("create", ".feed/records/"),
    "the manifest": ("create", f"{DAY}/"),
}


@pytest.mark.parametrize(("operation", "prefix"), PUTS.values(), ids=PUTS)
def test_a_publication_that_finds_the_disk_full_leaves_the_update_before_and_is_done_again(
    small_disk, tmp_path, operation, prefix
):
    source = tmp_path / "part-0.json"
    source.write_bytes(bytes(5000))
    board = LocalBlackboard(small_disk.path / "base")
    before = publish_files(Feed(board, "made/v1.0"), DAY, [source], now=NOW, owner="test")
    full = []

    def fill(asked: str, key: str) -> None:
        if asked == operation and key.startswith(f"made/v1.0/{prefix}") and not full:
            full.append(key)
            small_disk.fill()

    feed = Feed(Interposed(board, fill), "made/v1.0")

    with pytest.raises(UnavailableError, match=r"No space left on device.*Make room on the disk") as error:
        publish_files(feed, DAY, [source], now=NOW + timedelta(minutes=1), owner="test")

    assert full[0] in str(error.value)
    assert not error.value.transient
    assert latest(feed, DAY, now=NOW).name == before.name
    assert not list((small_disk.path / "base/.blackboard").iterdir())

    small_disk.make_room()
    again = publish_files(feed, DAY, [source], now=NOW + timedelta(minutes=2), owner="test")

    found = history(feed, DAY, now=NOW)
    assert [each.name for each in found if each.state == "valid"] == [again.name, before.name]
