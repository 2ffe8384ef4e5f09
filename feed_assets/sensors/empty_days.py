"""Days on which one kind of source sent nothing, and said so, while another kind has data.

Here: finding them, so that an empty update is published and what reads both kinds can be made. Not here: days with raw
files (`growth`), and why an empty day is legal (`sources.absence`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from feed_assets.blackboard import Blackboard
from feed_assets.file_feed import Feed, latest_of_all, recorded_digests
from feed_assets.io_manager import FeedDeclaration
from feed_assets.sensors.growth import Phase, phase
from feed_assets.sensors.made_from import was_decided_against
from feed_assets.sources import Source, reasons_for_nothing


@dataclass(frozen=True, slots=True)
class EmptyDay:
    """A day without raw data of a kind, and the sentence that says why none is missing."""

    day: str
    reason: str


def empty_days(
    board: Blackboard,
    sources: Sequence[Source],
    declaration: FeedDeclaration,
    days: Collection[str],
    *,
    now: datetime,
) -> Iterator[EmptyDay]:
    """The watched days among `days`, none of which has raw data of these sources, that are to be published as empty.

    `sources` are all of one kind. Two listings of the feed, and where a day has no update, one of each source's ledger.
    """
    watched = sorted(
        day for day in days if any(phase(day, source, sources, now) is Phase.WATCHED for source in sources)
    )
    if not watched:
        return
    feed = declaration.on(board)
    in_force = latest_of_all(feed, now=now, first=watched[0], last=watched[-1])
    recorded = recorded_digests(feed, first=watched[0], last=watched[-1])
    missing = [day for day in watched if day not in in_force and not _was_tried(feed, day, recorded)]
    left = {date.fromisoformat(day) for day in missing}
    for source in sources:
        reasons = reasons_for_nothing(board, source, left)
        left -= reasons.keys()
        for day, why in sorted(reasons.items()):
            yield EmptyDay(str(day), f"{source.key} {day}: no records, and none are missing: {why}")


def _was_tried(feed: Feed, day: str, recorded: Mapping[str, Mapping[str, str]]) -> bool:
    newest = max(recorded.get(day, ()), default=None)
    return newest is not None and was_decided_against(feed, day, newest)
