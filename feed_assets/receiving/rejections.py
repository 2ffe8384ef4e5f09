"""Why records are rejected at the door, as text that people count, and as a line of a landed file.

Here: the kind of a reason, and a rejected record's line and back. Not here: finding the reason (`door`).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

_DETAIL: Final = re.compile(r"(?s)(is not a JSON object): .*|has [\d,]+ bytes, (more than [\d,]+)")
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
