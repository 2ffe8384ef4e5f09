"""Keep all reports on late data in a feed of their own: a partition has the reports on its day, one a line.

Here: adding reports, and reading them. Not here: the asset (`assets.late_data_reports`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.publishing import publish_files
from feed_assets.file_feed.reading import latest, read_file
from feed_assets.file_feed.record import Column, Facts, Rows
from feed_assets.notices.tables import Report

LOCATION: Final = "late-data-reports/v1.0"
FILE = "reports.jsonl"
COLUMNS = {
    "id": "The report; the same in all messages about it.",
    "day": "The day whose data came late.",
    "requested": "When the run was requested, ISO 8601.",
    "ended": "When its last attempt ended, ISO 8601.",
    "outcome": "success, rejected, failed; without a run superseded (another took its place), or gone back (no need).",
    "sources": "The sources that changed.",
    "run": "Dagster's run.",
    "report": "Everything as JSON: each decision with its numbers, and each feed before and after.",
}


def line_of(report: Report) -> dict[str, Any]:
    """A report that has ended, as a row of the feed."""
    result = report.result or {}
    return {
        "id": report.id,
        "day": report.day,
        "requested": report.at.isoformat(),
        "ended": result.get("ended"),
        "outcome": result.get("outcome"),
        "sources": ", ".join(each["source"] for each in report.request["sources"]),
        "run": result.get("run"),
        "report": json.dumps({"request": report.request, "result": result}),
    }


def kept_reports(board: Blackboard, day: str, *, now: datetime) -> list[Report]:
    """The reports on a day, oldest first. A LIST, and a GET if there are any."""
    update = latest(Feed(board, LOCATION), day, now=now)
    return [
        Report(line["id"], board.uri(""), day, datetime.fromisoformat(line["requested"]), **json.loads(line["report"]))
        for line in (_lines(update) if update else ())
    ]


def keep(
    board: Blackboard, day: str, ended: Callable[[], Sequence[Report]], *, now: datetime, owner: str
) -> Update | None:
    """Add the reports that `ended` returns to those of their day; None if all are kept already.

    It looks again after publishing: if another process published meanwhile, nothing of either is lost.
    """
    feed, published = Feed(board, LOCATION), None
    while True:
        update = latest(feed, day, now=now)
        known = {each["id"]: each for each in (_lines(update) if update else ())}
        lines = known | {report.id: line_of(report) for report in ended() if report.id not in known}
        if lines == known:
            return published
        published = _publish(feed, day, list(lines.values()), now=now, owner=owner)


def _publish(feed: Feed, day: str, lines: Sequence[Mapping[str, Any]], *, now: datetime, owner: str) -> Update:
    ordered = sorted(lines, key=lambda each: (each["requested"], each["id"]))
    columns = tuple(Column(name, "string", name not in {"id", "day", "report"}, text) for name, text in COLUMNS.items())
    facts = Facts(rows=Rows(len(ordered), len(ordered), 0, 0), schema=columns, run_id=owner)
    with TemporaryDirectory() as folder:
        file = Path(folder) / FILE
        file.write_text("".join(f"{json.dumps(each)}\n" for each in ordered), encoding="utf-8")
        return publish_files(feed, day, [file], now=now, owner=owner, facts=facts)


def _lines(update: Update) -> list[dict[str, Any]]:
    return [json.loads(line) for file in update.files for line in read_file(update, file).decode().splitlines()]
