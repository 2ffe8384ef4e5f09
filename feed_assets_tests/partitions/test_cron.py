"""The ticks of cron expressions: the first at or after a moment, in a zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from feed_assets.partitions.cron import CronError, check_cron, first_tick


@pytest.mark.parametrize(
    ("expression", "zone", "after", "tick"),
    [
        ("0 6 * * *", "UTC", "2026-11-27T06:00", "2026-11-27T06:00"),
        ("0 6 * * *", "UTC", "2026-11-27T06:01", "2026-11-28T06:00"),
        ("0 6 * * *", "Europe/Paris", "2026-11-27T00:00", "2026-11-27T05:00"),
        ("0 6 * * 1-5", "UTC", "2026-11-27T07:00", "2026-11-30T06:00"),
        ("30 2 * * *", "Europe/Paris", "2026-03-29T00:00", "2026-03-29T01:00"),  # the clock skips 02:30
        ("30 2 * * *", "Europe/Paris", "2026-10-25T00:31", "2026-10-25T01:30"),  # 02:30 comes twice
        ("@daily", "UTC", "2026-11-27T01:00", "2026-11-28T00:00"),
    ],
)
def test_the_first_tick_is_at_or_after_the_moment(expression, zone, after, tick):
    moment, expected = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (after, tick))
    assert first_tick(expression, zone, moment) == expected


@pytest.mark.parametrize("expression", ["", "often", "0 6 * *", "* * * * * *", "0 0 31 2 *"])
def test_what_is_no_cron_expression_is_refused(expression):
    with pytest.raises(CronError, match="is no cron expression: write five fields, such as '0 6"):
        check_cron(expression)
