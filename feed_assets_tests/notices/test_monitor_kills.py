"""A monitor that is killed between any two steps loses no report, and tells nothing twice."""

from __future__ import annotations

from collections import Counter

import pytest

from feed_assets_tests.notices.monitor_kills import MISTAKES, judge

pytestmark = pytest.mark.slow

Judged = dict[str, tuple[list[str], Counter[str]]]


@pytest.fixture(scope="module")
def judged() -> Judged:
    """A kill at each step of a monitor, of which it has some 45, and one of each monitor with a mistake."""
    return judge({name: 1 if name else 50 for name in MISTAKES})


def test_a_monitor_killed_at_any_step_keeps_one_report_and_mails_each_message_under_one_id(judged: Judged) -> None:
    wrong, places = judged[""]

    assert wrong == []
    assert places.total() == 50
    assert {"before a mail", "after the server took a mail", "in a run", "before a commit"} <= places.keys()


@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name])
def test_a_monitor_with_a_mistake_is_found_when_it_is_killed(judged: Judged, mistake: str) -> None:
    wrong, _ = judged[mistake]

    assert wrong
