"""Line breaks inside the quoted fields of CSV: Spark reads a line of text as a record, so each gets a line of its own.

Not here: parsing records (see `records`).
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

BREAK = "\ufdd0"
"""Stands for a line feed inside a field. Unicode has set it apart for programs: no text has it."""


def join_records(lines: Iterable[str], separator: str, quote: str) -> Iterator[str]:
    """These lines, with each record on one line: a line feed inside it becomes `BREAK`, and a blank line after it.

    So every record keeps the number of its line. A quote that nothing closes within its field's first 128 KiB
    is no beginning of a field: only its own line is malformed.
    """
    rest, again = iter(lines), deque[str]()

    def more() -> Iterator[str]:
        while line := again.popleft() if again else next(rest, ""):
            record.append(line)
            yield line

    record: list[str] = []
    for line in more():
        if quote in line:
            try:
                next(csv.reader(chain([line], more()), delimiter=separator, quotechar=quote, strict=True))
            except csv.Error:
                again.extendleft(reversed(record[1:]))
                del record[1:]
        yield line if len(record) == 1 else BREAK.join(part.removesuffix("\n") for part in record) + "\n" * len(record)
        record.clear()
