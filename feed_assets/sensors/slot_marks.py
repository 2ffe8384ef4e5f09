"""What deeper checks find becomes marks on slots. Not here: the checks (`checks.deeper_checks`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import dagster as dg

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.declared.loading import DeclaredDataset
from feed_assets.dependencies.quality.marks import Author, RefusedMoveError
from feed_assets.dependencies.quality.service import QualityService
from feed_assets.file_feed.feed import Update
from feed_assets.file_feed.record import CheckOutcome
from feed_assets.file_feed.wording import observed_values
from feed_assets.resources.storage import StateResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets.sources.spec import Source
from feed_assets.steps.run import Run


@dataclass(slots=True)
class ProjectSlotMarks:
    """The marks of a project's slots, as `checks.deeper_checks` needs them.

    `graph` returns Dagster's graph of all assets: a run knows only those that it selects.
    """

    sources: Sequence[Source]
    first_day: date
    datasets: Sequence[DeclaredDataset]
    graph: Callable[[], Any]

    def take(
        self, run: Run, state: StateResource, location: str, update: Update, outcomes: Sequence[CheckOutcome]
    ) -> str:
        """See `SlotMarks.take`. Raises Failure if nothing knows of the slot's update."""
        flows = Flows.of(AssetFeedGraph.of_graph(self.graph()), self.sources, self.first_day, self.datasets)
        if not flows.knows(location):
            raise dg.Failure(
                f"No asset with a trigger reads {location}, so nobody would see a mark: give one of them `trigger()`.",
                allow_retries=False,
            )
        states = flows.states(state.store, run.board)
        states.refresh()
        slot = flows.slot(location, update.partition)
        if states.update_of(slot) != update.name:
            raise dg.Failure(
                f"{update.name} of {slot} is not known yet: the sensor new_manifests takes it soon. Run the check then."
            )
        revision = states.answer(slot).revision
        try:
            for each in outcomes:
                _take(states.quality, slot, revision, update, each, run.now())
        except RefusedMoveError as error:
            raise dg.Failure(str(error), allow_retries=False) from None
        failed = ", ".join(each.name for each in outcomes if not each.passed)
        return f"{slot}, revision {revision}, {f'is marked as bad by {failed}' if failed else 'passes'}."


def _take(
    quality: QualityService, slot: Slot, revision: int, update: Update, outcome: CheckOutcome, now: datetime
) -> None:
    author, observed = Author.check(outcome.name), observed_values(outcome.observed)
    if outcome.passed:
        quality.checked(slot, outcome.name, passed=True, now=now, revision=revision)
    elif not any(mark.author == author and mark.on == (slot, revision) for mark in quality.marks()):
        evidence = f"update {update.name}: {outcome.description}"
        quality.mark(slot, reason=observed or "it fails", author=author, now=now, evidence=evidence, revision=revision)
