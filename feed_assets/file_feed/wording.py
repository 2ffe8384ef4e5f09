"""Parts of messages to people: numbers such as `1 file` and `2,000 files`, and the errors of libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def counted(number: int, noun: str) -> str:
    """The number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def observed_values(observed: Mapping[str, Any]) -> str:
    """The observations of a check, such as `read 4,613, share 0.0867`."""
    texts = {name: f"{value:,}" if type(value) is int else value for name, value in observed.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def shortened(text: str, most: int) -> str:
    """The text, or its first `most` characters with three dots behind them."""
    return text if len(text) <= most else f"{text[:most]}..."


def listed(names: Sequence[str], most: int = 20) -> str:
    """The names, or the first `most` of them and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def first_line(error: Exception) -> str:
    """The first line of an error's message. DuckDB shows the statement below it."""
    return str(error).partition("\n")[0]


def sentence(text: str) -> str:
    """The text with a capital, unless it begins with a name such as `raw/ads`."""
    return text if "/" in text.partition(" ")[0] else text[:1].upper() + text[1:]
