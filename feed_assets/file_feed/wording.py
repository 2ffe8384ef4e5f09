"""Numbers in messages to people: `1 file`, `2,000 files`."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
