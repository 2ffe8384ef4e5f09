"""Parts of messages to people: numbers such as `1 file` and `2,000 files`, and the errors of libraries."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_line(error: Exception) -> str:
    """The first line of an error's message. DuckDB shows the statement below it."""
    return str(error).partition("\n")[0]
