"""Line breaks inside the quoted fields of CSV: Spark reads a line of text as a record, so each gets a line of its own.

Here: where records end, and the fields of a header. Not here: parsing records (see `records`).
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain

from feed_assets.sources.formats import DelimitedFormat

BREAK = "\ufdd0"
"""Stands for a line feed inside a field. Unicode has set it apart for programs: no text has it."""


def split_fields(lines: Iterable[str], text: DelimitedFormat) -> list[str]:
    """The fields of the record at the beginning of these lines. Raises csv.Error."""
    if text.escape:
        lines = (_doubled(line, text.quote_character, text.escape) for line in lines)
    return next(csv.reader(lines, delimiter=text.field_separator, quotechar=text.quote_character, strict=True))


def join_records(lines: Iterable[str], text: DelimitedFormat) -> Iterator[str]:
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
        if text.quote_character in line:
            try:
                split_fields(chain([line], more()), text)
            except csv.Error:
                again.extendleft(reversed(record[1:]))
                del record[1:]
        yield line if len(record) == 1 else BREAK.join(part.removesuffix("\n") for part in record) + "\n" * len(record)
        record.clear()


def _doubled(line: str, quote: str, escape: str) -> str:
    """The line with each escaped quote as a doubled one. Python's own escapes would join a line that ends in one."""
    return re.sub(f"{re.escape(escape)}(.)", lambda found: quote * 2 if found[1] == quote else found[0], line)
