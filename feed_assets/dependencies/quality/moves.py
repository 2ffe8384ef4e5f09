"""Which commands on the quality of a slot are allowed, and when. Not here: carrying them out (`quality`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from feed_assets.dependencies.quality.marks import QualityState


class Command(StrEnum):
    """The commands on the quality of a slot, as messages name them."""

    MARK = "mark"
    UNMARK = "unmark"
    CHECK = "report that checks pass on"
    OPEN_BACKFILL = "open a backfill of"
    CLOSE_BACKFILL = "close a backfill of"


class Move(NamedTuple):
    """When a command is allowed: in these states of the revision, and if a backfill is open or not.

    `backfill_open` is None if it does not matter. A backfill is open for the present revision only.
    """

    states: frozenset[QualityState]
    backfill_open: bool | None


_ANY: Final = frozenset(QualityState)

MOVES: Final[Mapping[Command, Move]] = {
    Command.MARK: Move(_ANY, backfill_open=None),
    Command.UNMARK: Move(frozenset({QualityState.BAD}), backfill_open=None),
    Command.CHECK: Move(_ANY, backfill_open=False),
    Command.OPEN_BACKFILL: Move(_ANY, backfill_open=False),
    Command.CLOSE_BACKFILL: Move(_ANY, backfill_open=True),
}
"""All other moves are refused. No command sets a state: the state that follows is what the facts say."""
