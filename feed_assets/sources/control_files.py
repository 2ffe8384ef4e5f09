"""The control files of partners: how many records each hour of a day has, and other files of numbers for each day.

Here: finding and reading them. Not here: their names (`day_files`), and what follows from the numbers (`dependencies`).
A process reads a file once for each of its contents.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from io import StringIO
from itertools import takewhile
from typing import Any, Final, Generic, TypeVar

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import Blackboard, Entry, NotFoundError
from feed_assets.datasets.days import days_between
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.sources.day_files import folder_of_days, key_of_day
from feed_assets.sources.spec import Source

LARGEST: Final = 64 * 1024
"""Bytes: a day has 24 lines."""
HOURS: Final = range(24)
_COLUMNS: Final = ("hour", "records")

_Line = TypeVar("_Line")
_Line_co = TypeVar("_Line_co", covariant=True)
_Other = TypeVar("_Other")


@dataclass(frozen=True, slots=True)
class ControlFile(Generic[_Line_co]):
    """What a control file says of a day, line by line; or its `problem`, then no lines.

    `version` orders the contents of one file: seconds since 1970, when it was written.
    """

    key: str
    day: date
    version: int
    lines: tuple[_Line_co, ...]
    problem: str = ""

    def with_lines(self, lines: Iterable[_Other]) -> ControlFile[_Other]:
        """The same file with what its lines mean."""
        return ControlFile(self.key, self.day, self.version, tuple(lines), self.problem)


class DayFolders:
    """The folders with the files of days, from one day to another, both included. Each is listed once.

    The listings are those of the moment when a folder is first looked at: use it for one tick.
    """

    def __init__(self, board: Blackboard, names: Iterable[str], first: date, last: date) -> None:
        """`names` are the names of all files that will be looked for, as `day_files` has them."""
        self.board = board
        self._days = [date.fromisoformat(day) for day in days_between(first, last)]
        self._keys: dict[str, set[str]] = {}
        for name in names:
            self._keys.setdefault(folder_of_days(name), set()).update(key_of_day(name, day) for day in self._days)
        self._listed: dict[str, dict[str, Entry]] = {}

    def files(self, name: str) -> Iterator[tuple[date, Entry]]:
        """The files of this name that there are, each with its day."""
        folder = folder_of_days(name)
        if (listed := self._listed.get(folder)) is None:
            listed = self._listed[folder] = self._list(folder)
        for day in self._days:
            if (entry := listed.get(key_of_day(name, day))) is not None:
                yield day, entry

    def _list(self, folder: str) -> dict[str, Entry]:
        """The entries from the first wanted key to the last: older days cost nothing, where the year comes first."""
        wanted = self._keys[folder]
        found = takewhile(lambda entry: entry.key <= max(wanted), list_all(self.board, folder, after=min(wanted)[:-1]))
        return {entry.key: entry for entry in found if entry.key in wanted}


def control_files(folders: DayFolders, source: Source) -> Iterator[ControlFile[tuple[int, int]]]:
    """The control files of a source: the hours, each with its records. Costs what `files_of_days` costs."""
    complete = source.complete
    if complete is not None and complete.witness is not None:
        yield from files_of_days(folders, complete.witness, _hours, "hours", largest=LARGEST)


def files_of_days(
    folders: DayFolders,
    name: str,
    parse: Callable[[bytes, date], Iterable[_Line]],
    form: Hashable,
    *,
    largest: int,
    since: date = date.min,
) -> Iterator[ControlFile[_Line]]:
    """The files of this name, from the day `since` on.

    `parse` makes lines of a content and its day, or raises ValueError, which says what is wrong; `form` stands for what
    it does. Files of more than `largest` bytes have a problem. Costs a read of each file that this process has not read
    yet, and one listing of each folder.
    """
    for day, entry in folders.files(name):
        if day < since:
            continue
        known = (folders.board.uri(entry.key), entry.tag, form)
        with suppress(KeyError):
            yield _READ[known]
            continue
        try:
            content = folders.board.read(entry.key, limit=largest + 1)
        except NotFoundError:
            continue
        _READ[known] = found = _parsed(content.entry, day, content.data, parse, largest)
        yield found


def _parsed(
    entry: Entry, day: date, data: bytes, parse: Callable[[bytes, date], Iterable[_Line]], largest: int
) -> ControlFile[_Line]:
    version, problem = int(entry.modified.timestamp()), ""
    lines: tuple[_Line, ...] = ()
    if len(data) > largest:
        problem = f"it has more than {largest} bytes, and a control file has a line for each number of the day"
    else:
        try:
            lines = tuple(parse(data, day))
        except ValueError as error:
            problem = str(error)
    if problem:
        problem = f"{entry.key}: {problem}. Its numbers do not count until it is replaced."
    return ControlFile(entry.key, day, version, lines, problem)


def csv_lines(data: bytes, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines of a CSV file with this header: the number of the line, and its values by column.

    Raises ValueError, which says what is wrong and in which line.
    """
    rows = csv.reader(StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
    try:
        header = tuple(name.strip().lower() for name in next(rows, []))
        if header != tuple(columns):
            message = f"its first line is {','.join(header)!r}, and must be {','.join(columns)!r}"
            raise ValueError(message)
        for row in rows:
            if row:
                values = [each.strip() for each in row]
                if len(values) != len(header):
                    message = f"line {rows.line_num}: {','.join(row)!r} has not the columns {','.join(header)}"
                    raise ValueError(message)
                yield rows.line_num, dict(zip(header, values, strict=True))
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from None


def whole_number(text: str) -> int | None:
    """The number of ASCII digits; None if it is none."""
    return int(text) if text.isascii() and text.isdigit() else None


def _hours(data: bytes, day: date) -> Iterator[tuple[int, int]]:
    """The lines of a control file of hours. Raises ValueError."""
    del day
    seen: set[int] = set()
    for line, values in csv_lines(data, _COLUMNS):
        hour, records = whole_number(values["hour"]), whole_number(values["records"])
        if hour is None or records is None:
            given = ",".join(values.values())
            raise ValueError(f"line {line}: {given!r} is no hour and number of records, such as '15,1200'")
        if hour not in HOURS:
            raise ValueError(f"line {line}: there is no hour {hour}: hours are 0 to 23")
        if hour in seen:
            raise ValueError(f"line {line}: hour {hour} comes twice")
        seen.add(hour)
        yield hour, records


REMEMBERED: Final = 10_000
_READ: BoundedCache[tuple[str, str, Hashable], ControlFile[Any]] = BoundedCache(REMEMBERED)
