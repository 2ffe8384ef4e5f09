"""What the record of an update says of its rows, as facts about its slot. Not here: taking it (`engine.profiling`)."""

from __future__ import annotations

from typing import Any

from feed_assets.dependencies.quality.marks import ColumnProfile, Profile
from feed_assets.file_feed.record import Record
from feed_assets.steps.writing import DIGEST, PROFILE


def content_of(record: Record) -> tuple[str, Profile | None]:
    """The digest of the rows, "" if it is unknown, and their profile.

    Without a profile in the record, it has the number of rows alone; None if that is unknown, too.
    """
    details, rows = record.facts.details, record.facts.rows
    digest, profile = details.get(DIGEST), _profile(details.get(PROFILE))
    if profile is None and rows is not None:
        profile = Profile(rows.published)
    return digest if isinstance(digest, str) else "", profile


def _profile(plain: Any) -> Profile | None:
    if not isinstance(plain, dict):
        return None
    try:
        times = set(plain["times"])
        columns = {
            name: ColumnProfile(nulls, distinct, smallest, largest, name in times)
            for name, (nulls, distinct, smallest, largest) in plain["columns"].items()
        }
        return Profile(plain["rows"], columns)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # another program, or a newer version, wrote it
