"""A calendar of late data: for each day and source what was sent, what the update in force holds, and the decision.

Here: the rows, from storage alone, and their picture. Not here: the decisions (`late_data`), printing (`cli.late`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import ONE_DAY
from feed_assets.file_feed.control import recorded_digests
from feed_assets.file_feed.names import begun
from feed_assets.late_data.day_phases import Phase
from feed_assets.late_data.outside_lookback import cleaned_nodes
from feed_assets.late_data.raw_growth import SourceDecision, growth_decisions
from feed_assets.late_data.sweeping import settled_days
from feed_assets.sources.growth import rounded_growth
from feed_assets.sources.spec import Source
from feed_assets.starts.graph import FeedGraph


@dataclass(frozen=True, slots=True)
class LateDay:
    """A day of a source: records and bytes that lie there now (`sent`) and that the update in force read (`baseline`).

    Records are None if a file does not tell them. `growth_percent` is None without a baseline. `decision` is the kind
    of the change and what happens; `sentence` has every number. `rerun` is when a run of the day, other than the
    first, last began.
    """

    day: str
    source: str
    sent_records: int | None
    sent_bytes: int
    baseline_records: int | None
    baseline_bytes: int
    growth_percent: float | None
    threshold_percent: float
    decision: str
    sentence: str
    update: str | None
    rerun: datetime | None


def late_calendar(
    board: Blackboard,
    graph: FeedGraph,
    sources: Sequence[Source],
    *,
    shown: Collection[Source],
    now: datetime,
    days: int | None = None,
) -> list[LateDay]:
    """The last `days` days up to today of the sources `shown`, by day and source. Default: the longest lookback.

    Days without files and without an update are left out. Costs two listings of each feed, one of each source.
    """
    count = days or max((source.lookback_days for source in shown), default=0)
    first = now.date() - count * ONE_DAY if count < now.date().toordinal() - 1 else date.min + ONE_DAY
    found = []
    for node in cleaned_nodes(graph, now):
        # A day waits for all sources of its kind.
        read = [source for source in sources if source.key in node.raw_sources]
        tried = recorded_digests(node.declaration.on(board), first=str(first), last=str(now.date()))
        sweep = settled_days(node.declaration.on(board))
        for each in growth_decisions(board, read, node, now=now, days=(first, now.date()), sweep=sweep):
            if each.source in shown:
                names = tried.get(each.day, {})
                found.append(_row(each, begun(max(names)) if len(names) > 1 else None))
    return sorted(found, key=lambda row: (row.day, row.source))


def picture(rows: Sequence[LateDay]) -> bytes:
    """The growth of each day and source as a heat map, a PNG."""
    from feed_assets.notices.pictures import heat_map  # noqa: PLC0415 - loads matplotlib

    growth = {(row.source, row.day): row.growth_percent for row in rows if row.growth_percent is not None}
    return heat_map(sorted({row.day for row in rows}), sorted({row.source for row in rows}), growth)


def _row(each: SourceDecision, rerun: datetime | None) -> LateDay:
    decision = each.decision
    what = "evening before changed" if each.evening_changed and not each.differs else decision.kind.replace("_", " ")
    then = "due" if each.due else "tried in vain" if each.wanted else ""
    if each.differs and not then:
        then = {Phase.OPEN: "not over", Phase.WATCHED: "waits"}.get(each.phase, "left")
    return LateDay(
        day=each.day,
        source=each.source.key,
        sent_records=decision.current_records,
        sent_bytes=decision.current_bytes,
        baseline_records=decision.baseline_records,
        baseline_bytes=decision.baseline_bytes,
        growth_percent=None if decision.growth_percent is None else float(rounded_growth(decision.growth_percent)),
        threshold_percent=round(float(decision.threshold_percent), 6),
        decision=f"{what}, {then}" if then else what,
        sentence=each.sentence(),
        update=each.update,
        rerun=rerun,
    )
