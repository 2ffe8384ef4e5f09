"""The quality of slots in memory and in the database.

Not here: what facts mean (`quality`), and transactions (`kept_states`). One thread at a time may use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from feed_assets.dependencies import tables
from feed_assets.dependencies.act import COMPLETED, REOPENED, Act, Change
from feed_assets.dependencies.quality.marks import Ended, Fact, SlotRange
from feed_assets.dependencies.quality.revision_history import Revisions
from feed_assets.dependencies.quality.rows import Row, from_row, to_row
from feed_assets.dependencies.quality.slot_quality import SlotQuality
from feed_assets.dependencies.rules import Basis, Declared
from feed_assets.file_feed.digest import short_digest

_ENCODE: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class KeptQuality:
    """What is known about the quality of the slots of one base: loaded when first needed, then followed."""

    def __init__(self, base: str, datasets: Mapping[str, Declared], revisions: Revisions) -> None:
        self._base = base
        self._datasets = datasets
        self._revisions = revisions
        self._view: SlotQuality | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether memory has it."""
        return self._view is not None

    def view(self, connection: Any | None) -> SlotQuality:
        """The quality; without a connection, there is no database yet. Raises QualityError for a row of no fact."""
        if self._view is None:
            audited = frozenset(
                name for name, each in self._datasets.items() if each.checked and each.rule.basis is Basis.PUBLISHED
            )
            datasets = {name: each.dataset for name, each in self._datasets.items()}
            view = SlotQuality(datasets, self._revisions, audited=audited)
            view.load(self._read(connection, -1) if connection is not None else ())
            self._view = view
        return self._view

    def follow(self, connection: Any, after: int) -> None:
        """Take over what others wrote after an event."""
        if self._view is not None and (facts := self._read(connection, after)):
            self._view.take(facts)

    def save(self, connection: Any, facts: Iterable[Fact], changed: int) -> None:
        """Save facts, with the number of an event of the transaction."""
        rows = (to_row(each) for each in facts)
        tables.save_quality(
            connection,
            self._base,
            [tables.QualityRow(row.kind, short_digest(row.key), _ENCODE(row.content)) for row in rows],
            changed,
        )

    def delete_profiles(self, connection: Any, clock: int) -> None:
        """Delete the profiles that are old at this time, in the database and in memory."""
        rows = map(to_row, self.view(connection).forget_profiles(clock))
        tables.delete_quality(connection, self._base, [(row.kind, short_digest(row.key)) for row in rows])

    def forget(self) -> None:
        """Drop memory: it is loaded again when needed."""
        self._view = None

    def _read(self, connection: Any, after: int) -> list[Fact]:
        rows = tables.read_quality(connection, self._base, after)
        return [from_row(Row(row.kind, row.digest, json.loads(row.content))) for row in rows]


def endings(act: Act, sequence: int) -> tuple[list[Ended], list[Ended]]:
    """The revisions that an act ended: those that were reopened, and those whose content came back as it was."""
    reopened = [_ended(each, sequence, equal=False) for each in act.changes if each.kind == REOPENED]
    equal = [_ended(each, sequence, equal=True) for each in act.changes if each.kind == COMPLETED and each.equal_to]
    return reopened, equal


def _ended(change: Change, sequence: int, *, equal: bool) -> Ended:
    first = change.first
    slots = SlotRange(first.dataset, first.member, first.grain, first.start, change.last.start, change.count)
    return Ended(slots, change.revision - 1, sequence, equal)
