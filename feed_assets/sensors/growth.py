"""Raw data against what was read of it: one decision for each source and day.

Here: fetching both sides from the blackboard with as few requests as listings allow. Not here: the
decision itself (`sources.growth`), and what is done about it (`late_growth`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from feed_assets.blackboard import Blackboard
from feed_assets.file_feed import RawInput, inputs_digest, latest_of_all, read_record, recorded_digests
from feed_assets.io_manager import FeedDeclaration
from feed_assets.partitions import is_day
from feed_assets.sources import Decision, Source, decide, raw_days

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SourceDecision:
    """What has become of a source's day since the update in force read it."""

    source: Source
    day: str
    decision: Decision
    update: str | None
    state: str
    """A digest of all that lies there now for this kind and day: equal states are one state of the input."""
    tried: str | None = None
    """A newer update that was made from this very state and turned away."""

    def sentence(self, fate: str | None = None) -> str:
        """For logs and people: which, what, the numbers, and what comes of it (see `Decision.sentence`)."""
        if fate is None and self.decision.reprocess and self.tried is not None:
            fate = f"tried as {self.tried}, which is not in force, so it is not tried again by itself until it changes"
        baseline = f"update {self.update}" if self.update else "no valid update"
        return f"{self.source.key} {self.day}: {self.decision.sentence(fate)} ({baseline})"


def growth_decisions(
    board: Blackboard,
    sources: Sequence[Source],
    declaration: FeedDeclaration,
    *,
    now: datetime,
    days: tuple[date, date] | None = None,
    start_at: str = "",
) -> Iterator[SourceDecision]:
    """A decision for every day in each source's lookback, today excluded; `sources` are all of one kind.

    One listing a source, two of the feed; a record is read only where the raw files are not those of the update in
    force, as the iteration comes to it. `days` (first, last) replaces the lookback; those before `start_at` are passed
    over. Days without raw files that were never processed are left out.
    """
    if not sources:
        return
    windows = {source.key: days or lookback(source, now) for source in sources}
    first = min(window[0] for window in windows.values())
    last = max(window[1] for window in windows.values())
    raw = raw_days(board, [source.key for source in sources], first, last)
    feed = declaration.on(board)
    in_force = latest_of_all(feed, now=now, first=str(first), last=str(last))
    digests = recorded_digests(feed, first=str(first), last=str(last))
    for day in sorted({str(day) for _, day in raw} | {name for name in in_force if is_day(name)}):
        if day < start_at:
            continue
        current = {
            source.key: raw.get(
                (source.key, date.fromisoformat(day)), RawInput(source=source.key, partition=day, files=())
            )
            for source in sources
        }
        state = inputs_digest(tuple(current.values()))
        recorded = digests.get(day, {})
        update = in_force.get(day)
        baselines: Mapping[str, RawInput] = {}
        if update is not None:
            known = recorded.get(update.name) == state
            baselines = current if known else _read_sets(declaration, board, day, update.name)
        newest = max(recorded, default="")
        tried = newest if newest > (update.name if update else "") and recorded[newest] == state else None
        for source in sources:
            start, end = windows[source.key]
            before, there = baselines.get(source.key), current[source.key]
            something = there.files or (before is not None and before.files)
            if start <= date.fromisoformat(day) <= end and something:
                decision = decide(before, there if there.files else None, source.growth_threshold_percent)
                yield SourceDecision(source, day, decision, update.name if update else None, state, tried)


def lookback(source: Source, now: datetime) -> tuple[date, date]:
    """The first and the last day that are watched: today is still being written, so it is not."""
    today = now.date()
    return today - source.lookback_days * DAY, today - DAY


def _read_sets(declaration: FeedDeclaration, board: Blackboard, day: str, update: str) -> Mapping[str, RawInput]:
    record = read_record(declaration.on(board), day, update)
    return record.read_sets if record else {}
