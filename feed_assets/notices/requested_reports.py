"""The beginning of a report on late data, when its run is requested. Not here: the request (`starts.requests`)."""

from __future__ import annotations

from datetime import datetime

from feed_assets.notices.tables import Report, record_report
from feed_assets.starts.requests import Request
from feed_assets.state.store import Transaction


def record_requested(transaction: Transaction, request: Request, *, report: str, base: str, at: datetime) -> None:
    """Record a report that the request begins. See `starts.requests.RecordReport`."""
    attempts = {feed: request.recorded[feed].key for feed in request.need.due}
    begun = {
        **(request.need.report or {}),
        "attempts": attempts,
        "tries": max(request.recorded[feed].tries for feed in attempts),
        "computed": list(request.need.feeds),
    }
    record_report(transaction, Report(id=report, base=base, day=request.need.partition, at=at, request=begun))
