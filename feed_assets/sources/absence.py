"""Days of which a source has no raw file: whether its partner sent nothing, or sent that there is nothing.

Here: the reasons for which such a day is complete as it is. Not here: what follows from it (see `checks`).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date

from feed_assets.blackboard.port import Blackboard
from feed_assets.sources.ledger import Landing, counting, read_landing
from feed_assets.sources.spec import Source

REMEMBERED = 10_000


def why_nothing(blackboard: Blackboard, source: Source, day: date) -> str | None:
    """Why a day without raw files is no fault; None where the partner may still have to send something."""
    return reasons_for_nothing(blackboard, source, [day]).get(day)


def reasons_for_nothing(blackboard: Blackboard, source: Source, days: Collection[date]) -> dict[date, str]:
    """Why each of these days without raw files is no fault; those that the partner may still have to send are left out.

    One listing of the source's ledger from the first day on, and a read of each landing there until all days are
    covered. A process reads each landing once.
    """
    if source.may_be_empty:
        return dict.fromkeys(days, "the source is declared `may_be_empty`")
    found: dict[date, str] = {}
    if not days:
        return found
    for key in counting(blackboard, source.key, min(days)).values():
        if len(found) == len(set(days)):
            break
        landing = _landing(blackboard, key)
        for day in days:
            if day not in found and landing.covers(day):
                found[day] = f"{landing.file} landed with records of that day, and the source's filter leaves them out"
    return found


def _landing(blackboard: Blackboard, key: str) -> Landing:
    where = blackboard.uri(key)
    if where not in _READ:
        if len(_READ) >= REMEMBERED:
            _READ.clear()
        _READ[where] = read_landing(blackboard, key)
    return _READ[where]


_READ: dict[str, Landing] = {}
