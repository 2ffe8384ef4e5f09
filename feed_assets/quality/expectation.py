"""An expectation: what is counted of an update, and when that is good enough.

Here: the values that expectations are made of. Not here: any one rule (`column_rules`, `time_rules`, `row_rules`,
`ads`), running them (`steps.audit`), and Spark: SQL states what has to be counted, so that the expectations of an
asset share their passes over the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from feed_assets.datasets import FeedDeclaration
from feed_assets.file_feed import Column, Rows


@dataclass(frozen=True, slots=True)
class Subject:
    """An update under audit, as far as it is known without counting its rows.

    - partition: None where the feed has none; `window` its start and end, None where it stands for no time.
    - published: whether the update is in force already.
    - promised, found: the schema declared when it was written, and the one its files really have.
    - rows: what its record says; None without a record.
    - recent_rows: the row counts of the partitions before; where those have no time, of the updates before.
    - upstream_rows: the rows of the updates of its own partition that it was made from, by feed location. None is not
      known: the update is gone. A feed that had no update has 0 rows. The whole is None without a record.
    - inputs_seen: whether it was made from anything at all that was sent; None without a record.
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
    """Whether an expectation holds, the values that tell, and both in a sentence.

    `passed` is None where what it takes to tell is gone.
    """

    passed: bool | None
    observed: Mapping[str, Any]
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """Columns whose values have to be in another feed: in `columns` of its latest update, in the same order.

    That update is of the same partition where the feed is `partitioned`, else the feed's own.
    """

    columns: tuple[str, ...]
    feed: str
    to: tuple[str, ...]
    partitioned: bool


@dataclass(frozen=True, slots=True)
class Expectation:
    """One rule: `counts` names SQL aggregates over the update's rows, `judge` decides on their values.

    Those with `own_pass` are counted in a pass of their own: beside distinct values Spark carries every other counter
    once for each of them. With a `reference`, the values that the other feed lacks are counted too: `judge` gets their
    number as UNKNOWN_VALUES, None where that feed has no valid update.
    """

    name: str
    description: str
    judge: Callable[[Subject, Mapping[str, Any]], Judgement]
    counts: Mapping[str, str] = field(default_factory=dict)
    blocking: bool = True
    own_pass: bool = False
    reference: Reference | None = None

    @property
    def counted_names(self) -> tuple[str, ...]:
        """The names under which `judge` gets its values."""
        return (*self.counts, *([UNKNOWN_VALUES] if self.reference else []))


UNKNOWN_VALUES = "unknown_values"
NOT_KNOWN = "not known: no record tells"
WITHOUT_RECORD = Judgement(
    passed=None,
    observed={"row counts": NOT_KNOWN},
    sentence="The record of the update is gone, and with it its row counts.",
)
