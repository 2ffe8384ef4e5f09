"""Days of which a source has no raw file: whether its partner sent nothing, or sent that there is nothing.

Here: the reasons for which such a day is complete as it is. Not here: what follows from it (see `checks`).
"""

from __future__ import annotations

from datetime import date

from feed_assets.blackboard.port import Blackboard
from feed_assets.sources.ledger import landings
from feed_assets.sources.spec import Source


def why_nothing(blackboard: Blackboard, source: Source, day: date) -> str | None:
    """Why a day without raw files is no fault; None where the partner may still have to send something.

    One listing of the source's ledger from this day on, and a read of each landing there until one covers the day.
    """
    if source.may_be_empty:
        return "the source is declared `may_be_empty`"
    for landing in landings(blackboard, source.key, day):
        if landing.covers(day):
            return f"{landing.file} landed with records from {landing.first_day} to {landing.last_day}"
    return None
