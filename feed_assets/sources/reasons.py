"""Why landing puts a record into quarantine. Not here: the decision (see `placing`)."""

from __future__ import annotations

from typing import Final

from feed_assets.engine.sql import columns_in
from feed_assets.sources.kinds import EVENT_TIME
from feed_assets.sources.spec import Source

MALFORMED: Final = "malformed record"
NO_TIME: Final = "no usable time"
FUTURE: Final = "event_time in the future"
UNFILTERED: Final = "filter raised an error"
REASONS: Final = (MALFORMED, NO_TIME, FUTURE, UNFILTERED)
"""Why a record belongs to no hour: it does not parse as declared, has no usable time, or a time in the future; or the
filter cannot be evaluated, so that nobody knows whether the record belongs to the source."""


def with_columns(reason: str, source: Source) -> str:
    """The reason, with the partner's columns of which the time is made: `no usable time (column time)`."""
    columns = columns_in(source.columns[EVENT_TIME], source.format.declared) if reason in {NO_TIME, FUTURE} else []
    return f"{reason} (column {' or '.join(columns)})" if columns else reason
