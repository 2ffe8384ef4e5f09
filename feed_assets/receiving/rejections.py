"""Why records are rejected at the door, as text that people count; and lines of a landed file that nobody sent so.

Here: the kind of a reason, a rejected record's line and back, and marks of lines. Not here: finding the reason
(`door`).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from feed_assets.sources.seen_columns import MARKS

_DETAIL: Final = re.compile(r"(?s)(is not a JSON object): .*|has [\d,]+ bytes, (more than [\d,]+)")
_MARK: Final = re.compile(rf'\{{"(?:{"|".join(MARKS)})[^"]*":true,? *')
_array = msgspec.json.Decoder(list[str]).decode
_LENGTHS: Final = (2, 3)


def kind_of(reason: str) -> str:
    """The reason without what differs from record to record, such as the byte at which JSON ends.

    >>> kind_of("is not a JSON object: JSON is malformed: invalid character (byte 4)")
    'is not a JSON object'
    """
    if (detail := _DETAIL.fullmatch(reason)) is None:
        return reason
    return detail[1] or f"has {detail[2]} bytes"


def line_of(reason: str, record: bytes) -> bytes:
    """The line of a rejected record: an array, which is no record of the partner, of its reason and its text."""
    return msgspec.json.encode([reason, record.decode(errors="backslashreplace")]) + b"\n"


def read_line(line: str) -> tuple[str, str] | None:
    """The reason and the text of a line of `line_of`, which may have an element more; None if it is another line."""
    if not line.startswith('["'):
        return None
    try:
        found = _array(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return (found[0], found[1]) if len(found) in _LENGTHS else None


def marked(mark: str, line: bytes) -> bytes:
    """The line of an object with a mark first: a key that no partner can have sent, so that no other line is equal."""
    rest = line[1:].lstrip()
    return b"{" + msgspec.json.encode(f"_{mark}") + (b":true" if rest.startswith(b"}") else b":true,") + rest


def unmarked(line: str) -> str:
    """The line as it was sent."""
    return _MARK.sub("{", line, count=1) if line.startswith('{"_') else line
