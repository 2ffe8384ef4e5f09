"""What became of the records that partners sent: counts of each source, and how long records wait.

Here: adding up the counts of all receivers of a base. Not here: the counts themselves (`tallies`, `tables`), and who
may see them (`server`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec

from feed_assets.file_feed.wording import counted
from feed_assets.receiving.tables import Received, received
from feed_assets.receiving.tallies import Key, Tally
from feed_assets.state.store import Store

HOURS: Final = 24
"""The window in which records that cannot be used are counted for people."""
UNUSABLE_SHARE: Final = 0.05
"""More than this share of the records of a partner is told."""
FEWEST_UNUSABLE: Final = 20
"""Fewer records are not told: a partner tries its client with some."""
REASONS: Final = 3
"""Reasons in a sentence: those with the most records."""


class SourceStatus(msgspec.Struct, frozen=True):
    """The records of a source since the beginning of the window.

    `accepted` and `rejected` are those of the answers. Of the accepted records, `waiting` have not landed yet, and
    `quarantined` could not be used when they landed. `lag_seconds` is the age of the oldest request that waits.
    """

    source: str
    partner: str
    requests: int
    accepted: int
    rejected: int
    rejected_by_reason: dict[str, int]
    quarantined: int
    quarantined_by_reason: dict[str, int]
    waiting: int
    last_request: datetime | None
    last_landed: datetime | None
    lag_seconds: float

    @property
    def sent(self) -> int:
        """The records in all requests."""
        return self.accepted + self.rejected

    @property
    def unusable(self) -> int:
        """The records that were refused, or that could not be used when they landed."""
        return self.rejected + self.quarantined

    @property
    def has_many_unusable(self) -> bool:
        """Whether so many records are unusable that something is wrong at the partner."""
        return self.unusable >= FEWEST_UNUSABLE and self.unusable > UNUSABLE_SHARE * self.sent

    def sentence(self) -> str:
        """What was sent in HOURS, for people."""
        who = f"{self.partner} has sent" if self.partner else "Sent without a token were"
        waits = f", {self.waiting:,} wait to land" if self.waiting else ""
        if not self.unusable:
            return f"{who} {counted(self.sent, 'record')} in {HOURS} hours{waits}."
        reasons = (Counter(self.rejected_by_reason) + Counter(self.quarantined_by_reason)).most_common()
        more = f"; and {counted(len(reasons) - REASONS, 'reason')} more" if len(reasons) > REASONS else ""
        named = "; ".join(f"{reason} ({number:,})" for reason, number in reasons[:REASONS])
        return (
            f"{who} {counted(self.sent, 'record')} in {HOURS} hours{waits}; {self.unusable:,} cannot be "
            f"used: {named}{more}."
        )


class Status(msgspec.Struct, frozen=True):
    """What the token may see: its own records, of each of its sources."""

    since: datetime
    now: datetime
    sources: list[SourceStatus]


@dataclass(slots=True)
class _Sum:
    tally: Tally = field(default_factory=Tally)
    quarantined: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    last_landed: datetime | None = None
    oldest: datetime | None = None

    def add(self, each: Received, since: datetime) -> None:
        """Add the counts of a segment."""
        if each.landed is None:
            self.waiting += each.tally.accepted
            if each.tally.accepted or each.tally.rejected:
                self.oldest = min(self.oldest or each.tally.first, each.tally.first)
        else:
            self.last_landed = max(self.last_landed or each.landed, each.landed)
        if each.tally.last >= since:
            self.tally.requests += each.tally.requests
            self.tally.accepted += each.tally.accepted
            self.tally.rejected += each.tally.rejected
            self.tally.last = max(self.tally.last, each.tally.last)
            self.quarantined.update(each.quarantined)


def status_of(
    recorded: Collection[Received],
    held: Mapping[str, Mapping[Key, Tally]],
    wanted: Iterable[Key],
    *,
    since: datetime,
    now: datetime,
) -> Status:
    """The status of these partners and sources, also of those that sent nothing.

    `recorded` are the counts that the store has; `held` those that this receiver holds. Both may have a segment.
    """
    sums = {key: _Sum() for key in wanted}
    for each in (*recorded, *_others(held, {each.segment for each in recorded})):
        if (found := sums.get((each.partner, each.source))) is not None:
            found.add(each, since)
    return Status(since, now, [_shown(key, found, now) for key, found in sorted(sums.items())])


def recorded_status(store: Store, sources: Collection[str], *, now: datetime) -> list[SourceStatus]:
    """The status of each partner that sent something of these sources in HOURS, by the counts in the store alone.

    A receiver records its counts as it seals a segment, so those of the last seconds are missing. Raises StoreError.
    """
    since = now - timedelta(hours=HOURS)
    recorded = received(store, after=since)
    return status_of(
        recorded,
        {},
        {(each.partner, each.source) for each in recorded if each.source in sources},
        since=since,
        now=now,
    ).sources


def _others(held: Mapping[str, Mapping[Key, Tally]], known: set[str]) -> Iterator[Received]:
    """The counts of the segments that the store does not know yet."""
    for segment, of in held.items():
        if segment not in known:
            for (partner, source), tally in of.items():
                yield Received(segment, partner, source, tally, None, {})


def _shown(key: Key, found: _Sum, now: datetime) -> SourceStatus:
    partner, source = key
    lag = (now - found.oldest).total_seconds() if found.oldest else 0.0
    return SourceStatus(
        source,
        partner,
        found.tally.requests,
        found.tally.accepted,
        found.tally.rejected.total(),
        dict(found.tally.rejected.most_common()),
        found.quarantined.total(),
        dict(found.quarantined.most_common()),
        found.waiting,
        found.tally.last if found.tally.requests else None,
        found.last_landed,
        round(max(0.0, lag), 1),
    )
