"""What the record of an update says of its rows, as facts about its slot. Not here: taking it (`engine.profiling`)."""

from __future__ import annotations

from typing import Any

from feed_assets.dependencies.marks import ColumnProfile, Profile
from feed_assets.file_feed.record import Record
from feed_assets.steps.writing import DIGEST, PROFILE


def content_of(record: Record) -> tuple[str, Profile | None]:
    """The digest of the rows, "" if it is unknown, and their profile, None if there is none."""
    digest, profile = record.facts.details.get(DIGEST), record.facts.details.get(PROFILE)
    return digest if isinstance(digest, str) else "", _profile(profile)


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
