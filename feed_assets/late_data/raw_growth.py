"""Compares the raw data of each source and day with the read set of the update in force.

Here: reading both from the blackboard with few requests. Not here: when a day is due (`day_phases`), comparing two
read sets (`sources.growth`), and planning runs (`late_days`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar, cast

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import ONE_DAY, is_day
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.file_feed.control import recorded
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.read_sets import in_full
from feed_assets.file_feed.record import RawInput, inputs_digest
from feed_assets.file_feed.scanning import latest_of_each
from feed_assets.file_feed.wording import counted
from feed_assets.late_data.day_phases import Phase, due_from, leaves_at, phase, watched_days
from feed_assets.late_data.inputs_read import InputsRead, inputs_read, was_decided_against
from feed_assets.late_data.processing_history import processing_history
from feed_assets.late_data.sweeping import NOTHING_KNOWN, Records, Sweep
from feed_assets.sources.growth import Decision, GrowthKind, decide
from feed_assets.sources.known_contents import Comparing, StillComparingError, recognized
from feed_assets.sources.raw import each_day, evening, evening_read
from feed_assets.sources.spec import Source
from feed_assets.sources.thresholds import CostOfRun, Processed
from feed_assets.starts.graph import FeedNode

_Value = TypeVar("_Value")
_Answer = TypeVar("_Answer")

REMEMBERED_ANSWERS = 1000
_ANSWERS: BoundedCache[tuple[str, ...], Any] = BoundedCache(REMEMBERED_ANSWERS)
"""Answers that needed the listing of an update's raw files, by update, source and a digest of the raw files now."""


@dataclass(frozen=True, slots=True)
class Hour:
    """The raw files of a source's hour now. `content` is a digest of all that a run of the day would read for it."""

    files: int
    records: int | None
    content: str


@dataclass(frozen=True, slots=True)
class SourceDecision:
    """How a source's day has changed since the update in force read it.

    The day is due from `due_from` on, and leaves the lookback at `leaves`. `state` is a digest of the raw data that a
    run of this kind and day would read now. `tried` is a newer update that read this state and was rejected or
    invalidated. `evening_changed`: the update read other files of the evening before than the update of that day did,
    so an event delivered on both days could count twice or not at all. `swept`: the update in force was begun after
    the day had left the lookback. `hours` are those with raw files, `00` to `23`, if they were asked for.
    `any_day`: the day is outside the lookback, and processed all the same.
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
    hours: Mapping[str, Hour] = field(default_factory=dict)
    any_day: bool = False

    @property
    def due(self) -> bool:
        """Whether the day must be processed now."""
        return self.wanted and self.tried is None

    @property
    def wanted(self) -> bool:
        """Whether the day must be processed, tried or not."""
        if self.any_day:
            return True
        match self.phase:
            case Phase.WATCHED:
                return self.decision.reprocess or self.evening_changed
            case Phase.LEAVING:
                return self.update is not None and (self.evening_changed or (self.differs and not self.swept))
            case _:
                return False

    @property
    def differs(self) -> bool:
        """Whether raw files exist that the update in force did not read."""
        return self.decision.kind not in {GrowthKind.UNCHANGED, GrowthKind.VANISHED}

    @property
    def by_hand(self) -> bool:
        """Whether only a backfill processes the day, as it is outside the lookback."""
        sensors_look = self.wanted or self.phase in {Phase.OPEN, Phase.WATCHED}
        return self.differs and not sensors_look and self.tried is None

    @property
    def outside(self) -> str:
        """The outcome of a day outside the lookback."""
        return f"outside the lookback of {counted(self.source.lookback_days, 'day')}, so no sensor asks for it"

    def sentence(self, outcome: str | None = None) -> str:
        """The day, the numbers and the outcome, for people; `outcome` replaces the outcome."""
        baseline = f"update {self.update}" if self.update else "no valid update"
        return f"{self.source.key} {self.day}: {self.decision.sentence(outcome or self._outcome())} ({baseline})"

    def _outcome(self) -> str | None:
        """What happens to the day, if the decision alone does not say so."""
        if self.wanted:
            return self._outcome_of_wanted()
        if not self.differs:
            return None
        if self.phase is Phase.OPEN:
            return f"due {self.due_from:%Y-%m-%d %H:%M}, no sensor asks for it before"
        if self.phase is Phase.WATCHED:
            return f"left until it grows more, or leaves the lookback on {self.leaves:%Y-%m-%d}"
        if self.tried is not None:
            return f"{self._tried}, and {self.outside}"
        return f"{self.outside}: `feed-assets backfill --from {self.day} --to {self.day}` makes it"

    @property
    def _tried(self) -> str:
        return f"tried as {self.tried}, which is not in force"

    def _outcome_of_wanted(self) -> str | None:
        if self.tried is not None:
            return f"{self._tried}, so it is not tried again until its raw data changes"
        if self.any_day:
            return "to be processed by `process_any_day`, as it is outside the lookback"
        if self.phase is Phase.LEAVING:
            return "to be processed once more, as it has left the lookback"
        return None if self.decision.reprocess else "to be processed again, as the evening before has changed"


def growth_decisions(
    board: Blackboard,
    sources: Sequence[Source],
    node: FeedNode,
    *,
    now: datetime,
    days: tuple[date, date] | None = None,
    start_at: str = "",
    sweep: Sweep = NOTHING_KNOWN,
    comparing: Comparing | None = None,
    by_hour: bool = False,
) -> Iterator[SourceDecision]:
    """A decision for every day that is watched or leaving the lookback; `sources` are all sources of one kind.

    On a disk, files whose tags changed are compared by content, which reads each once. Raises StillComparingError if
    that takes longer than `comparing` allows.

    With `days` (first, last), decides on these days in any phase. Days before `start_at`, and days that have no raw
    files and were never processed, are left out. Costs one listing for each source and two of the feed, each only as
    far as decisions are consumed. Reads an update's record once in a process, and only if its raw files have changed or
    it read the evening before as context. A source whose threshold follows from costs adds a listing of the feed, and
    the records of a month once in a process, if a day of it has changed.
    """
    if not sources:
        return
    first, last = days or watched_days(sources, now, sweep.settled)
    first = max(first, date.fromisoformat(start_at or str(first)))
    comparing = comparing or Comparing()
    for each in _days(board, sources, node, (first, last), now, sweep.records):
        each.recognize(comparing)
        day, update, tried = each.day, each.update, each.tried()
        for source in sources:
            moment = phase(day, source, sources, now, sweep.settled)
            if days is None and moment in {Phase.OPEN, Phase.SETTLED}:
                continue
            before, current = each.baseline(source.key), each.raw[source.key]
            if not current.files and (before is None or not before.count):
                continue
            leaves = leaves_at(day, source, sources)
            yield SourceDecision(
                source,
                day,
                each.decide(source),
                update.name if update else None,
                each.state,
                moment,
                due_from(day, sources),
                leaves,
                tried,
                evening_changed=each.evening_changed(source.key),
                swept=update is not None and update.begun >= leaves,
                hours=each.hours(source.key) if by_hour else {},
            )


def _days(
    board: Blackboard,
    sources: Sequence[Source],
    node: FeedNode,
    days: tuple[date, date],
    now: datetime,
    records: Records | None,
) -> Iterator[_Day]:
    """Each day with raw files or an update, listed as it is consumed; the day before the first is listed too."""
    feed = node.declaration.on(board)
    first, last = max(days[0], date.min + ONE_DAY) - ONE_DAY, days[1]
    raw = {
        source.key: _Ascending((read.partition, read) for read in each_day(board, source.key, first, last))
        for source in sources
    }
    updates = _Ascending(latest_of_each(feed, now=now, first=str(first), last=str(last)))
    digests = _Ascending(recorded(feed, first=str(first), last=str(last)) if records is None else records)
    histories: dict[str, dict[str, Processed]] = {}

    def history(source: Source, day: str) -> list[Processed]:
        if source.growth_threshold is None:
            return []
        if source.key not in histories:
            histories[source.key] = processing_history(feed, source.key, now=now)
        return [each for other, each in histories[source.key].items() if other != day]

    listings: list[_Ascending[Any]] = [*raw.values(), updates, digests]
    day: str | None = str(first)
    before: _Day | None = None
    while day is not None and day <= str(last):
        present = {source: each.at(day) or RawInput(source, day, ()) for source, each in raw.items()}
        each = _Day(feed, day, present, updates.at(day), digests.at(day) or {}, node.evening_hours, before, history)
        if day >= str(days[0]) and (each.update or any(read.files for read in present.values())):
            yield each
        before, each.before = each, None  # keep at most two days in memory
        following = str(date.fromisoformat(day) + ONE_DAY) if day < str(last) else None
        coming = [listing.upcoming for listing in listings if listing.upcoming is not None]
        if following is None or day in coming or following in coming:
            day = following
        else:
            day, before = min(coming, default=None), None


class _Ascending(Generic[_Value]):
    """Values by day, in the order of days. Nothing is listed before a day is asked for."""

    def __init__(self, named: Iterable[tuple[str, _Value]]) -> None:
        self._named = (each for each in named if is_day(each[0]))
        self._next: tuple[str, _Value] | None = None

    def at(self, day: str) -> _Value | None:
        """The value of this day; None if there is none."""
        while self._next is None or self._next[0] < day:
            self._next = next(self._named, None)
            if self._next is None:
                return None
        return self._next[1] if self._next[0] == day else None

    @property
    def upcoming(self) -> str | None:
        """The first day with a value from the day last asked for on; None if there is none."""
        return self._next[0] if self._next is not None else None


@dataclass(slots=True, eq=False)
class _Day:
    """A day of a kind: its raw files by source, its update in force, and the inputs digest of each recorded update.

    `state` is the digest of the raw data that a run would read now: all files of the day, and the evening of the day
    `before`, if the kind reads evenings and that day is known.
    """

    feed: Feed
    day: str
    raw: Mapping[str, RawInput]
    update: Update | None
    digests: Mapping[str, str]
    evening_hours: int
    before: _Day | None
    history: Callable[[Source, str], list[Processed]]
    state: str = field(init=False)

    def __post_init__(self) -> None:
        if not self.evening_hours:
            self.before = None
        self._digest()

    def _digest(self) -> None:
        evenings = [read for source in self.raw if (read := self._evening(source)) is not None and read.files]
        self.state = inputs_digest([*self.raw.values(), *evenings])

    @property
    def is_as_read(self) -> bool:
        """Whether the update in force read the raw data as it is now."""
        return self.update is not None and self.digests.get(self.update.name) == self.state

    def recognize(self, comparing: Comparing) -> None:
        """Give files that were copied the tags under which the updates read them, if they do not look as read."""
        board = self.feed.blackboard
        if self.is_as_read:
            for read in self.raw.values():
                comparing.add(board, read)
        elif self.digests:
            try:
                for day in filter(None, (self, self.before)):
                    found = {key: recognized(board, read, until=comparing.until) for key, read in day.raw.items()}
                    day.raw = found
            except StillComparingError as error:
                raise StillComparingError(self.day) from error
            self._digest()

    def decide(self, source: Source) -> Decision:
        """How the source's day has changed since it was read. Reads the listing only if totals do not decide."""
        before, current = self.baseline(source.key), self.raw[source.key]
        threshold, costs = source.growth_threshold_percent, None
        if before is not None and not self.is_as_read:
            threshold, costs = source.threshold(before.bytes, self.history(source, self.day))
        return decide_on(self.feed, self.day, self.update_name, before, current, threshold, costs)

    def baseline(self, source: str) -> RawInput | None:
        """The raw data of the day that the update in force read; None without an update or its record."""
        return self.raw[source] if self.is_as_read else self.read(source)

    def tried(self) -> str | None:
        """An update that is newer than the update in force, read this state, and was rejected or invalidated."""
        newest = max(self.digests, default="")
        if newest <= (self.update.name if self.update else "") or self.digests[newest] != self.state:
            return None
        return newest if was_decided_against(self.feed, self.day, newest) else None

    def evening_changed(self, source: str) -> bool:
        """Whether the update in force read other files of the evening before than the update of that day did."""
        before = self.before
        if self.update is None or before is None or before.update is None or self.is_as_read:
            return False
        known, readable = self.inputs(), self._evening(source)
        if known is None or readable is None or not self.raw[source].files:
            return False
        read = known.raw(before.day, context=True).get(source)
        hours = read.hours if read else {}
        # Deleted files do not count: the update of the day before still has their records.
        in_force = before.read(source)
        of_update = evening(in_force, self.evening_hours).hours if in_force else {}
        return hours not in (readable.hours, of_update)

    def hours(self, source: str) -> dict[str, Hour]:
        """The hours of the source with raw files. The evening before belongs to the content of the first hour."""
        current = self.raw[source].hours
        evening_now = self._evening(source)
        context = inputs_digest([evening_now]) if evening_now is not None and evening_now.files else ""
        return {
            name: Hour(
                hour.files,
                hour.records,
                f"{hour.digest}{context}" if name == min(current) else hour.digest,
            )
            for name, hour in current.items()
        }

    def _evening(self, source: str) -> RawInput | None:
        """The evening before as a run would read it now; None if the update of that day has no record."""
        before = self.before
        if before is None:
            return None
        if before.update is None or before.is_as_read:
            return evening(before.raw[source], self.evening_hours)
        known = before.inputs()
        if known is None:
            return None
        read = known.raw(before.day).get(source, RawInput(source=source, partition=before.day, files=()))
        current, hours = before.raw[source], self.evening_hours
        return _answered_once(
            self.feed,
            before.day,
            before.update_name,
            evening(current, hours),
            lambda in_full: evening_read(read, current, hours, in_full),
        )

    @property
    def update_name(self) -> str:
        return self.update.name if self.update else ""

    def inputs(self) -> InputsRead | None:
        return inputs_read(self.feed, self.day, self.update.name) if self.update else None

    def read(self, source: str) -> RawInput | None:
        """The raw data of the day that the update in force read, even if its files are gone."""
        known = self.inputs()
        return known.raw(self.day).get(source) if known else None


def decide_on(
    feed: Feed,
    partition: str,
    update: str,
    before: RawInput | None,
    current: RawInput,
    threshold: Decimal,
    costs: CostOfRun | None = None,
) -> Decision:
    """How raw data has changed since this update read it as `before`. Reads its listing only if totals do not decide.

    `decide` describes the other arguments.
    """
    now = current if current.files else None
    decision = decide(before, now, threshold, costs)
    if before is None or not decision.needs_files:
        return decision

    def by_files(in_full: Callable[[RawInput], RawInput]) -> Decision:
        return decide(in_full(before), now, threshold, costs)

    return _answered_once(feed, partition, update, current, by_files, str(threshold))


def _answered_once(
    feed: Feed,
    partition: str,
    update: str,
    now: RawInput,
    answer: Callable[[Callable[[RawInput], RawInput]], _Answer],
    *more: str,
) -> _Answer:
    """The answer from the files that this update read, `now` and `more`; cached, as listings are large."""
    key = (feed.uri, partition, update, now.source, inputs_digest([now]), *more)
    with suppress(KeyError):
        return cast("_Answer", _ANSWERS[key])
    _ANSWERS[key] = found = answer(lambda read: in_full(feed, partition, update, read))
    return found
