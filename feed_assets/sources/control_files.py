"""The control files of partners: how many records each hour of a day has.

Here: finding and reading them. Not here: the field that names them (`complete_spec`), and what follows from the numbers
(`dependencies`). A process reads a file once for each of its contents.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from io import StringIO
from typing import Final

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import Blackboard, Entry, NotFoundError
from feed_assets.datasets.days import days_between
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.sources.spec import Source

LARGEST: Final = 64 * 1024
"""Bytes: a day has 24 lines."""
HOURS: Final = range(24)
_COLUMNS: Final = ("hour", "records")


@dataclass(frozen=True, slots=True)
class ControlFile:
    """What a control file says of a day: the records of each hour that it names; or its `problem`, then none.

    `version` orders the contents of one file: seconds since 1970, when it was written.
    """

    key: str
    day: date
    version: int
    records: dict[int, int]
    problem: str = ""


def control_files(board: Blackboard, source: Source, first: date, last: date) -> Iterator[ControlFile]:
    """The control files of a source from one day to another, both included.

    Costs one listing of their folder, and a read of each file that this process has not read yet.
    """
    complete = source.complete
    if complete is None or complete.witness is None:
        return
    days = (date.fromisoformat(day) for day in days_between(first, last))
    wanted = {complete.key(day): day for day in days}
    for entry in list_all(board, complete.folder):
        if (day := wanted.get(entry.key)) is not None:
            known = (board.uri(entry.key), entry.tag)
            with suppress(KeyError):
                yield _READ[known]
                continue
            try:
                content = board.read(entry.key, limit=LARGEST + 1)
            except NotFoundError:
                continue
            _READ[known] = found = _parsed(content.entry, day, content.data)
            yield found


def _parsed(entry: Entry, day: date, data: bytes) -> ControlFile:
    version = int(entry.modified.timestamp())
    try:
        return ControlFile(entry.key, day, version, dict(_hours(data)))
    except ValueError as error:
        problem = f"{entry.key}: {error}. Its numbers do not count until it is replaced."
        return ControlFile(entry.key, day, version, {}, problem)


def _hours(data: bytes) -> Iterator[tuple[int, int]]:
    """The lines of a control file. Raises ValueError, which says what is wrong and in which line."""
    if len(data) > LARGEST:
        message = f"it has more than {LARGEST} bytes, and a control file has a line for each hour"
        raise ValueError(message)
    rows = csv.reader(StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
    try:
        header = tuple(name.strip().lower() for name in next(rows, []))
        if header != _COLUMNS:
            message = f"its first line is {','.join(header)!r}, and must be 'hour,records'"
            raise ValueError(message)
        seen: set[int] = set()
        for row in rows:
            if row:
                hour, records = _numbers(row, rows.line_num)
                if hour in seen:
                    message = f"line {rows.line_num}: hour {hour} comes twice"
                    raise ValueError(message)
                seen.add(hour)
                yield hour, records
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from None


def _numbers(row: list[str], line: int) -> tuple[int, int]:
    texts = [each.strip() for each in row]
    if len(texts) != len(_COLUMNS) or not all(each.isascii() and each.isdigit() for each in texts):
        raise ValueError(f"line {line}: {','.join(row)!r} is no hour and number of records, such as '15,1200'")
    hour, records = map(int, texts)
    if hour not in HOURS:
        raise ValueError(f"line {line}: there is no hour {hour}: hours are 0 to 23")
    return hour, records


REMEMBERED: Final = 10_000
_READ: BoundedCache[tuple[str, str], ControlFile] = BoundedCache(REMEMBERED)
