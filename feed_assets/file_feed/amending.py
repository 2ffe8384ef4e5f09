"""Changing an update's state in its record, safely among concurrent writers.

Here: adding a state change to a record, and deciding between two changes. Not here: who changes the state
(`publishing`, `withdrawal`). A record is replaced only if nobody changed it since it was read, so of two concurrent
writers the second sees the decision of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from feed_assets.blackboard.port import ConflictError, UnavailableError
from feed_assets.file_feed.claims import Claim
from feed_assets.file_feed.control import StoredRecord, record_at
from feed_assets.file_feed.errors import ClaimLostError, NotPublishedError
from feed_assets.file_feed.record import CheckOutcome, Record, State, Transition

_MAY_FOLLOW: Final[dict[State, frozenset[State]]] = {
    "publishing": frozenset({"staged", "publishing"}),
    "published": frozenset({"publishing"}),
    "rejected": frozenset({"rejected"}),
    "invalidated": frozenset({"staged", "publishing", "published", "rejected", "invalidated"}),
}
"""Change -> the states that it may still follow when somebody else changed the record first."""


def amend(
    claimed: Claim, stored: StoredRecord, change: Transition, checks: Sequence[CheckOutcome] = ()
) -> StoredRecord:
    """Add a change, and the outcomes of `checks` if there are any, to the record: one PUT.

    If another writer has recorded the same change, its record stays. Raises NotPublishedError if another writer
    recorded the opposite, ClaimLostError if the record is gone, UnavailableError if the write may or may not have
    landed.
    """
    while True:
        record = stored.record
        amended = replace(record, checks=tuple(checks) or record.checks, history=(*record.history, change))
        content = amended.to_json()
        try:
            entry = claimed.feed.blackboard.replace(stored.key, content, tag=stored.tag)
        except (ConflictError, UnavailableError) as error:
            stored = reread(claimed, stored.key)
            if stored.record.to_json() == content or _already_has(stored.record, change, checks):
                return stored
            if isinstance(error, UnavailableError):
                raise
            if stored.record.state not in _MAY_FOLLOW[change.state]:
                raise NotPublishedError(_contradicted(claimed, stored.record)) from None
        else:
            return StoredRecord(amended, stored.key, entry.tag, entry.modified)


def reread(claimed: Claim, key: str) -> StoredRecord:
    """The record as it is now: one GET. Raises ClaimLostError if it is gone, or if it is another writer's."""
    stored = record_at(claimed.feed, key)
    if stored is None or stored.record.token != claimed.token:
        raise ClaimLostError(
            f"{claimed.uri} is no longer this writer's: it took too long, and retention gave it up. Write it again."
        )
    return stored


def _already_has(record: Record, change: Transition, checks: Sequence[CheckOutcome]) -> bool:
    if change.state == "publishing" and record.state == "published":
        return True
    return record.state == change.state and tuple(checks or record.checks) == record.checks


def _contradicted(claimed: Claim, record: Record) -> str:
    last = record.history[-1]
    if last.state in {"publishing", "published"}:
        return f"{claimed.uri} was {last.state} meanwhile, and stays so."
    return f"{claimed.uri} was {last.state} ({last.reason}), so it is not published: write a new update."
