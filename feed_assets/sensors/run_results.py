"""The results of the runs that reports on late data wait for.

Here: whether a run has ended and how, and what it changed. Not here: telling people (`late_reports`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg

from feed_assets.blackboard.port import Blackboard, BlackboardError
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.record import Record
from feed_assets.late_data.raw_growth import SourceDecision, growth_decisions
from feed_assets.late_data.sweeping import settled_days
from feed_assets.notices.delivery import GONE_BACK, SUPERSEDED
from feed_assets.notices.tables import Report, open_reports, record_result
from feed_assets.sensors.alerts import alert_of
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.busy import goes_on
from feed_assets.sensors.ticks import of_attempt
from feed_assets.sources.spec import Source
from feed_assets.starts.attempt import LOST_AFTER
from feed_assets.starts.attempts import LOG, Attempts
from feed_assets.state.store import Store

FOLLOW_WITHIN = timedelta(hours=1)
"""How long a report without a run of its own waits for what is computed from the feeds that were due."""


@dataclass(frozen=True, slots=True)
class RunResults:
    """The results at one time, `now`, as Dagster and the storage have them."""

    instance: dg.DagsterInstance
    feeds: AssetFeedGraph
    board: Blackboard
    store: Store
    now: datetime
    sources: Sequence[Source]

    def record(self, *, deadline: float) -> list[str]:
        """Give each open report the result of its run if that has ended; returns remarks for the log."""
        remarks: list[str] = []
        for report in open_reports(self.store, self.board.uri("")):
            if report.result is not None or time.monotonic() > deadline:
                continue
            try:
                result = self.of(report)
            except (FeedError, BlackboardError) as error:
                remarks.append(f"The run for {report.day} is not reported yet: {error}")
                continue
            if result is not None:
                with self.store.writing(LOG) as transaction:
                    record_result(transaction, report, result, at=self.now)
        return remarks

    def of(self, report: Report) -> dict[str, Any] | None:
        """The result of the run of a report; None if it has not ended, or may still begin."""
        recorded: Mapping[str, str] = report.request["attempts"]
        if not recorded.keys() <= self.feeds.feeds.keys():
            return self._without_news(SUPERSEDED)  # the code location no longer has the feed
        runs = list(self.instance.get_runs(of_attempt(*next(iter(recorded.items())))))
        if not runs:
            return self._without_a_run(report, recorded)
        if any(goes_on(self.instance, each) for each in runs):
            return None
        newest = runs[0]
        outcome: dict[str, Any] = {"outcome": "success", "reasons": []}
        if newest.status != dg.DagsterRunStatus.SUCCESS:
            alert = alert_of(self.instance, newest, f"the run was {newest.status.value.lower()}")
            outcome = {"outcome": alert.kind, "reasons": list(alert.reasons)}
        record = self.instance.get_run_record_by_id(newest.run_id)
        ended = datetime.fromtimestamp(record.end_time, UTC) if record and record.end_time else self.now
        known = {each for run in runs for each in (run.run_id, run.root_run_id) if each}
        return {**outcome, "run": newest.run_id, "ended": ended.isoformat(), "feeds": self._compared(report, known)}

    def _without_a_run(self, report: Report, recorded: Mapping[str, str]) -> dict[str, Any] | None:
        """The result of a request without a run; None while it may still become a run.

        Dagster never got the request, or has lost its database. If every feed that was due has a newer update in force
        now, the day was processed by another run. The feeds computed from these may follow within an hour. A feed that
        is no longer due is not requested again: its raw data went back, or the update of another run was rejected.
        """
        if self.now < report.at + LOST_AFTER:
            return None
        if self._replaced(report, recorded):
            return self._without_news(SUPERSEDED)
        made = {feed: self._newer(report, feed) for feed in report.request["computed"] if feed in self.feeds.feeds}
        if not all(made[feed] for feed in recorded):
            decided = [(feed, each) for feed in recorded for each in self._decisions(feed, report.day)]
            if any(each.due for _, each in decided):
                return None
            if not any(made[feed] for feed in recorded):
                return self._not_due(report, [(feed, each.tried) for feed, each in decided if each.wanted])
        if not all(made.values()) and self.now < report.at + FOLLOW_WITHIN:
            return None
        runs = {each.facts.run_id for each in made.values() if each and each.facts.run_id}
        return {
            "outcome": "success",
            "reasons": [],
            "run": next(iter(runs)) if len(runs) == 1 else None,
            "ended": self.now.isoformat(),
            "feeds": self._compared(report, runs),
        }

    def _not_due(self, report: Report, tried: Sequence[tuple[str, str | None]]) -> dict[str, Any]:
        """The result if no feed is due any more; `tried` has the updates of other runs that are not in force."""
        feeds = ((self.feeds.feeds[feed].declaration.on(self.board), update) for feed, update in tried if update)
        records = [read_record(feed, report.day, update) for feed, update in feeds]
        rejected = next((each for each in records if each is not None and each.state == "rejected"), None)
        if rejected is None:
            return self._without_news(SUPERSEDED if tried else GONE_BACK)
        run = rejected.facts.run_id
        found = {"reasons": [rejected.history[-1].reason], "run": run or None, "feeds": self._compared(report, [run])}
        return self._without_news("rejected") | found

    def _decisions(self, feed: str, day: str) -> list[SourceDecision]:
        """The decisions on the raw data of this day as it is now, of all sources of the feed's kinds."""
        node, of = self.feeds.feeds[feed], date.fromisoformat(day)
        kinds = {source.kind for source in self.sources if source.key in node.raw_sources}
        sources = [source for source in self.sources if source.kind in kinds]
        sweep = settled_days(node.declaration.on(self.board))
        return list(growth_decisions(self.board, sources, node, now=self.now, days=(of, of), sweep=sweep))

    def _newer(self, report: Report, feed: str) -> Record | None:
        """The record of the update in force, if it is newer than the one before the report."""
        of = self.feeds.feeds[feed].declaration.on(self.board)
        in_force = latest(of, report.day, now=self.now)
        if in_force is None or in_force.name <= (report.request["before"].get(feed) or ""):
            return None
        return read_record(of, report.day, in_force.name)

    def _compared(self, report: Report, known: Collection[str]) -> list[dict[str, Any]]:
        """How each feed of the report differs from before; `known` are the runs that computed them."""
        from feed_assets.notices.comparison import compare  # noqa: PLC0415 - loads DuckDB, which few ticks need

        before = report.request["before"]
        return [
            compare(self.board, self.feeds.feeds[feed].declaration, report.day, before.get(feed), known, now=self.now)
            for feed in report.request["computed"]
            if feed in self.feeds.feeds
        ]

    def _replaced(self, report: Report, recorded: Mapping[str, str]) -> bool:
        """Whether a later attempt is on record, so that this request can no longer become a run."""
        attempts = Attempts(self.store, self.board.uri(""), lambda: self.now)
        newest = {feed: attempts.newest(feed, [report.day]).get(report.day) for feed in recorded}
        return any(each is None or each.key != recorded[feed] for feed, each in newest.items())

    def _without_news(self, outcome: str) -> dict[str, Any]:
        return {"outcome": outcome, "reasons": [], "run": None, "ended": self.now.isoformat(), "feeds": []}
