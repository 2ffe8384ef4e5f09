"""Plans the runs for late raw data: the days, their feeds, and the downstream feeds in the same run.

Not here: the decision on each day (`raw_growth`, `empty_days`), and the record of requested runs (`requests`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from feed_assets.blackboard.port import BlackboardError
from feed_assets.datasets.days import ONE_DAY
from feed_assets.datasets.declaration import Place
from feed_assets.file_feed.errors import FeedError
from feed_assets.late_data.day_phases import Phase
from feed_assets.late_data.empty_days import empty_days
from feed_assets.late_data.raw_growth import SourceDecision, growth_decisions
from feed_assets.late_data.staleness import in_force_at
from feed_assets.late_data.sweeping import Sweep, keep, last_settled, sweep_of
from feed_assets.sources.known_contents import Comparing, StillComparingError
from feed_assets.sources.spec import Source
from feed_assets.starts.graph import FeedNode, descendants
from feed_assets.starts.requests import Need, Requests, state_of


@dataclass(frozen=True, slots=True)
class LateDays:
    """The days of several kinds of sources; `feeds` maps each kind to the feed made from it.

    If a feed cannot be read, `requests.notes` gets a message and the other feeds go on.
    """

    sources: Sequence[Source]
    feeds: Mapping[str, str]
    requests: Requests
    unreadable: set[str] = field(default_factory=set)
    """Kinds whose feed could not be read, perhaps after decisions on its first days."""
    comparing: Comparing = field(default_factory=Comparing)
    """How long files of a copied base may be read."""
    joins: Callable[[str, str, Collection[str], bool], bool] = lambda *_: True
    """Whether a downstream feed may join the run of a day: the feed, the day, the feeds of the run, whether it has an
    update in force."""
    by_hour: bool = False
    """Whether the decisions have their hours."""
    _stopped: dict[str, str] = field(default_factory=dict)
    """The first day of each kind with copied files that are still to be compared."""
    _sweeps: dict[str, Sweep] = field(default_factory=dict)
    """How far each kind was swept when its decisions began."""

    def decisions(self, start_at: str = "") -> Iterator[SourceDecision]:
        """All decisions from this day on, sorted by day: a day is complete when the next day begins."""
        by_kind = [self._decisions(kind, start_at) for kind in sorted(self.feeds)]
        return heapq.merge(*by_kind, key=lambda decision: decision.day)

    def decide(self, start_at: str, *, out_of_time: Callable[[], bool]) -> tuple[list[SourceDecision], str | None]:
        """The decisions of a tick from this day on, at least those of one day; and the day for the next to begin with.

        That is None if there is no day left, or else the first day without decisions.
        """
        decided: list[SourceDecision] = []
        resume = None
        for decision in self.decisions(start_at):
            if decided and decision.day != decided[-1].day and out_of_time():
                resume = decision.day
                break
            decided.append(decision)
        if self.stopped_at is not None:
            resume = min(filter(None, [resume, self.stopped_at]))
            decided = [each for each in decided if each.day < resume]
        return decided, resume

    @property
    def stopped_at(self) -> str | None:
        """The first day whose copied files are still to be compared: leave out its decisions, and those after it."""
        return min(self._stopped.values(), default=None)

    def plan(self, decisions: Sequence[SourceDecision]) -> None:
        """Plan one run for each due day, of the kinds that have late or no raw data and were not yet requested."""
        decisions = [each for each in decisions if each.source.kind not in self.unreadable]
        empty = self._empty(decisions)
        reasons = self._reasons(decisions, empty)
        states_by_day = {
            day: {self.feeds[each.source.kind]: state_of(each.update, each.state) for each in decided}
            | dict.fromkeys(empty.get(day, ()), state_of(None, "empty"))
            for day, decided in sorted(reasons.items())
        }
        self.requests.look_up((feed, day) for day, states in states_by_day.items() for feed in states)
        all_due = {day: self.requests.not_yet_requested(day, states) for day, states in states_by_day.items()}
        due_by_day = {day: due for day, due in all_due.items() if due}
        try:
            downstream = self._downstream(due_by_day)
        except FeedError as error:
            self.requests.notes.append(f"The runs compute no downstream feeds: {error}")
            downstream = {}
        for day, due in due_by_day.items():
            decided = [each for each in reasons[day] if self.feeds[each.source.kind] in due]
            why = [each.sentence() for each in decided]
            why += [reason for feed, reason in empty.get(day, {}).items() if feed in due]
            before = downstream.get(day, {})
            report = self._report(decided, before)
            self.requests.add(Need(day, due, "; ".join(why), tuple(sorted(before)), report))

    def settle(self, decisions: Sequence[SourceDecision], *, start_at: str = "", resume: str | None = None) -> None:
        """Keep how far days that have left the lookback need nothing more: `plan` has had these decisions before.

        They are those from `start_at` to before `resume`.
        """
        for kind, sweep in self._sweeps.items():
            has_data = any(each.source.kind == kind for each in decisions)
            if kind in self.unreadable or (sweep.stored is None and not has_data):
                continue
            feed, sources = self.feeds[kind], self._of_kind(kind)
            given_up = {day for of, day in self.requests.given_up if of == feed}
            settled = {}
            for source in sources:
                before, by_time = sweep.settled[source.key], last_settled(source, sources, self.requests.now)
                open_ = [
                    date.fromisoformat(each.day) - ONE_DAY
                    for each in decisions
                    if each.source == source and each.due and each.phase is Phase.LEAVING
                    and each.day not in given_up and self.requests.graph.has(feed, each.day)
                ]  # fmt: skip
                if resume:
                    open_.append(date.fromisoformat(resume) - ONE_DAY)
                if start_at and date.fromisoformat(start_at) > before + ONE_DAY:
                    open_.append(before)
                # A day that is watched again, as the lookback became longer, is to be swept again.
                settled[source.key] = min(by_time, max(before, min([by_time, *open_])))
            try:
                keep(self._node(kind).declaration.on(self.requests.board), sweep, settled)
            except BlackboardError as error:
                self.requests.notes.append(f"How far {kind} are swept is not kept: {error}")

    def _report(self, decided: Sequence[SourceDecision], before: Mapping[str, str | None]) -> dict[str, Any] | None:
        """The first part of the report on a run: each decision with its numbers, and the updates in force before.

        None if no data came late: that a day is processed for the first time needs no report.
        """
        if all(each.update is None for each in decided):
            return None
        updates = {self.feeds[each.source.kind]: each.update for each in decided} | dict(before)
        return {
            "sources": [
                {
                    "source": each.source.key,
                    "decision": each.decision.plain,
                    "sentence": each.sentence(),
                    "recipients": list(each.source.recipients),
                }
                for each in decided
            ],
            "before": updates,
        }

    def _node(self, kind: str) -> FeedNode:
        return self.requests.graph.feeds[self.feeds[kind]]

    def _of_kind(self, kind: str) -> list[Source]:
        return [source for source in self.sources if source.kind == kind]

    def _decisions(self, kind: str, start_at: str) -> Iterator[SourceDecision]:
        node, board, now, sources = self._node(kind), self.requests.board, self.requests.now, self._of_kind(kind)
        if not sources:
            return
        sweep = self._sweeps[kind] = sweep_of(node.declaration.on(board), sources, now)
        try:
            yield from growth_decisions(
                board,
                sources,
                node,
                now=now,
                start_at=start_at,
                sweep=sweep,
                comparing=self.comparing,
                by_hour=self.by_hour,
            )
        except StillComparingError as error:
            self._stopped[kind] = str(error)
            self.requests.notes.append(f"{node.name} {error}: copied files are compared, the next tick goes on")
        except FeedError as error:
            self.unreadable.add(kind)
            self.requests.notes.append(f"{node.name} cannot be read: {error}")

    def _empty(self, decisions: Sequence[SourceDecision]) -> dict[str, dict[str, str]]:
        """For each day with data of some kind, the feeds of the kinds that have none, each with its known reason.

        `requests.notes` gets a message for each day whose raw files were deleted.
        """
        with_data = {kind: {each.day for each in decisions if each.source.kind == kind} for kind in self.feeds}
        found: dict[str, dict[str, str]] = {}
        for kind, feed in self.feeds.items():
            others = {day for other, days in with_data.items() if other != kind for day in days} - with_data[kind]
            days = {day for day in others if self.requests.graph.has(feed, day)}
            declaration = self._node(kind).declaration
            try:
                empty = empty_days(self.requests.board, self._of_kind(kind), declaration, days, now=self.requests.now)
            except FeedError:
                continue  # `_decisions` has added a message
            for day, reason in empty.reasons.items():
                found.setdefault(day, {})[feed] = reason
            self.requests.notes.extend(empty.gone)
        return found

    def _reasons(
        self, decisions: Sequence[SourceDecision], empty: Mapping[str, Mapping[str, str]]
    ) -> dict[str, list[SourceDecision]]:
        """The decisions that make each day due, for days that are partitions; an empty list for an empty day."""
        by_day: dict[str, list[SourceDecision]] = {day: [] for day in empty}
        unknown: dict[str, set[str]] = {}
        for decision in decisions:
            if not decision.due:
                continue
            if self.requests.graph.has(self.feeds[decision.source.kind], decision.day):
                by_day.setdefault(decision.day, []).append(decision)
            else:
                unknown.setdefault(self._node(decision.source.kind).name, set()).add(decision.day)
        self.requests.notes.extend(
            f"{name} has no partition {', '.join(sorted(days))}: its raw data is not processed"
            for name, days in sorted(unknown.items())
        )
        return by_day

    def _downstream(self, due_by_day: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str | None]]:
        """For each day, the downstream feeds that the same run can compute, because their other inputs exist.

        Each has its update in force; None if it has none.

        A feed that also reads another day due now waits for that day: otherwise it would be computed twice.
        """
        graph = self.requests.graph
        candidates = {
            day: [n.location for n in descendants(graph, due) if all(graph.alike(n.location, feed) for feed in due)]
            for day, due in due_by_day.items()
        }
        parents = {(feed, day): graph.parents(feed, day) for day, feeds in candidates.items() for feed in feeds}
        needed = {place: {parent.place for parent in read if parent.required} for place, read in parents.items()}
        due: set[Place] = {(feed, day) for day, feeds in due_by_day.items() for feed in feeds}
        wanted = {place for places in needed.values() for place in places}
        own = {(feed, day) for day, feeds in candidates.items() for feed in feeds}
        in_force = in_force_at(self.requests.board, graph, (wanted | own) - due, now=self.requests.now)
        available = due | {place for place in wanted if in_force.get(place) is not None}
        downstream = {}
        for day, feeds in candidates.items():
            elsewhere = {place for place in due if place[1] != day}
            running: dict[str, str | None] = {}
            for feed in feeds:
                read = {parent.place for parent in parents[feed, day] if not parent.context}
                if not needed[feed, day] <= available or read & elsewhere:
                    continue
                if self.joins(feed, day, {*due_by_day[day], *running}, in_force.get((feed, day)) is not None):
                    available.add((feed, day))
                    running[feed] = in_force.get((feed, day))
            downstream[day] = running
        return downstream
