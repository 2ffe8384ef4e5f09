"""The sensor for flows with a trigger: what is known of their inputs becomes facts, and the gate decides what starts.

Here: one tick. Raw data is compared as `late_growth` does, derived feeds as `new_manifests` does; what they would run
is a reopened input here. Not here: the decision (`dependencies.gate`), the cases (`flows`), and the record of requested
runs (`starts.requests`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

import dagster as dg

from feed_assets.blackboard.port import Blackboard, BlackboardError
from feed_assets.datasets.days import ONE_DAY
from feed_assets.dependencies.declared.loading import DeclaredDataset
from feed_assets.dependencies.errors import EventsGoneError, StateCopyError
from feed_assets.dependencies.gate.decision import Verdict, decide
from feed_assets.dependencies.gate.questions import Questions
from feed_assets.dependencies.quality.marks import QualityState
from feed_assets.dependencies.service import Dependencies
from feed_assets.dependencies.state_copy import StateCopy
from feed_assets.feed_events.triggers import REOPENED_TAG, REVISIONS_TAG, STARTS
from feed_assets.late_data.catching_up import plan_stale
from feed_assets.late_data.late_days import LateDays
from feed_assets.late_data.raw_growth import SourceDecision
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.declared_facts import record_declared
from feed_assets.sensors.extra_changes import NEVER, plan_by_extras, reopened_in, touched_by_extras, with_extras
from feed_assets.sensors.flows import OVERDUE, Begun, Flows, changed_places
from feed_assets.sensors.liveness import fail_dead_runs
from feed_assets.sensors.overdue import overdue
from feed_assets.sensors.raw_facts import count_files, record_counts, record_raw
from feed_assets.sensors.ticks import (
    TICK_SECONDS,
    HandOver,
    day_to_resume,
    keep_contents,
    load_cursor,
    log_news,
    requests_of_tick,
    run_all,
    run_requests,
)
from feed_assets.sources.control_files import DayFolders
from feed_assets.sources.spec import Source
from feed_assets.starts.attempt import Attempt
from feed_assets.starts.attempts import Attempts
from feed_assets.starts.requests import Request, Requests, in_force_in

CHANGED = "its inputs have changed since"
EQUAL = "stays: its inputs have the content that it read"


def starts(
    sources: Sequence[Source],
    clean_assets: Mapping[str, dg.AssetKey],
    *,
    first_day: date,
    datasets: Sequence[DeclaredDataset] = (),
    lookback_days: int,
    interval_seconds: int,
    run_config: Mapping[str, Any],
    hand_over: HandOver = run_all,
) -> dg.SensorDefinition:
    """Starts every flow whose inputs are complete and good. `clean_assets` maps each kind of source to its asset."""

    @dg.sensor(
        name=STARTS,
        asset_selection=dg.AssetSelection.all(),  # as `target`, all assets would have to share their partitions
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Decides on the assets with a trigger, and on no others: runs each partition whose inputs are complete and "
            "good, once for each state of its inputs. `feed-assets deps explain` says why one does not run yet."
        ),
    )
    def sensor(
        context: dg.SensorEvaluationContext, blackboard: BlackboardResource, state: StateResource, clock: Clock
    ) -> dg.SensorResult:
        deadline = time.monotonic() + TICK_SECONDS
        feeds = AssetFeedGraph.of(context.repository_def)
        for run_id in fail_dead_runs(context.instance):
            context.log.warning(f"Run {run_id} is marked as failed: its process is gone.")
        flows, board, store = Flows.of(feeds, sources, first_day, datasets), blackboard.blackboard, state.store
        states = flows.states(store, board)
        requests = requests_of_tick(context.instance, store, board, feeds, clock.now())
        gate = _Gate(flows, states, clock.now(), lookback_days, Begun.of(states, clock.now))
        requests.held = gate.held
        requests.at_once = {feed: each.at_once for feed, each in flows.triggers.items() if each.at_once}
        forced = requests.forced()
        raw = {kind: feeds.locations[key] for kind, key in clean_assets.items()}
        days = LateDays(
            sources,
            {kind: feed for kind, feed in raw.items() if flows.triggered(feed)},
            requests,
            joins=gate.joins,
            by_hour=True,
        )
        days.comparing.until = deadline

        cursor = load_cursor(context.cursor)
        start_at = day_to_resume(cursor)
        decisions, resume = days.decide(start_at, out_of_time=lambda: time.monotonic() > deadline)
        record_raw(states, decisions, now=clock.now())
        today = clock.now().date()
        counted = [source for source in sources if flows.triggered(raw.get(source.kind, ""))]
        since, tomorrow = today - timedelta(days=lookback_days), today + ONE_DAY  # it has begun in zones east of UTC
        folders = DayFolders(board, count_files(counted, datasets), since, tomorrow)
        requests.notes += record_counts(states, folders, counted, now=clock.now())
        requests.notes += record_declared(states, folders, feeds, datasets, since, now=clock.now())
        days.plan(decisions)
        days.settle(decisions, start_at=start_at, resume=resume)
        seen, touched = _touched(flows, states, cursor)
        decided: dict[tuple[str, str], list[SourceDecision]] = {}
        for each in decisions:
            decided.setdefault((raw[each.source.kind], each.day), []).append(each)
        still_open = plan_by_extras(requests, flows, states, touched, decided, lookback_days=lookback_days)
        touched, compare = plan_stale(
            requests,
            touched,
            lookback_days=lookback_days,
            out_of_time=lambda: time.monotonic() > deadline,
            warn=context.log.warning,
            first=cursor.get("compare"),
            among=lambda node: flows.triggered(node.location) and bool(node.upstream),
            revised=partial(with_extras, flows, states, board),
        )
        touched |= still_open
        for asks in Questions(states).ask(gate.asking, now=clock.now()):
            context.log.info(f"{asks.flow} {asks.slot} asks whether it runs again: {asks.why}")
        asked = [*forced, *requests.put_on_record()]
        requests.notes += gate.give_up(requests.attempts)
        keep_contents(days, deadline)
        _copy_state(context, states, board)
        runs = hand_over(context, run_requests(STARTS, feeds, asked, run_config, gate.tags))
        logged = log_news(context, requests.decided, cursor)
        content = {"resume": resume, "compare": compare, "logged": logged, "events": seen, "touched": sorted(touched)}
        return dg.SensorResult(
            run_requests=runs,
            skip_reason=None if runs else _summary(requests),
            cursor=json.dumps({name: value for name, value in content.items() if value}),
        )

    return sensor


@dataclass(slots=True)
class _Gate:
    """The gate over one tick's facts."""

    flows: Flows
    states: Dependencies
    now: datetime
    lookback_days: int
    begun: Begun
    asking: list[Verdict] = field(default_factory=list)
    """The verdicts that wait for the answer of a person."""

    def held(self, feed: str, partition: str, state: str) -> str | None:
        """Why a partition of a flow that is due waits; None if nothing holds it."""
        verdict = self._verdict(feed, partition, in_force_in(state))
        if verdict is None:
            return None
        if verdict.asks:
            self.asking.append(verdict)
        return verdict.sentence if verdict.held else (None if verdict.case.behind else EQUAL)

    def give_up(self, attempts: Attempts) -> list[str]:
        """Give partitions up, on record, that have waited as long as their triggers say; returns notes for the log."""
        notes = []
        for each in overdue(self.flows, self.states, now=self.now, lookback_days=self.lookback_days, begun=self.begun):
            reason = each.verdict.gives_up or ""
            if isinstance(attempts.give_up(each.feed, each.partition, OVERDUE, reason=reason), Attempt):
                notes.append(f"{each.verdict.case.flow} of {each.partition} is given up: {reason}")
        return notes

    def joins(self, feed: str, partition: str, run: Collection[str], has_update: bool) -> bool:  # noqa: FBT001 - a port
        """Whether a flow may be computed in the run of some of its inputs, which that run makes anew, and audits."""
        verdict = self._verdict(feed, partition, "an update" if has_update else None, made=run)
        return verdict is not None and verdict.held is None

    def _verdict(self, feed: str, partition: str, in_force: str | None, made: Collection[str] = ()) -> Verdict | None:
        """The gate's answer on a partition that is due; None for a feed without a trigger.

        Inputs `made` will be complete and good.
        """
        trigger = self.flows.triggers.get(feed)
        if trigger is None:
            return None
        behind = CHANGED if in_force else NEVER
        case = self.flows.case(self.states, feed, partition, in_force=in_force, behind=behind, begun=self.begun)
        given = [
            replace(each, complete=True, quality=QualityState.PASSED, reopened=None)
            if each.slot.dataset in made and each.slot.start == case.slot.start
            else each
            for each in case.inputs
        ]
        lookback = timedelta(days=self.lookback_days)
        return decide(replace(case, inputs=given), trigger, now=self.now, lookback=lookback)

    def tags(self, request: Request) -> dict[str, str]:
        """The revisions of the inputs that decided, for the record of the run; 0 for an extra input that is missing.

        Also what identifies inputs that somebody reopened, if the run is for these.
        """
        need = request.need
        cases = (self.flows.case(self.states, feed, need.partition, in_force=None, behind="") for feed in need.due)
        found = {
            str(each.slot): each.revision if each.complete else 0
            for case in cases
            for each in case.inputs
            if each.complete or each.extra
        }
        reopened = sorted(filter(None, map(reopened_in, need.due.values())))
        tags = {REVISIONS_TAG: json.dumps(found, sort_keys=True)}
        return tags | ({REOPENED_TAG: ",".join(reopened)} if reopened else {})


def _touched(flows: Flows, states: Dependencies, cursor: Mapping[str, object]) -> tuple[int, set[tuple[str, str]]]:
    """The partitions, of any age, of which an input has changed since the last tick, and those that it left.

    Also the number of the newest event. The first tick begins with the newest: it compares the whole lookback.
    """
    known, left = cursor.get("events"), cursor.get("touched")
    touched = {(str(feed), str(partition)) for feed, partition in left} if isinstance(left, list) else set()
    try:
        events = states.events(known) if isinstance(known, int) else []
    except EventsGoneError as gone:
        return gone.newest, touched
    newest = events[-1].sequence if events else known if isinstance(known, int) else states.newest()
    return newest, {each for each in touched if flows.triggered(each[0])} | (
        changed_places(flows, events) | touched_by_extras(flows, events)
    )


def _copy_state(context: dg.SensorEvaluationContext, states: Dependencies, board: Blackboard) -> None:
    """Copy what is new in the database to the blackboard. If that fails, the next tick does it."""
    try:
        StateCopy(states, board).write()
    except (StateCopyError, BlackboardError) as error:
        context.log.warning(f"The state database is not copied: {error}")


def _summary(requests: Requests) -> str:
    again = f"{requests.already} already requested for their present state" if requests.already else ""
    return "No run needed. " + "; ".join([*requests.decided[:3], *([again] if again else [])])
