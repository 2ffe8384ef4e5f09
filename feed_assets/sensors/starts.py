"""The sensor for flows with a trigger: what is known of their inputs becomes facts, and the gate decides what starts.

Here: one tick. Raw data is compared as `late_growth` does, derived feeds as `new_manifests` does; what they would run
is a reopened input here. Not here: the decision (`dependencies.gate`), the cases (`flows`), and the record of requested
runs (`starts.requests`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

import dagster as dg

from feed_assets.dependencies.errors import EventsGoneError
from feed_assets.dependencies.gate import Verdict, decide
from feed_assets.dependencies.service import Dependencies
from feed_assets.feed_events.triggers import REVISIONS_TAG, STARTS
from feed_assets.late_data.catching_up import plan_stale
from feed_assets.late_data.late_days import LateDays
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows, changed_places
from feed_assets.sensors.liveness import fail_dead_runs
from feed_assets.sensors.raw_facts import record_counts, record_raw
from feed_assets.sensors.ticks import (
    TICK_SECONDS,
    day_to_resume,
    keep_contents,
    load_cursor,
    log_news,
    requests_of_tick,
    run_requests,
)
from feed_assets.sources.spec import Source
from feed_assets.starts.requests import Request, Requests, in_force_in

CHANGED = "its inputs have changed since"
EQUAL = "stays: its inputs have the content that it read"
NEVER = "its inputs are there, and it was never computed"


def starts(
    sources: Sequence[Source],
    clean_assets: Mapping[str, dg.AssetKey],
    *,
    first_day: date,
    lookback_days: int,
    interval_seconds: int,
    run_config: Mapping[str, Any],
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
        flows, board, store = Flows.of(feeds, sources, first_day), blackboard.blackboard, state.store
        states = flows.states(store, board)
        requests = requests_of_tick(context.instance, store, board, feeds, clock.now())
        gate = _Gate(flows, states, clock.now(), lookback_days)
        requests.held = gate.held
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
        since = today - timedelta(days=lookback_days)
        requests.notes += record_counts(states, board, counted, since, today, now=clock.now())
        days.plan(decisions)
        days.settle(decisions, start_at=start_at, resume=resume)
        seen, touched = _touched(flows, states, cursor)
        touched, compare = plan_stale(
            requests,
            touched,
            lookback_days=lookback_days,
            out_of_time=lambda: time.monotonic() > deadline,
            warn=context.log.warning,
            first=cursor.get("compare"),
            among=lambda node: flows.triggered(node.location) and bool(node.upstream),
        )
        asked = requests.put_on_record()
        keep_contents(days, deadline)
        runs = run_requests(STARTS, feeds, asked, run_config, gate.tags)
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

    def held(self, feed: str, partition: str, state: str) -> str | None:
        """Why a partition of a flow that is due waits; None if nothing holds it."""
        verdict = self._verdict(feed, partition, in_force_in(state))
        if verdict is None:
            return None
        return verdict.sentence if verdict.held else (None if verdict.case.behind else EQUAL)

    def joins(self, feed: str, partition: str, run: Collection[str], has_update: bool) -> bool:  # noqa: FBT001 - a port
        """Whether a flow may be computed in the run of some of its inputs, which that run makes anew, and audits."""
        verdict = self._verdict(feed, partition, "an update" if has_update else None, made=run)
        return verdict is not None and verdict.held is None

    def _verdict(self, feed: str, partition: str, in_force: str | None, made: Collection[str] = ()) -> Verdict | None:
        """The gate's answer on a partition that is due; None for a feed without a trigger. It skips inputs `made`."""
        trigger = self.flows.triggers.get(feed)
        if trigger is None:
            return None
        case = self.flows.case(self.states, feed, partition, in_force=in_force, behind=CHANGED if in_force else NEVER)
        others = [
            each for each in case.inputs if not (each.slot.dataset in made and each.slot.start == case.slot.start)
        ]
        lookback = timedelta(days=self.lookback_days)
        return decide(replace(case, inputs=others), trigger, now=self.now, lookback=lookback)

    def tags(self, request: Request) -> dict[str, str]:
        """The revisions of the inputs that decided, for the record of the run."""
        need = request.need
        cases = (self.flows.case(self.states, feed, need.partition, in_force=None, behind="") for feed in need.due)
        found = {str(each.slot): each.revision for case in cases for each in case.inputs if each.complete}
        return {REVISIONS_TAG: json.dumps(found, sort_keys=True)}


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
    return newest, {each for each in touched if flows.triggered(each[0])} | changed_places(flows, events)


def _summary(requests: Requests) -> str:
    again = f"{requests.already} already requested for their present state" if requests.already else ""
    return "No run needed. " + "; ".join([*requests.decided[:3], *([again] if again else [])])
