"""Slots of flows whose inputs did not come in time: those that their triggers give up, due or not.

Here: looking for them. Whether one is due for a run does not matter: nothing is stale before its inputs are there. Not
here: the rule (`dependencies.gate`), and the record of what was given up (`starts.attempts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from feed_assets.datasets.days import midnight
from feed_assets.dependencies.gate.decision import Verdict, decide
from feed_assets.dependencies.gate.trigger import Then
from feed_assets.dependencies.service import Dependencies
from feed_assets.sensors.flows import Begun, Flows


@dataclass(frozen=True, slots=True)
class Overdue:
    """A partition of a flow to give up; `verdict.gives_up` says why."""

    feed: str
    partition: str
    verdict: Verdict


def overdue(
    flows: Flows,
    states: Dependencies,
    *,
    now: datetime,
    lookback_days: int,
    begun: Begun,
) -> Iterator[Overdue]:
    """The partitions in the lookback to give up, without those that have a result or are given up: a query a flow.

    Flows that start with what is there give nothing up.
    """
    lookback = timedelta(days=lookback_days)
    for feed, trigger in flows.triggers.items():
        if trigger.at_most is None or trigger.then is Then.RUN:
            continue
        partitions = flows.feeds.between(feed, midnight(now.date()) - lookback, now)
        open_ = {each for each in partitions if states.update_of(flows.slot(feed, each)) is None}
        for partition in sorted(open_ - begun.all_given_up(feed, open_)):
            case = flows.case(states, feed, partition, in_force=None, behind="", begun=begun)
            verdict = decide(case, trigger, now=now, lookback=lookback)
            if verdict.gives_up is not None:
                yield Overdue(feed, partition, verdict)
