"""Finds days on which the sources of one kind sent nothing, for known reasons, while another kind has data.

An empty update for such a day lets feeds that read both kinds run. `sources.absence` says why a day may be empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.file_feed.control import recorded_digests
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.scanning import latest_of_all
from feed_assets.late_data.day_phases import Phase, phase
from feed_assets.late_data.inputs_read import inputs_read, was_decided_against
from feed_assets.sources.absence import absences
from feed_assets.sources.spec import Source


@dataclass(frozen=True, slots=True)
class EmptyDays:
    """The reason why each day is empty, by day; `gone` has a message for each day whose raw files were deleted."""

    reasons: Mapping[str, str]
    gone: tuple[str, ...] = ()


def empty_days(
    board: Blackboard,
    sources: Sequence[Source],
    declaration: FeedDeclaration,
    days: Collection[str],
    *,
    now: datetime,
) -> EmptyDays:
    """The watched days among `days` to publish as empty. None of `days` has raw data of these sources.

    `sources` are all sources of one kind; a day is empty if there is a reason for each. Costs two listings of the feed,
    and one of each source's ledger if a day has no update.
    """
    watched = sorted(
        day for day in days if any(phase(day, source, sources, now) is Phase.WATCHED for source in sources)
    )
    if not watched:
        return EmptyDays({})
    feed = declaration.on(board)
    in_force = latest_of_all(feed, now=now, only=watched)
    recorded = recorded_digests(feed, only=watched)
    missing = [
        date.fromisoformat(day)
        for day in watched
        if day not in in_force and not _was_tried(feed, day, recorded, sources)
    ]
    found = {source.key: absences(board, source, missing) for source in sources}
    empty = {
        str(day): "; ".join(
            f"{key} {day}: no records, and none are missing: {each.reasons[day]}" for key, each in found.items()
        )
        for day in missing
        if all(day in each.reasons for each in found.values())
    }
    gone: dict[date, str] = {}
    for key, each in found.items():
        for day, why in each.gone.items():
            gone.setdefault(day, f"{key} {day}: {why}")
    return EmptyDays(empty, tuple(why for _, why in sorted(gone.items())))


def _was_tried(feed: Feed, day: str, recorded: Mapping[str, Mapping[str, str]], sources: Sequence[Source]) -> bool:
    """Whether the newest update was rejected or invalidated, although it had data, or a reason for each source."""
    newest = max(recorded.get(day, ()), default=None)
    if newest is None or not was_decided_against(feed, day, newest):
        return False
    read = inputs_read(feed, day, newest)
    if read is None or any(each.count for each in read.raw(day).values()):
        return True
    return {source.key for source in sources} <= read.empty_sources
