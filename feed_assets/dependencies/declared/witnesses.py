"""Files that say what the slots of a declared dataset have: a CSV for each day, with numbers or end positions.

Here: reading them as facts. Not here: their names (`sources.day_files`), and what follows (`service`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Final

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.instants import day_of, moment_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.declared.loading import DeclaredDataset
from feed_assets.dependencies.facts import Ends, Number
from feed_assets.sources.control_files import ControlFile, DayFolders, csv_lines, files_of_days, whole_number

LARGEST: Final = 16 * 1024 * 1024
"""Bytes: a day has 288 slots of 5 minutes, each with a line for each member and stream."""
_TIME: Final = re.compile(r"([0-9]{1,2})(:[0-9]{2})?", re.ASCII)


def facts_in_files(
    folders: DayFolders, declared: DeclaredDataset, *, now: datetime
) -> Iterator[ControlFile[Number | Ends]]:
    """What the files of a dataset say: how many records slots have, or which end positions, as its basis asks.

    End positions were taken when the file was written; at the latest now.
    """
    dataset = declared.declared.dataset
    first = min(each.first for each in dataset.hierarchy.members)
    for name in declared.complete.files:
        if declared.complete.basis == "covered":
            positions = files_of_days(
                folders, name, lambda data, day: _ends(dataset, data, day).items(), _form(dataset, "ends"),
                largest=LARGEST, since=first,
            )  # fmt: skip
            for file in positions:
                taken = min(moment_of(file.version), now)
                yield file.with_lines(Ends(slot, streams, taken) for slot, streams in file.lines)
        else:
            counts = files_of_days(
                folders, name, lambda data, day: _counts(dataset, data, day), _form(dataset, "counts"),
                largest=LARGEST, since=first,
            )  # fmt: skip
            for each in counts:
                version = each.version
                yield each.with_lines(Number(name, slot, records, version=version) for slot, records in each.lines)


def _form(dataset: Dataset, what: str) -> tuple[object, ...]:
    members = tuple((each.path, each.calendar.zone, each.first) for each in dataset.hierarchy.members)
    return what, dataset.name, dataset.base, members


def _counts(dataset: Dataset, data: bytes, day: date) -> Iterator[tuple[Slot, int]]:
    seen: set[Slot] = set()
    for line, values in csv_lines(data, _columns(dataset, "records")):
        slot = _slot(dataset, day, line, values)
        if slot in seen:
            raise ValueError(f"line {line}: {slot} comes twice")
        seen.add(slot)
        yield slot, _number(values, "records", line)


def _ends(dataset: Dataset, data: bytes, day: date) -> dict[Slot, dict[str, int]]:
    found: dict[Slot, dict[str, int]] = {}
    for line, values in csv_lines(data, _columns(dataset, "stream", "end")):
        slot, stream = _slot(dataset, day, line, values), values["stream"]
        if stream in (streams := found.setdefault(slot, {})):
            raise ValueError(f"line {line}: the stream {stream!r} of {slot} comes twice")
        streams[stream] = _number(values, "end", line)
    return found


def _columns(dataset: Dataset, *facts: str) -> tuple[str, ...]:
    return ("start", *(("member",) if dataset.hierarchy.levels else ()), *facts)


def _number(values: dict[str, str], column: str, line: int) -> int:
    found = whole_number(values[column])
    if found is None:
        raise ValueError(f"line {line}: {column} is {values[column]!r}, and must be a whole number such as 1200")
    return found


def _slot(dataset: Dataset, day: date, line: int, values: dict[str, str]) -> Slot:
    """The base slot that a line of a day's file names. Raises ValueError."""
    start, member = values["start"], values.get("member", NO_MEMBER)
    if found := _TIME.fullmatch(start):
        start = f"{day}T{found[1]:0>2}{found[2] or ''}"
    try:
        slot = dataset.slot(start, member, dataset.base)
        if member not in {each.path for each in dataset.branch(member).leaves}:
            raise ValueError(f"line {line}: {member} has members: write a line for each of them")
        window = dataset.branch(member).leaves[0].calendar.window(day_of(day))
    except DatasetError as error:
        raise ValueError(f"line {line}: {str(error).rstrip('.')}") from None
    begin = dataset.window(slot)[0]
    if not window.start <= begin < window.end:
        raise ValueError(f"line {line}: {slot} does not lie in {day}, the day of the file")
    return slot
