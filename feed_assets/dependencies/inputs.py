"""The slots that a flow reads, as the gate sees them. Not here: which slots these are, and the decision (`gate`)."""

from __future__ import annotations

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.gate import InputState, Quality
from feed_assets.dependencies.service import Dependencies


def input_state(states: Dependencies, slot: Slot, *, optional: bool = False) -> InputState:
    """What is known of a slot that a flow reads. Raises UnknownDatasetError; DatasetError if there is no such slot."""
    answer, checked = states.answer(slot), states.datasets[slot.dataset].checked
    return InputState(
        slot,
        complete=answer.complete,
        revision=answer.revision,
        quality=Quality.PASSED if checked and answer.complete else Quality.UNCHECKED,
        optional=optional,
        checked=checked,
        why=states.why(slot),
        reopened=answer.begun,
    )
