"""The calendar of a dataset's slots: a letter for each slot of a range, as small as an answer about many can be.

Here: which letter a slot gets. Not here: what a letter looks like (`web`), and full answers (`answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.members import ancestry
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.ranges import slots_on
from feed_assets.datasets.slots import Slot, start_text
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.quality.marks import QualityState
from feed_assets.dependencies.slot_states import BASES_KEPT, SlotStates

MOST_CELLS: Final = 500_000
"""The most slots of a calendar."""
NO_SLOT: Final = " "


class Shown(StrEnum):
    """The state of a slot, as a calendar shows it. The first that holds, in this order."""

    RUNNING = "r"
    """A run computes it now."""
    FAILED = "f"
    """The newest run of it failed."""
    BAD = "b"
    """Complete, and bad: a mark says so."""
    WAIVED = "w"
    """Complete: a person said that it need not be."""
    EMPTY = "e"
    """Complete, without any record."""
    COMPLETE = "c"
    """Complete."""
    DUE = "d"
    """The flow that makes it may start."""
    WAITING = "q"
    """The flow that makes it waits."""
    OPEN = "o"
    """Not complete: it has not ended yet."""
    REOPENED = "n"
    """Not complete again: a new revision has begun."""
    INCOMPLETE = "i"
    """Not complete."""


class Known(NamedTuple):
    """What the letter of a slot depends on."""

    complete: bool
    revision: int
    flags: tuple[str, ...]


_NOTHING: Final = Known(complete=False, revision=0, flags=())
_EMPTY: Final = Known(complete=True, revision=1, flags=("empty",))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a flow is with a slot, and why it is no further."""

    shown: Shown
    why: str = ""


@dataclass(frozen=True, slots=True)
class Calendar:
    """A row of letters for each member, a letter for each of `starts`. `notes` are (row, column, text)."""

    starts: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    notes: tuple[tuple[int, int, str], ...]


def slot_calendar(
    states: SlotStates,
    grain: Grain,
    first: int,
    last: int,
    *,
    clock: int,
    member: str | None = None,
    progress: Callable[[Sequence[Slot]], Mapping[Slot, Progress]] = lambda _: {},
    quality: Callable[[Slot, int], QualityState] = lambda *_: QualityState.UNCHECKED,
) -> Calendar:
    """The calendar of the batch dates from first to last, both included, in days since 1970-01-01.

    `member`: only this one, and those below it. `clock` is the time that decides what has ended. `quality` is asked for
    a slot and its revision. Raises DatasetError if there is no such member or grain, RefusedFactError for more than
    MOST_CELLS slots.
    """
    rows = _rows(states.windows.dataset, grain, first, last, member)
    columns = sorted({slot.start for slots in rows.values() for slot in slots})
    places = {start: number for number, start in enumerate(columns)}
    end = states.windows.end
    shown: list[tuple[str, str]] = []
    notes: list[tuple[int, int, str]] = []
    for row, (path, slots) in enumerate(rows.items()):
        letters = [NO_SLOT] * len(columns)
        under_way = progress(slots)
        for slot, known in zip(slots, _known(states, slots, clock), strict=True):
            found = under_way.get(slot) if under_way else None
            letters[places[slot.start]] = letter(
                known,
                found,
                quality(slot, known.revision) if known.complete else QualityState.UNCHECKED,
                ended=end(slot) <= clock,
            )
            if found is not None and found.why:
                notes.append((row, places[slot.start], found.why))
        shown.append((path, "".join(letters)))
    return Calendar(tuple(start_text(grain, each) for each in columns), tuple(shown), tuple(notes))


def letter(known: Known, progress: Progress | None, quality: QualityState, *, ended: bool) -> Shown:
    """The state of a slot."""
    under_way = progress.shown if progress is not None else None
    if under_way in {Shown.RUNNING, Shown.FAILED}:
        return under_way
    if known.complete:
        return _complete(known, quality)
    if under_way is not None:
        return under_way
    if known.revision > 1:
        return Shown.REOPENED
    return Shown.INCOMPLETE if ended else Shown.OPEN


def _complete(known: Known, quality: QualityState) -> Shown:
    if quality is QualityState.BAD:
        return Shown.BAD
    if "waived" in known.flags:
        return Shown.WAIVED
    return Shown.EMPTY if "empty" in known.flags else Shown.COMPLETE


def _rows(dataset: Dataset, grain: Grain, first: int, last: int, member: str | None) -> dict[str, list[Slot]]:
    """The slots of each path. Raises DatasetError, RefusedFactError."""
    if grain not in dataset.grains:
        dataset.check_grain(grain, member or NO_MEMBER)
    if member is not None:
        dataset.branch(member)
    rows: dict[str, list[Slot]] = {}
    left = MOST_CELLS
    for path in sorted(path for path in dataset.hierarchy if member is None or member in ancestry(path)):
        try:
            rows[path] = list(islice(slots_on(dataset, grain, first, last, path), left + 1))
        except DatasetError:
            continue  # the members below have several calendars: their own rows show them
        left -= len(rows[path])
        if left < 0:
            raise RefusedFactError(f"more than {MOST_CELLS:,} slots: ask for fewer days, or for one member.")
    return rows


def _known(states: SlotStates, slots: Sequence[Slot], clock: int) -> Iterator[Known]:
    """What is known of slots of one path and grain, without the numbers that an answer has."""
    windows, bases = states.windows, states.bases
    if not slots or not windows.is_base(slots[0]):
        for slot in slots:
            roll_up = states.roll_up(slot)
            flags = roll_up.totals.shown(windows.basis(slot)) if roll_up.complete else ()
            yield Known(roll_up.complete, roll_up.revision, flags)
        return
    # Most slots of raw data have no state of their own: their time alone says what they are.
    plain = slots[0].grain.seconds and windows.is_timed(slots[-1])
    wait, kept = windows.rule_of(slots[-1]).buffer_seconds + slots[0].grain.seconds, clock - BASES_KEPT
    for slot in slots:
        if plain and slot.start > kept and slot not in bases:
            yield _EMPTY if slot.start + wait <= states.clock else _NOTHING
        else:
            state = states.base(slot)
            yield Known(state.complete, state.revision, state.flags)
