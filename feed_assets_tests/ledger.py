"""Ledger entries as a landing leaves them, without landing anything."""

from __future__ import annotations

from feed_assets.blackboard.port import Blackboard
from feed_assets.sources.layout import ledger_key, touched_key
from feed_assets.sources.ledger import Landing, entry_json


def enter(board: Blackboard, landing: Landing) -> None:
    """Put the entry of a landing there, and what says which days it touched."""
    board.create(ledger_key(landing.source, landing.id), entry_json(landing))
    for day in landing.touched:
        board.create(touched_key(landing.source, day, landing.id), b"")
