"""The slots that a flow reads, as the gate sees them. Not here: which slots these are, and the decision (`gate`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.gate.decision import InputState
from feed_assets.dependencies.gate.extra_inputs import ExtraInput
from feed_assets.dependencies.quality.marks import QualityState
from feed_assets.dependencies.service import Dependencies


def input_state(states: Dependencies, slot: Slot, *, optional: bool = False, counts: bool = True) -> InputState:
    """What is known of a slot that a flow reads. Raises UnknownDatasetError; DatasetError if there is no such slot."""
    answer, quality = states.answer(slot), states.quality.state(slot)
    return InputState(
        slot,
        complete=answer.complete,
        revision=answer.revision,
        quality=quality,
        optional=optional,
        counts=counts,
        checked=states.datasets[slot.dataset].checked,
        marks=tuple(states.quality.why_bad(slot)) if quality is QualityState.BAD else (),
        waits=states.why(slot),
        reopened=answer.begun,
    )


def extra_states(states: Dependencies, slot: Slot, extra: ExtraInput) -> Iterator[InputState]:
    """What is known of the slots that a slot of a flow waits for by one of its extra inputs.

    None before the first slot of that dataset. Raises UnknownDatasetError; DatasetError if it has no such slots.
    """
    found = extra.slots(slot, states.dataset(slot.dataset), states.dataset(extra.dataset))
    chosen: Sequence[Slot] = found
    if extra.latest is not None and found:
        chosen = [next((each for each in reversed(found) if states.answer(each).complete), found[-1])]
    for each in chosen:
        known = input_state(states, each)
        waits = known.waits
        if extra.latest is not None and waits:
            waits = f"none since {found[0]} is complete; the newest {waits}"
        yield replace(known, extra=True, accepts=extra.quality, waits=waits)
