"""Account for published figures: records read, records left out, and rejected updates.

Here: adding up the records of updates, from storage alone. Not here: the figures themselves
(`ads.effectiveness_report`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from feed_assets.file_feed.control import records
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.record import FeedInput, Record

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


def account(feed: Feed, updates: Mapping[str, Update]) -> Accounting:
    """Add up the rows of the updates' inputs of the same day. List rejected and invalidated updates of all these feeds.

    `updates` are updates of `feed` by partition. Costs a LIST and a few GETs for each day and feed.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    unknown: list[str] = []
    setbacks: list[Setback] = []
    for day, update in sorted(updates.items()):
        partition = day or None  # "" stands for a feed without partitions
        own = records(feed, partition)
        setbacks += _setbacks(feed, day, own)
        record = next((each for each in own if each.update == update.name), None)
        for source in _inputs_of_the_day(record, partition):
            upstream = Feed(feed.blackboard, source.feed)
            known = records(upstream, partition)
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


def _inputs_of_the_day(record: Record | None, partition: str | None) -> list[FeedInput]:
    inputs = record.facts.inputs if record else ()
    return [each for each in inputs if isinstance(each, FeedInput) and each.partition == partition and each.update]


def _setbacks(feed: Feed, day: str, known: Sequence[Record]) -> list[Setback]:
    return [
        Setback(day, feed.location, record.update, record.state, record.history[-1].reason)
        for record in known
        if record.state in TURNED_AWAY
    ]
