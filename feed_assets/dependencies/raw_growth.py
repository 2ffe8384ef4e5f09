"""Raw data against what was read of it: one decision for each source and day.

Here: fetching both sides from the blackboard with as few requests as listings allow, and when a day is due. Not here:
comparing two read sets (`sources.growth`), and what is done about a day (`late_days`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from feed_assets.blackboard import Blackboard
from feed_assets.datasets import ONE_DAY, is_day
from feed_assets.dependencies.graph import FeedNode
from feed_assets.dependencies.inputs_read import inputs_read, was_decided_against
from feed_assets.file_feed import RawHour, RawInput, in_full, inputs_digest, latest_of_all, recorded_digests
from feed_assets.file_feed.wording import counted
from feed_assets.sources import Decision, GrowthKind, Source, decide, evening, evening_read, raw_days

SWEEP_DAYS = 3
"""For so many days after a day has left the lookback it is still swept, should the sensor not have run right then."""

REMEMBERED_ANSWERS = 1000
_ANSWERS: dict[tuple[str, ...], Any] = {}
"""What listings of raw files were read for: by update, source, and a digest of what was there."""
_Answer = TypeVar("_Answer")


class Phase(StrEnum):
    """Where a day stands for a source, as time goes by."""

    OPEN = "open"
    """It is not over, or the source's buffer after its last hour is not."""
    WATCHED = "watched"
    """It is in the lookback: growth by the threshold makes it run again."""
    LEAVING = "leaving"
    """It has just left the lookback: whatever came since it was processed is processed once."""
    SETTLED = "settled"
    """No sensor looks at it any more."""


@dataclass(frozen=True, slots=True)
class SourceDecision:
    """How a source's day has changed since the update in force read it.

    It is due from `due_from` on, and leaves the lookback at `leaves`. `state` is a digest of what a run would read now
    for this kind and day: equal states are one state of the input. `tried` is a newer update that read this very
    state and was decided against. `evening_changed` says that the update read other files of the evening before than
    the update of the day before read, so that an event delivered on both days could count twice or not at all. `swept`
    says that the update in force was begun after the day had left the lookback.
    """

    source: Source
    day: str
    decision: Decision
    update: str | None
    state: str
    phase: Phase
    due_from: datetime
    leaves: datetime
    tried: str | None = None
    evening_changed: bool = False
    swept: bool = False

    @property
    def due(self) -> bool:
        """Whether the day is to be processed now."""
        return self.wanted and self.tried is None

    @property
    def wanted(self) -> bool:
        """The same, whether or not it was tried already."""
        match self.phase:
            case Phase.WATCHED:
                return self.decision.reprocess or self.evening_changed
            case Phase.LEAVING:
                return self.update is not None and (self.evening_changed or (self.differs and not self.swept))
            case _:
                return False

    @property
    def differs(self) -> bool:
        """Whether there is something that the update in force does not hold."""
        return self.decision.kind not in {GrowthKind.UNCHANGED, GrowthKind.VANISHED}

    def sentence(self, outcome: str | None = None) -> str:
        """For logs and people: which day, the numbers, and what comes of it; `outcome` where more is known of that."""
        baseline = f"update {self.update}" if self.update else "no valid update"
        return f"{self.source.key} {self.day}: {self.decision.sentence(outcome or self._outcome())} ({baseline})"

    def _outcome(self) -> str | None:
        """What comes of the day where that does not follow from the decision alone."""
        if self.wanted:
            return self._outcome_of_wanted()
        if not self.differs:
            return None
        if self.phase is Phase.OPEN:
            return f"due {self.due_from:%Y-%m-%d %H:%M}, no sensor asks for it before"
        if self.phase is Phase.WATCHED:
            return f"left until it grows more, or leaves the lookback on {self.leaves:%Y-%m-%d}"
        return (
            f"outside the lookback of {counted(self.source.lookback_days, 'day')}, so no sensor asks for it: "
            f"`feed-assets backfill --from {self.day} --to {self.day}` makes it"
        )

    def _outcome_of_wanted(self) -> str | None:
        if self.tried is not None:
            return f"tried as {self.tried}, which is not in force, so it is not tried again by itself until it changes"
        if self.phase is Phase.LEAVING:
            return "to be processed once more, as it has left the lookback"
        return None if self.decision.reprocess else "to be processed again, as the evening before was"


def growth_decisions(
    board: Blackboard,
    sources: Sequence[Source],
    node: FeedNode,
    *,
    now: datetime,
    days: tuple[date, date] | None = None,
    start_at: str = "",
) -> Iterator[SourceDecision]:
    """A decision for every day that is watched or leaving the lookback; `sources` are all of one kind.

    One listing a source, two of the feed; the record of an update is read once a process, and only where the raw files
    are not those that it read, or the evening before was read as context. `days` (first, last)
    are looked at instead, whatever their phase; those before `start_at` are passed over. Days without raw files that
    were never processed are left out.
    """
    if not sources:
        return
    first, last = days or watched_days(sources, now)
    listed = _Listings(board, sources, node, (first, last), now)
    for day in listed.days(max(start_at, str(first))):
        state = listed.state(day)
        update = listed.in_force.get(day)
        tried = listed.tried(day, state)
        for source in sources:
            moment = phase(day, source, sources, now)
            if days is None and moment in {Phase.OPEN, Phase.SETTLED}:
                continue
            before, current = listed.baseline(day, source.key), listed.current(day)[source.key]
            if not current.files and (before is None or not before.count):
                continue
            yield SourceDecision(
                source,
                day,
                listed.decide(day, source, before),
                update.name if update else None,
                state,
                moment,
                due_from(day, sources),
                leaves_at(day, source, sources),
                tried,
                evening_changed=listed.evening_changed(day, source.key),
                swept=update is not None and update.begun >= leaves_at(day, source, sources),
            )


def watched_days(sources: Sequence[Source], now: datetime) -> tuple[date, date]:
    """The first and the last day that any of these sources has watched or leaving the lookback."""
    buffer = max(source.buffer_hours for source in sources)
    longest = max(*(source.lookback_days for source in sources), buffer // 24 + 2)
    return now.date() - (longest + SWEEP_DAYS) * ONE_DAY, now.date() - ONE_DAY


def phase(day: str, source: Source, sources: Sequence[Source], now: datetime) -> Phase:
    """Where the day stands for a source; `sources` are all of its kind, as a day waits for the longest buffer."""
    if now < due_from(day, sources):
        return Phase.OPEN
    if now < leaves_at(day, source, sources):
        return Phase.WATCHED
    return Phase.LEAVING if now < _later(leaves_at(day, source, sources), SWEEP_DAYS * ONE_DAY) else Phase.SETTLED


def due_from(day: str, sources: Sequence[Source]) -> datetime:
    """When the day may be processed first: after its last hour and the longest buffer of its sources."""
    return _later(_midnight(day), ONE_DAY + timedelta(hours=max(source.buffer_hours for source in sources)))


def leaves_at(day: str, source: Source, sources: Sequence[Source]) -> datetime:
    """When the day leaves the source's lookback, which has a day at least after the day is due."""
    return max(_later(_midnight(day), (source.lookback_days + 1) * ONE_DAY), _later(due_from(day, sources), ONE_DAY))


class _Listings:
    """All that is known of a kind's days, from one listing a source and two of the feed.

    The day before the first is listed too, for its evening.
    """

    def __init__(
        self, board: Blackboard, sources: Sequence[Source], node: FeedNode, days: tuple[date, date], now: datetime
    ) -> None:
        self.feed = node.declaration.on(board)
        self.sources = tuple(source.key for source in sources)
        self.evening_hours = node.evening_hours
        self.first, self.last = _day_before(str(days[0])), str(days[1])
        self.raw = raw_days(board, self.sources, date.fromisoformat(self.first), days[1])
        self.in_force = latest_of_all(self.feed, now=now, first=self.first, last=self.last)
        self.digests = recorded_digests(self.feed, first=self.first, last=self.last)
        self._states: dict[str, str] = {}

    def days(self, first: str) -> list[str]:
        """The days with raw files or an update, from this one on."""
        named = {str(day) for _, day in self.raw} | {name for name in self.in_force if is_day(name)}
        return sorted(day for day in named if first <= day <= self.last)

    def current(self, day: str) -> dict[str, RawInput]:
        """The raw files of the day as they are now, by source."""
        at = date.fromisoformat(day)
        return {
            source: self.raw.get((source, at), RawInput(source=source, partition=day, files=()))
            for source in self.sources
        }

    def state(self, day: str) -> str:
        """The digest of what a run would read now: all raw files of the day, and the evening before."""
        if day not in self._states:
            evenings = [self._evening(day, source) for source in self.sources] if self._has_evening(day) else []
            read = [each for each in evenings if each is not None and each.files]
            self._states[day] = inputs_digest([*self.current(day).values(), *read])
        return self._states[day]

    def _has_evening(self, day: str) -> bool:
        return self.evening_hours > 0 and day > self.first

    def decide(self, day: str, source: Source, before: RawInput | None) -> Decision:
        """How the source's day has changed since `before` was read; its listing is read where totals leave it open."""
        current, threshold = self.current(day)[source.key], source.growth_threshold_percent
        now = current if current.files else None
        decision = decide(before, now, threshold)
        if before is None or not decision.needs_files:
            return decision
        return self._once(day, current, lambda in_full: decide(in_full(before), now, threshold))

    def _once(self, day: str, now: RawInput, answer: Callable[[Callable[[RawInput], RawInput]], _Answer]) -> _Answer:
        """What follows from the files that a day's update read and those of `now`, remembered: listings are large."""
        update = self.in_force[day].name
        key = (self.feed.uri, day, update, now.source, inputs_digest([now]))
        if key not in _ANSWERS:
            if len(_ANSWERS) >= REMEMBERED_ANSWERS:
                _ANSWERS.clear()
            _ANSWERS[key] = answer(lambda read: in_full(self.feed, day, update, read))
        found: _Answer = _ANSWERS[key]
        return found

    def baseline(self, day: str, source: str) -> RawInput | None:
        """What the update in force read of the day; None where there is no update, or no record that says so."""
        update = self.in_force.get(day)
        if update is None:
            return None
        if self.digests.get(day, {}).get(update.name) == self.state(day):
            return self.current(day)[source]
        known = inputs_read(self.feed, day, update.name)
        return known.raw(day).get(source) if known else None

    def tried(self, day: str, state: str) -> str | None:
        """A newer update than the one in force that read this state and was decided against."""
        recorded, update = self.digests.get(day, {}), self.in_force.get(day)
        newest = max(recorded, default="")
        if newest <= (update.name if update else "") or recorded[newest] != state:
            return None
        return newest if was_decided_against(self.feed, day, newest) else None

    def evening_changed(self, day: str, source: str) -> bool:
        """Whether the update in force read another evening before than the update of the day before has read."""
        update, before = self.in_force.get(day), _day_before(day)
        if update is None or before not in self.in_force or not self._has_evening(day):
            return False
        if self.digests.get(day, {}).get(update.name) == self.state(day):
            return False
        known, readable = inputs_read(self.feed, day, update.name), self._evening(day, source)
        if known is None or readable is None or not self.current(day)[source].files:
            return False
        read = known.raw(before, context=True).get(source)
        hours = read.hours if read else {}
        # Files of the evening that are gone are no reason: the update of the day before still holds what they held.
        return hours not in (readable.hours, self._evening_in_force(before, source))

    def _evening_in_force(self, before: str, source: str) -> Mapping[str, RawHour]:
        """The evening's files that the update in force of that day read, whether they are still there or not."""
        known = inputs_read(self.feed, before, self.in_force[before].name)
        read = known.raw(before).get(source) if known else None
        return evening(read, self.evening_hours).hours if read else {}

    def _evening(self, day: str, source: str) -> RawInput | None:
        """The evening before as a run would read it now; None where no record tells what the day before has read."""
        before = _day_before(day)
        update, current = self.in_force.get(before), self.current(before)[source]
        if update is None or self.digests.get(before, {}).get(update.name) == self.state(before):
            return evening(current, self.evening_hours)
        known = inputs_read(self.feed, before, update.name)
        if known is None:
            return None
        read = known.raw(before).get(source, RawInput(source=source, partition=before, files=()))
        hours = self.evening_hours
        return self._once(before, evening(current, hours), lambda in_full: evening_read(read, current, hours, in_full))


def _day_before(day: str) -> str:
    """The day before; the first day of the calendar has none, and stands for it."""
    at = date.fromisoformat(day)
    return str(at - ONE_DAY if at > date.min else at)


def _later(moment: datetime, span: timedelta) -> datetime:
    """So much later, or the last moment of the calendar."""
    last = datetime.max.replace(tzinfo=UTC)
    return moment + span if span < last - moment else last


def _midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), time(), UTC)
