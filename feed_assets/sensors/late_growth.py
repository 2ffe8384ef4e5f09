"""The sensor for late data: raw partitions that have grown, or otherwise changed, since they were read.

Here: turning decisions into run requests for exactly the partitions and assets affected. Not here: the
decisions (`growth`).
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

from feed_assets.blackboard import Blackboard
from feed_assets.file_feed import FeedError
from feed_assets.resources import BlackboardResource, Clock
from feed_assets.sensors.busy import busy_partitions
from feed_assets.sensors.empty_days import empty_days
from feed_assets.sensors.feeds import FeedGraph
from feed_assets.sensors.growth import SourceDecision, growth_decisions
from feed_assets.sensors.liveness import fail_dead_runs
from feed_assets.sensors.requests import Need, Requests, load_cursor, state_of
from feed_assets.sensors.staleness import in_force_at
from feed_assets.sources import Source

TICK_SECONDS = 40.0
"""A tick of the daemon has 60 s; what a tick does not get to is the first thing in the next."""


def late_growth(
    sources: Sequence[Source],
    clean_assets: Mapping[str, dg.AssetKey],
    *,
    interval_seconds: int,
    run_config: Mapping[str, Any] | None = None,
) -> dg.SensorDefinition:
    """Watches every source's lookback.

    `clean_assets` names, for each kind of source, the asset made from it; requested runs get `run_config`.
    """

    @dg.sensor(
        name="late_growth",
        asset_selection=dg.AssetSelection.assets(*clean_assets.values()).downstream(),
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Compares every raw partition in each source's lookback (today excluded) with the read set of the latest "
            "valid update, and runs the days again that have grown by the source's threshold, whose files were "
            "replaced or deleted, or that were never processed: with the assets made from them, and no others."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext, blackboard: BlackboardResource, clock: Clock) -> dg.SensorResult:
        deadline = time.monotonic() + TICK_SECONDS
        board, now = blackboard.blackboard, clock.now()
        feeds = FeedGraph.of(_repository(context))
        for run_id in fail_dead_runs(context.instance):
            context.log.warning(f"Run {run_id} is reported as failed: its process is gone.")
        busy = busy_partitions(context.instance, feeds)
        requests = Requests("late_growth", board, feeds, busy, now, run_config or {})

        decisions: list[SourceDecision] = []
        cursor = load_cursor(context.cursor)
        begun_at, resume = str(cursor.get("resume", "")), None
        for decision in _decisions(board, feeds, sources, clean_assets, now, begun_at, requests):
            # A whole day at least, so that every tick gets on.
            another_day = bool(decisions) and _position(decision) != _position(decisions[-1])
            if another_day and time.monotonic() > deadline:
                resume = _position(decision)
                break
            decisions.append(decision)
        # Whether a kind has no data of a day is known once all days were looked at.
        empty = {} if begun_at or resume else _empty_days(board, feeds, sources, clean_assets, decisions, now)
        for need in _needs(board, feeds, clean_assets, decisions, empty, requests, now):
            requests.add(need)
        lines = [each.sentence() for each in decisions if each.decision.kind != "unchanged"] + requests.decided
        logged = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if lines else ""
        if logged != cursor.get("logged", ""):
            for line in lines:
                context.log.info(line)
        content = {"resume": resume, "logged": logged}
        return dg.SensorResult(
            run_requests=requests.runs,
            skip_reason=None if requests.runs else _summary(decisions, requests),
            cursor=json.dumps({name: value for name, value in content.items() if value}),
        )

    return sensor


def _decisions(
    board: Blackboard,
    feeds: FeedGraph,
    sources: Sequence[Source],
    clean_assets: Mapping[str, dg.AssetKey],
    now: datetime,
    resume: str,
    requests: Requests,
) -> Iterator[SourceDecision]:
    """All decisions, kind by kind and day by day, from where the tick before ran out of time.

    A feed that cannot be read holds up no other: it is noted among the requests.
    """
    first_kind, _, first_day = resume.partition("@")
    for kind, key in sorted(clean_assets.items()):
        if kind < first_kind:
            continue
        try:
            yield from growth_decisions(
                board,
                [source for source in sources if source.kind == kind],
                feeds.assets[key].declaration,
                now=now,
                evening_hours=feeds.evening_hours(key),
                start_at=first_day if kind == first_kind else "",
            )
        except FeedError as error:
            requests.notes.append(f"{key.to_user_string()} cannot be looked at: {error}")


def _needs(
    board: Blackboard,
    feeds: FeedGraph,
    clean_assets: Mapping[str, dg.AssetKey],
    decisions: Sequence[SourceDecision],
    empty: Mapping[str, Mapping[dg.AssetKey, str]],
    requests: Requests,
    now: datetime,
) -> list[Need]:
    """One need a day, over the kinds whose raw data, or lack of it, calls for it and was not answered yet.

    `empty` names for each day the assets without raw data to publish as empty, each with the reason.
    """
    by_day: dict[str, list[SourceDecision]] = {day: [] for day in empty}
    unknown: dict[str, set[str]] = {}
    for decision in decisions:
        asset = clean_assets[decision.source.kind]
        if not decision.due:
            continue
        if feeds.has(asset, decision.day):
            by_day.setdefault(decision.day, []).append(decision)
        else:
            unknown.setdefault(asset.to_user_string(), set()).add(decision.day)
    for asset_name, days in sorted(unknown.items()):
        requests.notes.append(f"{asset_name} has no partition {', '.join(sorted(days))}: its raw data is left as it is")
    due_by_day = {}
    for day, reasons in sorted(by_day.items()):
        states = {clean_assets[each.source.kind]: state_of(each.update, each.state) for each in reasons}
        states |= dict.fromkeys(empty.get(day, ()), state_of(None, "empty"))
        if due := requests.not_yet_asked(day, states):
            due_by_day[day] = due
    try:
        along = _along(board, feeds, due_by_day, now)
    except FeedError as error:
        requests.notes.append(f"Nothing runs along: {error}")
        along = {}
    needs = []
    for day, due in due_by_day.items():
        kinds = {kind for kind, key in clean_assets.items() if key in due}
        why = [each.sentence() for each in by_day[day] if each.source.kind in kinds]
        why += [reason for key, reason in empty.get(day, {}).items() if key in due]
        needs.append(Need(day, due, "; ".join(why), along=along.get(day, ())))
    return needs


def _empty_days(
    board: Blackboard,
    feeds: FeedGraph,
    sources: Sequence[Source],
    clean_assets: Mapping[str, dg.AssetKey],
    decisions: Sequence[SourceDecision],
    now: datetime,
) -> dict[str, dict[dg.AssetKey, str]]:
    """For each day with data of one kind, the assets of the kinds that have none and said so, each with the reason."""
    with_data = {kind: {each.day for each in decisions if each.source.kind == kind} for kind in clean_assets}
    found: dict[str, dict[dg.AssetKey, str]] = {}
    for kind, key in clean_assets.items():
        others = {day for other, days in with_data.items() if other != kind for day in days} - with_data[kind]
        mine = [source for source in sources if source.kind == kind]
        days = {day for day in others if feeds.has(key, day)}
        try:
            for each in empty_days(board, mine, feeds.assets[key].declaration, days, now=now):
                found.setdefault(each.day, {})[key] = each.reason
        except FeedError:
            continue  # noted when its growth was looked at
    return found


def _along(
    board: Blackboard, feeds: FeedGraph, due_by_day: Mapping[str, Mapping[dg.AssetKey, str]], now: datetime
) -> dict[str, tuple[dg.AssetKey, ...]]:
    """For each day, the assets downstream that can run along: their other inputs of that day are there.

    An asset that also reads another day which is processed now waits for that: it would be made twice.
    """
    candidates = {
        day: [asset for asset in feeds.descendants(due) if all(feeds.alike(asset.key, key) for key in due)]
        for day, due in due_by_day.items()
    }
    parents = {
        (day, asset.key): feeds.parents(asset.key, day) for day, assets in candidates.items() for asset in assets
    }
    needed = {
        place: {(parent.feed, parent.partition) for parent in read if parent.required}
        for place, read in parents.items()
    }
    made = {(feeds.assets[key].declaration.location, day) for day, due in due_by_day.items() for key in due}
    wanted = {place for places in needed.values() for place in places}
    there = in_force_at(board, feeds, wanted - made, now=now)
    available = made | {place for place, update in there.items() if update is not None}
    along = {}
    for day, assets in candidates.items():
        running = []
        elsewhere = {place for place in made if place[1] != day}
        for asset in assets:
            read = {(parent.feed, parent.partition) for parent in parents[day, asset.key] if not parent.context}
            if needed[day, asset.key] <= available and not read & elsewhere:
                available.add((asset.declaration.location, day))
                running.append(asset.key)
        along[day] = tuple(sorted(running))
    return along


def _summary(decisions: Sequence[SourceDecision], requests: Requests) -> str:
    kinds = Counter(each.decision.kind for each in decisions)
    seen = (
        ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(kinds.items())) or "no raw partitions"
    )
    notes = "".join(f"; {note}" for note in requests.decided[:3])
    again = f"; {requests.already} already requested for their present state" if requests.already else ""
    tried = sum(each.wanted and each.tried is not None for each in decisions)
    again += f"; {tried} already tried in their present state" if tried else ""
    return f"No run needed: {seen}{again}{notes}."


def _position(decision: SourceDecision) -> str:
    return f"{decision.source.kind}@{decision.day}"


def _repository(context: dg.SensorEvaluationContext) -> dg.RepositoryDefinition:
    if context.repository_def is None:
        message = (
            "late_growth needs the code location's definitions; evaluate it with `repository_def` or `definitions`."
        )
        raise dg.DagsterInvariantViolationError(message)
    return context.repository_def
