"""What is known of the rows of a slot: its update in force, the run that made it, its profile. Not here: lineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.marks import Profile
from feed_assets.dependencies.rules import Basis
from feed_assets.dependencies.service import Dependencies


@dataclass(frozen=True, slots=True)
class SlotOutput:
    """The update in force of a slot. `run` made it, "" if unknown; `unusual` says what was unusual in its profile."""

    update: str
    run: str
    profile: Profile
    unusual: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The update, its rows and its run."""
        made = f", made by run {self.run}" if self.run else ""
        return f"update {self.update} has {self.profile.rows:,} rows{made}"

    @property
    def columns(self) -> Mapping[str, Mapping[str, Any]]:
        """The profile of each column, as JSON. Times are in seconds since 1970, UTC."""
        return {
            name: {"nulls": each.nulls, "distinct": each.distinct, "smallest": each.smallest, "largest": each.largest}
            for name, each in self.profile.columns.items()
        }

    @property
    def plain(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "update": self.update,
            "run": self.run,
            "rows": self.profile.rows,
            "columns": self.columns,
            "unusual": [*self.unusual],
        }


def output_of(states: Dependencies, slot: Slot) -> SlotOutput | None:
    """What is known of the rows of a slot; None for raw data, roll-ups, and updates without a record."""
    declared = states.datasets[slot.dataset]
    if declared.rule.basis is not Basis.PUBLISHED or slot.grain is not declared.dataset.base:
        return None
    update, found = states.update_of(slot), states.quality.profile(slot)
    if update is None or found is None:
        return None
    return SlotOutput(update, states.quality.run_of(slot), found.profile, found.unusual)
