"""Expectations about times, of partitions in other zones than UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.quality.expectation import Subject
from feed_assets.quality.time_rules import fresh

BERLIN = ZoneInfo("Europe/Berlin")


def test_the_age_of_the_newest_row_is_told_in_utc_also_for_a_day_of_another_zone():
    subject = Subject(
        declaration=FeedDeclaration("clean/v1.0", columns=()),
        partition="2024-10-27",
        window=(datetime(2024, 10, 27, tzinfo=BERLIN), datetime(2024, 10, 28, tzinfo=BERLIN)),
        published=False,
        promised=(),
        found=(),
        rows=None,
        recent_rows=(),
        upstream_rows={},
        inputs_seen=True,
        quarantined_share_limit=0.1,
        usual_rows_factor=3,
        now=datetime(2024, 10, 29, tzinfo=UTC),
    )
    newest = datetime(2024, 10, 27, 22, 30, tzinfo=UTC)
    counted = {"newest": "2024-10-27 22:30:00", "newest_micros": int(newest.timestamp()) * 1_000_000}

    found = fresh("at", within=timedelta(hours=1)).judge(subject, counted)

    assert found.passed
    assert found.sentence == ("The newest at is 2024-10-27 22:30:00, 30 min before 2024-10-27 23:00:00, limit 60 min.")
