"""The inputs and the run time of each processed day of a source, by the records of the updates in force.

Not here: thresholds that follow from them (`sources.thresholds`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.scanning import latest_of_each
from feed_assets.late_data.inputs_read import inputs_read
from feed_assets.sources.thresholds import Processed

HISTORY = timedelta(days=30)
"""How far back an average goes."""


def processing_history(feed: Feed, source: str, *, now: datetime) -> dict[str, Processed]:
    """The days of the last HISTORY whose update in force read data of this source.

    Costs one LIST of the feed, and a LIST and a GET for each update, once in a process.
    """
    found = {}
    for day, update in latest_of_each(feed, now=now, first=str((now - HISTORY).date()), last=str(now.date())):
        known = inputs_read(feed, day, update.name)
        read = known.raw(day).get(source) if known else None
        if known is not None and read is not None and read.count:
            found[day] = Processed(read.bytes, known.seconds)
    return found
