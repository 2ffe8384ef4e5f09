"""Where the records of a pushed request are: the JSON of `feed-assets receive request`, and of the page of sources.

Here: the answer. Not here: following a request (`operations.pushed_requests`), and who may ask (`source_operations`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec


class ReaderSays(msgspec.Struct, frozen=True):
    """A feed that reads raw data, and its update in force that has read it; null if none has."""

    feed: str
    partition: str
    update: str | None


class RawSays(msgspec.Struct, frozen=True):
    """Records in a raw file, with the feeds that read it. `resubmitted` records were corrected first."""

    day: str
    key: str
    records: int
    resubmitted: bool
    readers: list[ReaderSays]


class BadSays(msgspec.Struct, frozen=True):
    """A record in quarantine: its index in the request, from 0, and whether a correction of it was `resubmitted`.

    `where` is the feed in whose quarantine of `partition` it is, or `landing/<source>`.
    """

    index: int | None
    reason: str
    where: str
    partition: str | None
    resubmitted: bool


class RequestSays(msgspec.Struct, frozen=True):
    """A request, `waiting` in a journal or `landed`, and where its records are.

    `rejected` counts those that its answer rejected. `left_out` were left out by the filter of the source. `problems`
    has what could not be read.
    """

    request_id: str
    state: Literal["waiting", "landed"]
    partner: str
    source: str
    received: datetime
    accepted: int
    rejected: int
    landed: datetime | None = None
    file: str | None = None
    first_line: int | None = None
    left_out: int = 0
    raw: list[RawSays] = msgspec.field(default_factory=list)
    quarantined: list[BadSays] = msgspec.field(default_factory=list)
    problems: list[str] = msgspec.field(default_factory=list)
