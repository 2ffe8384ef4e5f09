"""Account for published figures: records read, records left out, and rejected updates.

Here: adding up the records of updates, from storage alone. Not here: the figures (`effectiveness_report`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import feed_assets as fa

COUNTS = ("read", "published", "quarantined", "duplicates")
TURNED_AWAY = ("rejected", "invalidated")


@dataclass(frozen=True, slots=True)
class Setback:
    """An update that readers never saw (rejected) or no longer see (invalidated)."""

    day: str
    feed: str
    update: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Accounting:
    """The rows read for some updates: read = published + quarantined + duplicates.

    `reasons` counts quarantined rows and duplicates by reason. `unknown` names inputs without a record.
    """

    read: int
    published: int
    quarantined: int
    duplicates: int
    reasons: Mapping[str, int]
    unknown: Sequence[str]
    setbacks: Sequence[Setback]


def account(feed: fa.Feed, updates: Mapping[str, fa.Update]) -> Accounting:
    """Add up the rows of the updates' inputs of the same day. List rejected and invalidated updates of all these feeds.

    `updates` are updates of `feed` by partition. Costs a LIST and a few GETs for each day and feed.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    unknown: list[str] = []
    setbacks: list[Setback] = []
    for day, update in sorted(updates.items()):
        partition = day or None  # "" stands for a feed without partitions
        own = fa.file_feed.records(feed, partition)
        setbacks += _setbacks(feed, day, own)
        record = next((each for each in own if each.update == update.name), None)
        for source in _inputs_of_the_day(record, partition):
            upstream = fa.Feed(feed.blackboard, source.feed)
            known = fa.file_feed.records(upstream, partition)
            setbacks += _setbacks(upstream, day, known)
            rows = next((each.facts.rows for each in known if each.update == source.update), None)
            if rows is None:
                unknown.append(f"{source.feed} {day}")
                continue
            counts.update({name: getattr(rows, name) for name in COUNTS})
            reasons.update({name.replace("_", " "): count for name, count in rows.reasons.items()})
    read, published, quarantined, duplicates = (counts[name] for name in COUNTS)
    by_reason = dict(reasons.most_common())
    return Accounting(read, published, quarantined, duplicates, by_reason, tuple(unknown), tuple(setbacks))


def _inputs_of_the_day(record: fa.file_feed.Record | None, partition: str | None) -> list[fa.file_feed.FeedInput]:
    inputs = record.facts.inputs if record else ()
    return [
        each
        for each in inputs
        if isinstance(each, fa.file_feed.FeedInput) and each.partition == partition and each.update
    ]


def _setbacks(feed: fa.Feed, day: str, known: Sequence[fa.file_feed.Record]) -> list[Setback]:
    return [
        Setback(day, feed.location, record.update, record.state, record.history[-1].reason)
        for record in known
        if record.state in TURNED_AWAY
    ]
