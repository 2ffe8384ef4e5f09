"""What the messages about late data say."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from feed_assets.blackboard.location import open_blackboard
from feed_assets.notices.keeping import keep, kept_reports
from feed_assets.notices.messages import ENDED, notice_of
from feed_assets.notices.tables import Report
from feed_assets_tests.harness import DAY

NOW = datetime(2019, 12, 1, 16, tzinfo=UTC)


def test_a_kept_report_names_the_feed_where_it_is_after_the_base_has_moved(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    board = open_blackboard(str(old))
    feed = {"feed": "clean-ads/v1.0", "uri": f"{old.as_uri()}/clean-ads/v1.0", "rows": [1, 2], "figures": None}
    compared = feed | {"before": "20191125.160000", "after": "20191126.160000", "state": "published"}
    result = {"outcome": "success", "run": None, "feeds": [compared]}
    keep(board, DAY, lambda: [Report("1", board.uri(""), DAY, NOW, {"sources": []}, result)], now=NOW, owner="test")

    old.rename(new)
    (report,) = kept_reports(open_blackboard(str(new)), DAY, now=NOW)

    updates = "--from 20191125.160000 --to 20191126.160000"
    row_by_row = f"Row by row: feed-assets feed diff {new.as_uri()}/clean-ads/v1.0 -p {DAY} {updates}"
    assert notice_of(report, ENDED).lines[-1] == row_by_row
