"""What lies behind published figures: the records read for them, those left out, and the updates that were rejected.

Here: adding up the records of updates, from storage alone. Not here: the figures themselves (`effectiveness_report`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from feed_assets.file_feed import Feed, FeedInput, Record, Update, records

TURNED_AWAY = ("rejected", "invalidated")


@dataclass(frozen=True, slots=True)
class Setback:
    """An update that readers never saw (rejected), or see no more (invalidated)."""

    day: str
    feed: str
    update: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Accounting:
    """The records that were read for some updates: read = published + quarantined + duplicates.

    `reasons` counts quarantined records and duplicates by reason. `unknown` are inputs without a record.
    """

    read: int
    published: int
    quarantined: int
    duplicates: int
    reasons: Mapping[str, int]
    unknown: Sequence[str]
    setbacks: Sequence[Setback]


def account(feed: Feed, updates: Mapping[str, Update]) -> Accounting:
    """Add up the records of the updates' inputs of the same day, and list what was turned away there and in the feed.

    `updates` are updates of `feed` by partition. Reads the records of each day once: a LIST and a few GETs a feed.
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
        for read in _inputs_of_the_day(record, partition):
            upstream = Feed(feed.blackboard, read.feed)
            known = records(upstream, partition)
            setbacks += _setbacks(upstream, day, known)
            rows = next((each.facts.rows for each in known if each.update == read.update), None)
            if rows is None:
                unknown.append(f"{read.feed} {day}")
                continue
            counts.update(
                read=rows.read, published=rows.published, quarantined=rows.quarantined, duplicates=rows.duplicates
            )
            reasons.update({name.replace("_", " "): count for name, count in rows.reasons.items()})
    return Accounting(
        read=counts["read"],
        published=counts["published"],
        quarantined=counts["quarantined"],
        duplicates=counts["duplicates"],
        reasons=dict(reasons.most_common()),
        unknown=tuple(unknown),
        setbacks=tuple(setbacks),
    )


def _inputs_of_the_day(record: Record | None, partition: str | None) -> list[FeedInput]:
    inputs = record.facts.inputs if record else ()
    return [each for each in inputs if isinstance(each, FeedInput) and each.partition == partition and each.update]


def _setbacks(feed: Feed, day: str, known: Sequence[Record]) -> list[Setback]:
    return [
        Setback(day, feed.location, record.update, record.state, record.history[-1].reason)
        for record in known
        if record.state in TURNED_AWAY
    ]
