"""The calendar of a dataset's slots: a letter for each slot of a range, as small as an answer about many can be.

Here: which letter a slot gets. Not here: what a letter looks like (`web`), and full answers (`answers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.members import ancestry
from feed_assets.datasets.ranges import slots_on
from feed_assets.datasets.slots import Slot, start_text
from feed_assets.dependencies.answers import Answer
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.gate import Quality
from feed_assets.dependencies.service import Dependencies
from feed_assets.dependencies.windows import Windows

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
    states: Dependencies,
    windows: Windows,
    grain: Grain,
    first: int,
    last: int,
    *,
    clock: int,
    member: str | None = None,
    progress: Callable[[Sequence[Slot]], Mapping[Slot, Progress]] = lambda _: {},
    quality: Callable[[Slot], Quality] = lambda _: Quality.UNCHECKED,
) -> Calendar:
    """The calendar of the batch dates from first to last, both included, in days since 1970-01-01.

    `member`: only this one, and those below it. `clock` is the time that decides what has ended. Raises DatasetError if
    there is no such member or grain, RefusedFactError for more than MOST_CELLS slots.
    """
    dataset = windows.dataset
    if grain not in dataset.grains:
        dataset.check_grain(grain, member or next(iter(dataset.hierarchy)))
    if member is not None:
        dataset.branch(member)
    paths = sorted(path for path in dataset.hierarchy if member is None or member in ancestry(path))
    rows: dict[str, list[Slot]] = {}
    cells = 0
    for path in paths:
        try:
            rows[path] = list(slots_on(dataset, grain, first, last, path))
        except DatasetError:
            continue  # the members below have several calendars: their own rows show them
        if (cells := cells + len(rows[path])) > MOST_CELLS:
            raise RefusedFactError(f"more than {MOST_CELLS:,} slots: ask for fewer days, or for one member.")
    columns = sorted({slot.start for slots in rows.values() for slot in slots})
    places = {start: number for number, start in enumerate(columns)}
    shown: list[tuple[str, str]] = []
    notes: list[tuple[int, int, str]] = []
    for row, (path, slots) in enumerate(rows.items()):
        letters = [NO_SLOT] * len(columns)
        known = progress(slots)
        for slot in slots:
            found = known.get(slot)
            letters[places[slot.start]] = letter(
                states.answer(slot), found, quality(slot), ended=windows.end(slot) <= clock
            )
            if found is not None and found.why:
                notes.append((row, places[slot.start], found.why))
        shown.append((path, "".join(letters)))
    return Calendar(tuple(start_text(grain, each) for each in columns), tuple(shown), tuple(notes))


def letter(answer: Answer, progress: Progress | None, quality: Quality, *, ended: bool) -> Shown:
    """The state of a slot."""
    under_way = progress.shown if progress is not None else None
    if under_way in {Shown.RUNNING, Shown.FAILED}:
        return under_way
    if answer.complete:
        return _complete(answer, quality)
    if under_way is not None:
        return under_way
    if answer.revision > 1:
        return Shown.REOPENED
    return Shown.INCOMPLETE if ended else Shown.OPEN


def _complete(answer: Answer, quality: Quality) -> Shown:
    if quality is Quality.BAD:
        return Shown.BAD
    if "waived" in answer.flags:
        return Shown.WAIVED
    return Shown.EMPTY if "empty" in answer.flags else Shown.COMPLETE
