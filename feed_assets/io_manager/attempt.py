"""One attempt at a step: the updates it has claimed, and what it has read so far.

Here: what a step's inputs and outputs have to know of one another. Not here: reading and writing (`manager`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from dagster._core.execution.plan.outputs import StepOutputHandle  # the only name for an output of a step

from feed_assets.file_feed import Claim, FeedInput, RawInput

Place = tuple[dg.AssetKey, str | None]
"""An asset, and one of its partitions (None: it has none)."""

EMPTY_SOURCES = "empty_sources"
"""The detail of a record that says why sources without a raw file are no fault; by source."""


@dataclass(slots=True)
class Attempt:
    """The claims by the place each is for, the lineage, and the number of raw records of each day.

    `empty_sources` says of each day, for each source that has no raw file of it, why that is no fault.
    """

    claims: dict[Place, Claim] = field(default_factory=dict)
    inputs: list[FeedInput | RawInput] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    empty_sources: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def days(self) -> set[str]:
        """The days of raw data that were read, be there records of them or not."""
        return {*self.records, *self.empty_sources}


def outputs_of(step: Any, manager: dg.IOManager) -> Iterator[dg.OutputContext]:
    """The outputs that this attempt is to give to this IO manager: those that the run selected."""
    for name in sorted(step.selected_output_names):
        handle = StepOutputHandle(step.step.key, name)
        if step.get_io_manager(handle) is manager:
            yield step.get_output_context(handle)


def partitions_of(output: dg.OutputContext) -> list[str | None]:
    """The partitions that an output of this run has; [None] where the asset has no partitions."""
    return list(map(str, output.asset_partition_keys)) if output.has_asset_partitions else [None]
