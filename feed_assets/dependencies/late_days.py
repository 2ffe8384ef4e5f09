"""Which days are processed for late raw data, which feeds of them, and what is computed downstream in the same run.

Here: from decisions about sources to needs. Not here: the decisions (`raw_growth`, `empty_days`), and the record of
what was asked for (`requests`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from feed_assets.dependencies.empty_days import empty_days
from feed_assets.dependencies.graph import FeedNode, Place, descendants
from feed_assets.dependencies.raw_growth import SourceDecision, growth_decisions
from feed_assets.dependencies.requests import Need, Requests, state_of
from feed_assets.dependencies.staleness import in_force_at
from feed_assets.file_feed import FeedError
from feed_assets.sources import Source


@dataclass(frozen=True, slots=True)
class LateDays:
    """The days of several kinds of sources; `feeds` names for each kind the feed made from it.

    A feed that cannot be read holds up no other: it is noted among the requests.
    """

    sources: Sequence[Source]
    feeds: Mapping[str, str]
    requests: Requests
    unreadable: set[str] = field(default_factory=set)
    """Kinds whose feed turned out to be unreadable, after decisions on its first days."""

    def decisions(self, start_at: str = "") -> Iterator[SourceDecision]:
        """All decisions from this day on, day by day and of each day kind by kind.

        So what a day needs is known once the next one begins, however many ticks a pass takes.
        """
        by_kind = [self._decisions(kind, start_at) for kind in sorted(self.feeds)]
        return heapq.merge(*by_kind, key=lambda decision: decision.day)

    def plan(self, decisions: Sequence[SourceDecision]) -> None:
        """Plan one run a day, over the kinds whose raw data, or lack of it, calls for it and was not answered yet."""
        decisions = [each for each in decisions if each.source.kind not in self.unreadable]
        empty = self._empty(decisions)
        reasons = self._reasons(decisions, empty)
        states_by_day = {
            day: {self.feeds[each.source.kind]: state_of(each.update, each.state) for each in decided}
            | dict.fromkeys(empty.get(day, ()), state_of(None, "empty"))
            for day, decided in sorted(reasons.items())
        }
        self.requests.look_up((feed, day) for day, states in states_by_day.items() for feed in states)
        due_by_day = {}
        for day, states in states_by_day.items():
            if due := self.requests.not_yet_asked(day, states):
                due_by_day[day] = due
        try:
            downstream = self._downstream(due_by_day)
        except FeedError as error:
            self.requests.notes.append(f"Nothing downstream runs with them: {error}")
            downstream = {}
        for day, due in due_by_day.items():
            why = [each.sentence() for each in reasons[day] if self.feeds[each.source.kind] in due]
            why += [reason for feed, reason in empty.get(day, {}).items() if feed in due]
            self.requests.add(Need(day, due, "; ".join(why), downstream.get(day, ())))

    def _node(self, kind: str) -> FeedNode:
        return self.requests.graph.feeds[self.feeds[kind]]

    def _of_kind(self, kind: str) -> list[Source]:
        return [source for source in self.sources if source.kind == kind]

    def _decisions(self, kind: str, start_at: str) -> Iterator[SourceDecision]:
        node, board, now = self._node(kind), self.requests.board, self.requests.now
        try:
            yield from growth_decisions(board, self._of_kind(kind), node, now=now, start_at=start_at)
        except FeedError as error:
            self.unreadable.add(kind)
            self.requests.notes.append(f"{node.name} cannot be looked at: {error}")

    def _empty(self, decisions: Sequence[SourceDecision]) -> dict[str, dict[str, str]]:
        """For each day with data of one kind, the feeds of the kinds with none for a known reason, and that reason.

        Days whose raw files are gone are noted among the requests.
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
                continue  # noted when its growth was looked at
            for day, reason in empty.reasons.items():
                found.setdefault(day, {})[feed] = reason
            self.requests.notes.extend(empty.gone)
        return found

    def _reasons(
        self, decisions: Sequence[SourceDecision], empty: Mapping[str, Mapping[str, str]]
    ) -> dict[str, list[SourceDecision]]:
        """The decisions that make a day due, for each day that is a partition; none for a day that is only empty."""
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
            f"{name} has no partition {', '.join(sorted(days))}: its raw data is left as it is"
            for name, days in sorted(unknown.items())
        )
        return by_day

    def _downstream(self, due_by_day: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
        """For each day, the feeds downstream that the same run can compute: their other inputs of that day are there.

        A feed that also reads another day which is processed now waits for that: it would be computed twice.
        """
        graph = self.requests.graph
        candidates = {
            day: [
                node.location
                for node in descendants(graph, due)
                if all(graph.alike(node.location, feed) for feed in due)
            ]
            for day, due in due_by_day.items()
        }
        parents = {(feed, day): graph.parents(feed, day) for day, feeds in candidates.items() for feed in feeds}
        needed = {place: {parent.place for parent in read if parent.required} for place, read in parents.items()}
        due: set[Place] = {(feed, day) for day, feeds in due_by_day.items() for feed in feeds}
        wanted = {place for places in needed.values() for place in places}
        in_force = in_force_at(self.requests.board, graph, wanted - due, now=self.requests.now)
        available = due | {place for place, update in in_force.items() if update is not None}
        downstream = {}
        for day, feeds in candidates.items():
            elsewhere = {place for place in due if place[1] != day}
            running = []
            for feed in feeds:
                read = {parent.place for parent in parents[feed, day] if not parent.context}
                if needed[feed, day] <= available and not read & elsewhere:
                    available.add((feed, day))
                    running.append(feed)
            downstream[day] = tuple(sorted(running))
        return downstream
