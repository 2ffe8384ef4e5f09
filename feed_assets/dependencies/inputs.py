"""The slots that a flow reads, as the gate sees them. Not here: which slots these are, and the decision (`gate`)."""

from __future__ import annotations

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.gate import InputState
from feed_assets.dependencies.marks import QualityState
from feed_assets.dependencies.service import Dependencies


def input_state(states: Dependencies, slot: Slot, *, optional: bool = False) -> InputState:
    """What is known of a slot that a flow reads. Raises UnknownDatasetError; DatasetError if there is no such slot."""
    answer, quality = states.answer(slot), states.quality.state(slot)
    return InputState(
        slot,
        complete=answer.complete,
        revision=answer.revision,
        quality=quality,
        optional=optional,
        checked=states.datasets[slot.dataset].checked,
        marks=tuple(states.quality.why_bad(slot)) if quality is QualityState.BAD else (),
        waits=states.why(slot),
        reopened=answer.begun,
    )
