"""The sensor for deliveries: it delivers each partition that is due, and checks deliveries again that have settled.

Here: finding them in the ledgers, and run requests. Not here: delivering (`assets.deliveries`), and what is due
(`delivery.standings`). The ledgers and the feeds decide, so a lost cursor or state database loses no delivery. A tick
looks at a destination after each event on its feed or its delivery, while something of it is due or has not settled,
and every `scan_seconds`: only then it lists the feed and the ledger.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import dagster as dg

from feed_assets.assets.deliveries import NOTHING, deliverer_of, delivery_metadata
from feed_assets.checks.deliveries import names_of
from feed_assets.delivery.audit import account
from feed_assets.delivery.delivering import Deliverer
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.standings import Standing, standings
from feed_assets.delivery.turn import is_taken
from feed_assets.errors import FeedAssetsError
from feed_assets.feed_events.declarations import DELIVERS, DESTINATION, plain
from feed_assets.feed_events.metadata import DATA_VERSION_TAG
from feed_assets.file_feed.digest import short_digest
from feed_assets.late_data.turns import Turns
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ticks import (
    MAX_EVENTS,
    TICK_SECONDS,
    WHY_TAG,
    known_versions,
    last_events,
    load_cursor,
    requests_of_tick,
    run_requests,
)
from feed_assets.starts.requests import Need, Requests, state_of

NAME: Final = "deliveries"
MOST_TRIES: Final = 8
"""How often a delivery is tried while nothing changes: pauses double, so for a day and a half."""
MOST_CHECKS: Final = 20
"""Runs of checks that a tick requests."""


def deliveries(
    destinations: Mapping[str, Destination],
    folder: Path,
    *,
    interval_seconds: int,
    scan_seconds: int,
    run_config: Mapping[str, Any],
) -> dg.SensorDefinition:
    """Requests a run, with `run_config`, for each partition to deliver. `folder` is that of this machine."""

    @dg.sensor(
        name=NAME,
        asset_selection=dg.AssetSelection.all(),
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Delivers a partition when another update is in force: a newer one, or after an invalidation the one "
            "before, or none; and resumes what was not finished. Runs the checks of a delivery again when it has "
            "settled, or is overdue. Reports deliveries by `feed-assets deliver`."
        ),
    )
    def sensor(
        context: dg.SensorEvaluationContext, blackboard: BlackboardResource, state: StateResource, clock: Clock
    ) -> dg.SensorResult:
        feeds = AssetFeedGraph.of(context.repository_def)
        below = feeds.below(DELIVERS)
        cursor = load_cursor(context.cursor)
        now = clock.now()
        seen = {name: _Seen.of(each) for name, each in _mapping(cursor.get("seen")).items()}
        events = {name: _events(context.instance, feeds, below, name) for name in below.feeds}
        wanted = [each for each in below.feeds if _is_wanted(seen.get(each), events[each], now, scan_seconds)]
        if not wanted:
            return dg.SensorResult(skip_reason="Nothing has changed since the last look.", cursor=context.cursor)
        requests = requests_of_tick(context.instance, state.store, blackboard.blackboard, below, now)
        look = _Look(context, below, requests)
        deadline = time.monotonic() + TICK_SECONDS
        turns = Turns(wanted, cursor.get("resume"), lambda: look.full or time.monotonic() > deadline)
        for name in turns:
            to = destinations[str(plain(below.metadata(name)[DESTINATION]))]
            deliverer = deliverer_of(to, blackboard, state, clock.now, folder)
            before = seen.get(name, _Seen())
            try:
                seen[name] = look.at(name, deliverer, before, events[name], now)
            except FeedAssetsError as error:
                context.log.warning(f"{name} is not looked at: {error}")
                seen[name] = _Seen(waiting=before.waiting)
        runs = run_requests(NAME, below, requests.put_on_record(), run_config)
        for note in requests.decided:
            context.log.info(note)
        after = {"seen": {name: each.shown() for name, each in seen.items() if name in below.feeds}}
        reported = f" Delivered outside Dagster: {len(look.events)}." if look.events else ""
        reason = f"No run is needed.{reported} {'; '.join(requests.decided[:3])}"
        return dg.SensorResult(
            run_requests=[*runs, *(_checks(each, run_config) for each in look.checks)],
            asset_events=look.events,
            skip_reason=None if runs or look.checks else reason.rstrip(),
            cursor=json.dumps({**after, **({"resume": turns.resume} if turns.resume else {})}),
        )

    return sensor


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the last look at a delivery left.

    `events` was Dagster's last event on it and its feed, `at` the time (""; look again). `waiting` are the editions,
    by partition, that had not settled.
    """

    events: str = ""
    at: str = ""
    waiting: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, shown: object) -> _Seen:
        found = _mapping(shown)
        return cls(str(found.get("events", "")), str(found.get("at", "")), _mapping(found.get("waiting")))

    def shown(self) -> dict[str, object]:
        return {"events": self.events, "at": self.at, "waiting": dict(self.waiting)}


@dataclass(frozen=True, slots=True)
class _Settled:
    """A delivery whose checks are to run again, because its state is another one now."""

    key: dg.AssetKey
    partition: str
    edition: int
    state: str
    names: tuple[str, ...]


@dataclass(slots=True)
class _Look:
    """What a tick finds at one destination after the other."""

    context: dg.SensorEvaluationContext
    below: AssetFeedGraph
    requests: Requests
    events: list[dg.AssetMaterialization] = field(default_factory=list)
    checks: list[_Settled] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether the rest is for the next tick."""
        return self.requests.full or len(self.events) >= MAX_EVENTS or len(self.checks) >= MOST_CHECKS

    def at(self, name: str, deliverer: Deliverer, before: _Seen, events: str, now: datetime) -> _Seen:
        """Plan what is due at a destination, and report what was delivered outside Dagster."""
        found = [each for each in standings(deliverer, now=now) if self._has(name, each.partition)]
        reported = self._report(name, deliverer, found)
        is_quiet = self._request(name, deliverer, [each for each in found if each.is_due])
        waiting, are_overdue = self._await(name, deliverer, found, {**before.waiting, **reported}, now)
        is_quiet = is_quiet and are_overdue and not self.full
        return _Seen(events, now.isoformat() if is_quiet else "", waiting)

    def _has(self, name: str, partition: str | None) -> bool:
        if not self.below.feeds[name].partitioned:
            return partition is None
        return partition is not None and self.below.has(name, partition)

    def _request(self, name: str, deliverer: Deliverer, due: list[Standing]) -> bool:
        """Plan runs for what is due; returns whether nothing is."""
        stream = deliverer.to.stream_address
        if due and not self._is_busy_here(stream) and is_taken(stream, self.requests.store):
            self.requests.notes.append(f"{name}: {stream} takes a delivery of a command, a later tick decides")
            return False
        for each in due:
            partition = each.partition or ""
            last = f"{each.begun.edition}-{each.ended.outcome if each.ended else 'open'}" if each.begun else None
            state = state_of(last, each.in_force or NOTHING)
            if name in self.requests.busy.get(partition, ()):
                continue
            if wanted := self.requests.not_yet_requested(partition, {name: state}):
                (above,) = self.below.feeds[name].upstream
                why = f"{above} is {each.in_force or NOTHING} now, the delivery is {each.state}"
                self.requests.add(Need(partition, wanted, why, most=MOST_TRIES))
        return not due

    def _is_busy_here(self, stream: str) -> bool:
        """Whether runs of Dagster deliver to the stream: then others may queue behind them."""
        pools = {
            name: self.below.graph.get(self.below.keys[name]).assets_def.op.pool
            for names in self.requests.busy.values()
            for name in names
        }
        return stream in pools.values()

    def _report(self, name: str, deliverer: Deliverer, found: list[Standing]) -> dict[str, int]:
        """Report deliveries that Dagster does not show; returns their editions."""
        key, partitioned = self.below.keys[name], self.below.feeds[name].partitioned
        shown = known_versions(self.context.instance, key, partitioned=partitioned)
        reported = {}
        for each in found:
            partition, begun, ended = each.partition or "", each.begun, each.ended
            if begun is None or ended is None or ended.outcome != "delivered":
                continue
            busy = name in self.requests.busy.get(partition, ())
            if busy or shown.get(partition, "") == (begun.update or "") or len(self.events) >= MAX_EVENTS:
                continue
            reported[partition] = begun.edition
            self.events.append(
                dg.AssetMaterialization(
                    key,
                    partition=each.partition,
                    description="Delivered outside Dagster.",
                    metadata=delivery_metadata(deliverer.to, begun, ended),
                    tags={DATA_VERSION_TAG: begun.update or NOTHING},
                )
            )
        return reported

    def _await(
        self, name: str, deliverer: Deliverer, found: list[Standing], before: Mapping[str, int], now: datetime
    ) -> tuple[dict[str, int], bool]:
        """The deliveries that have not settled, by partition, and whether all of them are overdue.

        Requests checks of those that have settled since, or are overdue.
        """
        if deliverer.to.who_settles == "none":
            return {}, True
        summarized = deliverer.ledger.summarized()
        waiting, all_overdue = {}, True
        for each in found:
            edition, partition = each.edition, each.partition or ""
            if edition is None or each.ended is None or each.ended.outcome != "delivered":
                continue
            number = edition.number
            if (each.partition, number) in summarized and before.get(partition) != number:
                continue
            state = account(deliverer.ledger, deliverer.to, edition, now=now).state
            if state in {"settled", "overdue"}:
                if len(self.checks) >= MOST_CHECKS:
                    waiting[partition], all_overdue = number, False
                    continue
                names = names_of(deliverer.to)[1:]
                self.checks.append(_Settled(self.below.keys[name], partition, number, state, names))
            if state != "settled":
                waiting[partition] = number
                all_overdue = all_overdue and state == "overdue"
        return waiting, all_overdue


def _is_wanted(seen: _Seen | None, events: str, now: datetime, scan_seconds: int) -> bool:
    """Whether to look at a delivery in this tick."""
    if seen is None or not seen.at or seen.events != events:
        return True
    return now - datetime.fromisoformat(seen.at) >= timedelta(seconds=scan_seconds)


def _events(instance: dg.DagsterInstance, feeds: AssetFeedGraph, below: AssetFeedGraph, name: str) -> str:
    """16 hex digits that change with each event on a delivery or its feed."""
    keys = [below.keys[name], *(feeds.keys[each] for each in below.feeds[name].upstream)]
    last = last_events(instance, keys)
    return short_digest(json.dumps([last.get(key) for key in keys]))


def _checks(each: _Settled, run_config: Mapping[str, Any]) -> dg.RunRequest:
    """A run of the checks of a delivery; Dagster starts one for each state of an edition."""
    return dg.RunRequest(
        run_key=f"{NAME}:{each.key.to_user_string()}:{each.partition}:{each.edition}:{each.state}",
        run_config=dict(run_config),
        partition_key=each.partition or None,
        asset_selection=[],
        asset_check_keys=[dg.AssetCheckKey(each.key, name) for name in each.names],
        tags={WHY_TAG: f"edition {each.edition} is {each.state}"},
    )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
