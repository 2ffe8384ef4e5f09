"""Days with raw data that no sensor processes: outside the lookback of their source, or before the first partition.

Here: finding these days, the records that wait, and the commands that process them. Not here: days in the lookback
(`late_days`), the words of a notice (`notices.outside_lookback`), and sending it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import ONE_DAY
from feed_assets.late_data.day_phases import Phase
from feed_assets.late_data.raw_growth import SourceDecision, growth_decisions
from feed_assets.late_data.sweeping import settled_days
from feed_assets.sources.known_contents import Comparing
from feed_assets.sources.spec import Source
from feed_assets.starts.graph import FeedGraph, FeedNode

FIRST = date(1970, 1, 2)
"""The first day to look at: earlier event times are not usable."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A day of a source whose raw data waits for a person. `records` is None if nobody knows their number.

    `state` changes with the raw data of the source and day. `is_partition` is False before the first partition.
    """

    source: Source
    day: str
    records: int | None
    bytes: int
    state: str
    is_partition: bool


def cleaned_nodes(graph: FeedGraph, now: datetime) -> list[FeedNode]:
    """The feeds made here from raw data whose partitions are days, as those of the last two days are."""
    days = [now.date() - ONE_DAY, now.date() - 2 * ONE_DAY]  # a month may begin on one of them
    raw = (node for node in graph.feeds.values() if node.made_here and node.partitioned and not node.upstream)
    return [node for node in raw if all(graph.of_day(node.location, day) == [str(day)] for day in days)]


def all_days(
    board: Blackboard,
    node: FeedNode,
    sources: Sequence[Source],
    days: tuple[date, date],
    *,
    now: datetime,
    start_at: str = "",
    comparing: Comparing | None = None,
) -> Iterator[SourceDecision]:
    """A decision for each of these days, in any phase, of each of the sources that the feed is made from."""
    read = [source for source in sources if source.key in node.raw_sources]
    sweep = settled_days(node.declaration.on(board))
    yield from growth_decisions(
        board, read, node, now=now, days=days, start_at=start_at, sweep=sweep, comparing=comparing
    )


def waiting(graph: FeedGraph, node: FeedNode, each: SourceDecision) -> Waiting | None:
    """The raw data of a decision that no sensor processes; None if a sensor does, or if there is none."""
    is_partition = graph.has(node.location, each.day)
    before_first = not is_partition and each.differs and each.phase is not Phase.OPEN
    if not before_first and not (each.by_hand and is_partition):
        return None
    found = each.decision
    records = None
    if found.current_records is not None and found.baseline_records is not None:
        records = _more(found.baseline_records, found.current_records)
    return Waiting(
        each.source,
        each.day,
        records,
        _more(found.baseline_bytes, found.current_bytes),
        f"{found.current_files} files, {found.current_bytes} bytes",
        is_partition,
    )


def backfills(days: Collection[date]) -> dict[date, str]:
    """The command for each of these days; days in a row share one."""
    commands: dict[date, str] = {}
    for first in sorted(days):
        if first not in commands:
            last = first
            while last + ONE_DAY in days:
                last += ONE_DAY
            command = f"feed-assets backfill --from {first} --to {last}"
            commands |= {first + number * ONE_DAY: command for number in range((last - first).days + 1)}
    return commands


def _more(before: int, now: int) -> int:
    """What was added; all of it if something was replaced or removed."""
    return now - before if now > before else now
