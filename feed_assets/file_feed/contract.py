"""The schema contract of a feed version: what may change under its readers, and what may not.

Here: comparing two schemas. Not here: where a version's schema is kept (`schema`).
"""

from __future__ import annotations

from collections.abc import Sequence

from feed_assets.file_feed.errors import SchemaChangeError
from feed_assets.file_feed.record import Column


def check_contract(previous: Sequence[Column], new: Sequence[Column], *, feed: str) -> None:
    """Raise SchemaChangeError unless every column stays as it was and each added one is nullable."""
    before = {column.name: column for column in previous}
    after = {column.name: column for column in new}
    faults = [_fault(column, after.get(name)) for name, column in before.items()]
    faults += [
        f"{name} is new and never NULL, but older updates do not have it"
        for name, column in after.items()
        if name not in before and not column.nullable
    ]
    if found := [fault for fault in faults if fault]:
        raise SchemaChangeError(
            f"{feed}: {'; '.join(found)}. Readers of this version rely on its schema: "
            "publish under a new version, or make added columns nullable."
        )


def _fault(before: Column, after: Column | None) -> str | None:
    if after is None:
        return f"column {before.name} ({before.type}) is gone"
    if after.type != before.type:
        return f"column {before.name} was {before.type} and is {after.type}"
    if after.nullable and not before.nullable:
        return f"column {before.name} was never NULL and now may be"
    return None
