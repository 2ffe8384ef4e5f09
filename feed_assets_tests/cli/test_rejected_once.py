"""`explain` of a rejected day: the reason is printed once, and the run that failed by it is named."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

from feed_assets.cli.explain import _show_day
from feed_assets.operations.explanation import AssetStory, UpdateStory
from feed_assets.operations.failed_runs import FailedRun


def test_a_reason_that_stands_at_the_update_is_not_repeated_at_its_run(capsys):
    check = "mostly_converted: percent 61.5"
    update = UpdateStory("20261128.174236", "rejected", False, "first on record", "", {"published": 3}, (check,), ())
    story = AssetStory("revenue", "revenue/v1.0", "2026-11-27", None, (), "nothing is in force", (update,))
    ended = datetime(2026, 11, 28, 17, 42, 41, tzinfo=UTC)
    runs = [
        FailedRun("one", ("revenue",), ended, (f"revenue {check}",)),
        FailedRun("two", ("revenue",), ended, (f"revenue {check}", "the disk is full")),
    ]

    project = SimpleNamespace(settings=SimpleNamespace(base="b", as_of=None), note="")
    _show_day(project, [story], runs, {}, {("revenue/v1.0", "2026-11-27"): []})

    shown = capsys.readouterr().out
    assert shown.count(check) == 1
    assert "Run one of revenue failed at 2026-11-28 17:42:41, as shown above.\n" in shown
    assert "Run two of revenue failed at 2026-11-28 17:42:41:\n  the disk is full\n" in shown
