"""An expectation: the counts it needs of an update, and the rule that judges them.

SQL states the counts, so that the expectations of an asset share their passes over the data. Not here: any one rule
(`column_rules`, `time_rules`, `row_rules`), running them (`steps.audit`), and Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.file_feed.record import Column, Rows


@dataclass(frozen=True, slots=True)
class Subject:
    """An update under audit: all facts that need no counting of its rows.

    - partition: None if the feed has none. `window` is its start and end, None if it stands for no time.
    - published: whether the update is in force already.
    - promised, found: the schema declared when it was written, and the one its files really have.
    - rows: the counts in its record; None without a record.
    - recent_rows: the row counts of the partitions before; of the updates before if partitions stand for no time.
    - upstream_rows: feed location -> rows of the input update of the same partition. 0 if the feed had no update, None
      if the update is gone. Without a record, the mapping itself is None.
    - inputs_seen: whether it was computed from any input at all; None without a record.
    """

    declaration: FeedDeclaration
    partition: str | None
    window: tuple[datetime, datetime] | None
    published: bool
    promised: tuple[Column, ...]
    found: tuple[Column, ...]
    rows: Rows | None
    recent_rows: tuple[int, ...]
    upstream_rows: Mapping[str, int | None] | None
    inputs_seen: bool | None
    quarantined_share_limit: float
    usual_rows_factor: float
    now: datetime


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an expectation holds, the values that decide it, and both in a sentence.

    `passed` is None if the facts to decide it are gone.
    """

    passed: bool | None
    observed: Mapping[str, Any]
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns whose values must occur in another feed: in `columns` of its latest update, in the same order.

    If the feed is `partitioned`, the update belongs to the same partition.
    """

    columns: tuple[str, ...]
    feed: str
    to: tuple[str, ...]
    partitioned: bool


@dataclass(frozen=True, slots=True)
class Expectation:
    """One rule: `counts` are named SQL aggregates over the update's rows, and `judge` decides on their values.

    With an `identity`, `judge` also gets the number of rows as ROWS, and the number of distinct identities as
    IDENTITIES; a row with NULL in one of the identity's columns has none. With a `reference`, it also gets
    UNKNOWN_VALUES, the number of values that the other feed lacks; None if that feed has no valid update.
    """

    name: str
    description: str
    judge: Callable[[Subject, Mapping[str, Any]], Judgement]
    counts: Mapping[str, str] = field(default_factory=dict)
    blocking: bool = True
    identity: tuple[str, ...] = ()
    reference: Reference | None = None

    @property
    def counted_names(self) -> tuple[str, ...]:
        """The names of the values that `judge` gets."""
        identities = (ROWS, IDENTITIES) if self.identity else ()
        return (*self.counts, *identities, *([UNKNOWN_VALUES] if self.reference else []))


ROWS, IDENTITIES = "rows", "identities"
UNKNOWN_VALUES = "unknown_values"
NOT_KNOWN = "not known: no record"
WITHOUT_RECORD = Judgement(
    passed=None,
    observed={"row counts": NOT_KNOWN},
    sentence="The record of the update, with its row counts, is gone.",
)
