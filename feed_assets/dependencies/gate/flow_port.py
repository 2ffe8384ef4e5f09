"""What the API asks about flows: a project with triggers answers it. Not here: the answers (`operations`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.gate.decision import InputState, Verdict
from feed_assets.dependencies.http.calendar import Progress


@dataclass(frozen=True, slots=True)
class Run:
    """A run that computes a slot, or has computed it."""

    id: str
    status: str
    begun: datetime | None
    ended: datetime | None
    assets: tuple[str, ...]


class FlowAnswers(Protocol):
    """Flows, each named by its asset, and what they do with slots. Any thread may ask."""

    def made_by(self, dataset: str) -> str | None:
        """The flow with a trigger that makes a dataset."""

    def reads(self, dataset: str) -> Sequence[str]:
        """The datasets of which a dataset is made, as far as they have slots."""

    def dataset_of(self, flow: str) -> str:
        """The dataset that a flow makes. Raises UnknownFlowError."""

    def partition(self, slot: Slot) -> str | None:
        """The partition of a flow that is this slot; None if no flow makes it."""

    def explain(self, flow: str, partition: str) -> Verdict:
        """The gate's answer, from storage. Raises UnknownFlowError."""

    def wrong_files(self, slot: Slot) -> str:
        """What is wrong with the daily files that an incomplete slot waits for, from storage; "" if nothing is."""

    def progress(self, slots: Sequence[Slot]) -> Mapping[Slot, Progress]:
        """How far flows are with these slots, from memory and Dagster; those of no flow are left out."""

    def inputs(self, slot: Slot) -> Sequence[InputState]:
        """The slots of which a slot is made, as they are now."""

    def consumers(self, slot: Slot) -> Sequence[Slot]:
        """The slots that are made of a slot."""

    def runs(self, slot: Slot) -> Sequence[Run] | None:
        """The newest runs of a slot, newest first; None if Dagster cannot be asked."""
