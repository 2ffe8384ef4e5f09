"""Contents of files that prove where they belong: to which attempt of which writer, and how many files belong together.

Here: making and judging them. A reader that got a torn or a mixed update can show it by the contents alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """A file's own account: the file number `part` (from 0) among `of` files of an attempt."""

    attempt: str
    part: int
    of: int


def content(part: Part) -> bytes:
    """The content of this file: its account, and bytes that depend on it."""
    digest = hashlib.sha256(repr(part).encode()).hexdigest()
    return json.dumps([*part, digest * (1 + int(digest[:2], 16))]).encode()


def part_of(data: bytes) -> Part | None:
    """The account that a file gives of itself; None if it is not exactly such a file."""
    try:
        attempt, number, of, _ = json.loads(data)
    except (ValueError, TypeError):
        return None
    part = Part(attempt, number, of)
    return part if content(part) == data else None


def parts_of(files: Iterable[bytes]) -> list[Part | None]:
    """The accounts of these files."""
    return [part_of(data) for data in files]


def flaw(parts: Sequence[Sequence[object] | None]) -> str:
    """Why these files are not all the files of one attempt; "" if they are. No files are all files of an empty one."""
    if None in parts:
        return "damaged: a file is not as it was written"
    known = [Part(*each) for each in parts if each is not None]  # type: ignore[arg-type] # from JSON
    if len({each.attempt for each in known}) > 1:
        return f"mixed: files of {sorted({each.attempt for each in known})}"
    if known and sorted(each.part for each in known) != list(range(known[0].of)):
        return f"torn: files {sorted(each.part for each in known)} of the {known[0].of} of {known[0].attempt}"
    return ""
