"""The sensor for raw data that no other sensor processes: it tells people, and processes some days if a source says so.

Here: the cursor, the time limit, the news, and run requests. Not here: which days these are
(`late_data.outside_lookback`), and days in the lookback (`late_growth`).
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import groupby
from typing import Any, Final

import dagster as dg

from feed_assets.assets.external import raw_key
from feed_assets.feed_events.triggers import has_trigger
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.wording import counted
from feed_assets.late_data.late_days import LateDays
from feed_assets.late_data.outside_lookback import FIRST, Waiting, all_days, backfills, cleaned_nodes, waiting
from feed_assets.late_data.raw_growth import SourceDecision
from feed_assets.notices.messages import Notice
from feed_assets.notices.outside_lookback import WaitingDay, outside_notice, topic_of
from feed_assets.notices.tables import end_facts
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.telling import News, channels_of, tell
from feed_assets.sensors.ticks import TICK_SECONDS, HandOver, load_cursor, requests_of_tick, run_all, run_requests
from feed_assets.sources.known_contents import Comparing, StillComparingError
from feed_assets.sources.spec import Source
from feed_assets.starts.graph import FeedNode
from feed_assets.starts.requests import Requests

NAME: Final = "outside_lookback"
LOOK_SECONDS: Final = 600
"""How often all days are looked at, at most: that lists the raw data of all time."""
PAUSE: Final = timedelta(hours=1)
"""The least time between two notices on a source: a backlog of many files lands over hours."""


def outside_lookback(
    sources: Sequence[Source],
    clean_assets: Mapping[str, dg.AssetKey],
    *,
    channels: frozenset[str],
    interval_seconds: int,
    run_config: Mapping[str, Any],
    hand_over: HandOver = run_all,
) -> dg.SensorDefinition:
    """Looks at every day of every source. `clean_assets` maps each kind of source to the asset made from it.

    `channels` are the resources `mail` and `notifier` of the code location, as far as it has them.
    """

    @dg.sensor(
        name=NAME,
        asset_selection=dg.AssetSelection.assets(*clean_assets.values()).downstream(),
        minimum_interval_seconds=max(interval_seconds, LOOK_SECONDS),
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={"blackboard", "state", "clock", *channels},
        description=(
            "Tells people once of raw data that no sensor processes, as its day is outside the source's lookback or "
            "before the first partition. Runs such days if the source has `process_any_day`, the newest first."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        resources: Any = context.resources
        feeds = AssetFeedGraph.of(context.repository_def)
        board, store, now = resources.blackboard.blackboard, resources.state.store, resources.clock.now()
        requests = requests_of_tick(context.instance, store, board, feeds, now)
        watched = {kind: feeds.locations[key] for kind, key in clean_assets.items()}
        look = _Look(sources, requests, time.monotonic() + TICK_SECONDS)
        resume = look.go(load_cursor(context.cursor).get("resume"))
        free = {kind: feed for kind, feed in watched.items() if not has_trigger(feeds.metadata(feed))}
        by_itself = {source.key for source in sources if source.process_any_day and source.kind in free}
        late = LateDays(sources, free, requests, joins=lambda feed, *_: not has_trigger(feeds.metadata(feed)))
        _plan(late, look)
        asked = requests.put_on_record()
        runs = hand_over(context, run_requests(NAME, feeds, asked, run_config))
        news = [_news(source, days, by_itself=source.key in by_itself) for source, days in look.of_sources()]
        said = tell(store, board.uri(""), news, channels_of(resources, channels, news), now=now)
        if look.is_whole and resume is None:
            for source in sources:
                topic = topic_of(source.key)
                end_facts(
                    store, board.uri(""), topic, {f"{topic}{each.day}" for each in look.found.get(source.key, ())}
                )
        for line in [*look.problems, *said, *requests.decided]:
            context.log.info(line)
        found = sum(map(len, look.found.values()))
        waits = f"No sensor processes the data of {counted(found, 'day')} of a source." if found else "No day waits."
        return dg.SensorResult(
            run_requests=runs,
            skip_reason=None if runs else " ".join([waits, *said[:3]]),
            cursor=json.dumps({"resume": resume} if resume else {}),
        )

    return sensor


@dataclass(slots=True)
class _Look:
    """What a tick finds, as far as its time goes. `decided` has all decisions on days that wait, by kind."""

    sources: Sequence[Source]
    requests: Requests
    deadline: float
    found: dict[str, list[Waiting]] = field(default_factory=lambda: defaultdict(list))
    decided: dict[str, list[SourceDecision]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)
    is_whole: bool = True
    """Whether no day was left out at the beginning, and no feed."""

    def go(self, resume: object) -> list[str] | None:
        """Look at the feeds and days from `resume` on: a feed and a day. Returns where the next tick goes on."""
        graph, now = self.requests.graph, self.requests.now
        nodes = {node.location: node for node in cleaned_nodes(graph, now)}
        feed, start = resume if isinstance(resume, list) and len(resume) == 2 and resume[0] in nodes else ("", "")  # noqa: PLR2004 - a pair
        self.is_whole = not feed
        for location in sorted(nodes):
            if location < feed:
                continue
            try:
                stopped = self._of_feed(nodes[location], start if location == feed else "")
            except StillComparingError as error:
                return [location, str(error)]
            except FeedError as error:
                self.problems.append(f"{nodes[location].name} cannot be read: {error}")
                self.is_whole = False
                continue
            if stopped:
                return [location, stopped]
        return None

    def of_sources(self) -> Iterator[tuple[Source, list[Waiting]]]:
        """The days of each source that has any."""
        by_key = {source.key: source for source in self.sources}
        return ((by_key[key], days) for key, days in sorted(self.found.items()))

    def _of_feed(self, node: FeedNode, start: str) -> str:
        """Look at a feed's days. Returns the first day that was left out; "" if none was."""
        days = (FIRST, self.requests.now.date())
        comparing = Comparing()
        comparing.until = self.deadline
        decisions = all_days(
            self.requests.board, node, self.sources, days, now=self.requests.now, start_at=start, comparing=comparing
        )
        for number, (day, of_day) in enumerate(groupby(decisions, key=lambda each: each.day)):
            if number and time.monotonic() > self.deadline:
                return str(day)
            of_all = list(of_day)
            waits = [found for each in of_all if (found := waiting(self.requests.graph, node, each))]
            for each in waits:
                self.found[each.source.key].append(each)
            if any(each.is_partition for each in waits):
                self.decided[of_all[0].source.kind] += of_all
        return ""


def _plan(late: LateDays, look: _Look) -> None:
    """Plan runs of days of the sources that say so, the newest first, as many as may be under way at a time."""
    sources, feeds = late.sources, late.feeds
    alive = {(each.flow, each.slot) for each in late.requests.attempts.alive()}
    for kind, decisions in look.decided.items():
        if kind not in feeds:
            continue
        most = max((source.process_any_day for source in sources if source.kind == kind), default=0)
        by_day = {day: list(each) for day, each in groupby(decisions, key=lambda each: each.day)}
        under_way = {day for day in by_day if (feeds[kind], day) in alive}
        for day in sorted(by_day.keys() - under_way, reverse=True)[: max(0, most - len(under_way))]:
            asked = [replace(each, any_day=each.by_hand and bool(each.source.process_any_day)) for each in by_day[day]]
            late.plan(asked)


def _news(source: Source, days: Sequence[Waiting], *, by_itself: bool) -> News:
    topic = topic_of(source.key)
    by_name = {f"{topic}{each.day}": each for each in days}

    def notice(new: Iterable[str]) -> Notice:
        told = [by_name[name] for name in sorted(new)]
        commands = backfills({date.fromisoformat(each.day) for each in told if each.is_partition})
        rows = [
            WaitingDay(each.day, each.records, each.bytes, commands.get(date.fromisoformat(each.day))) for each in told
        ]
        return outside_notice(
            source.key,
            source.lookback_days,
            rows,
            recipients=source.recipients,
            by_itself=source.process_any_day if by_itself else 0,
        )

    facts = {name: each.state for name, each in by_name.items()}
    asset = raw_key(source).to_user_string()
    return News(topic, facts, (asset,), notice, pause=PAUSE, recipients=source.recipients)
