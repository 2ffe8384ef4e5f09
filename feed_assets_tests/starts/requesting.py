"""Requests of attempts, as a tick makes them. Not here: any expectation."""

from __future__ import annotations

from feed_assets.starts.attempt import Attempt, Verdict
from feed_assets.starts.attempts import Attempts, Wanted


def requested(attempts: Attempts, *wanted: Wanted) -> list[Attempt | Verdict]:
    """The attempts that one transaction puts on record, in the order of `wanted`, or why there is none."""
    with attempts.requesting([(each.flow, each.slot) for each in wanted]) as requesting:
        return [requesting.request(each) for each in wanted]
