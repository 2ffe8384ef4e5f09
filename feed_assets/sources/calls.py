"""The calls of functions in the text of a Spark SQL expression.

Here: names and arguments, as far as brackets and commas tell; Spark must take the expression. Not here: what the
functions do (see `raising`), and the columns that an expression names, which take Spark's parser (`partner_columns`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from feed_assets.engine.sql import LITERAL, QUOTED

_LITERAL_OR_QUOTED: Final = re.compile(f"{LITERAL.pattern}|{QUOTED.pattern}")
_READ_OTHERWISE: Final = re.compile(r"\br['\"]|--|/\*", re.IGNORECASE)
_CALL: Final = re.compile(r"(\w+)\s*\(")


@dataclass(frozen=True, slots=True)
class Call:
    """A function, its name in lower case, and the text of its arguments; `start` and `end` are its place."""

    name: str
    arguments: tuple[str, ...]
    start: int
    end: int


def is_plain(expression: str) -> bool:
    """Whether all quotes mean literals and names: not in texts without escapes, nor in comments."""
    return _READ_OTHERWISE.search(expression) is None


def masked(expression: str) -> str:
    """The expression with the same places, but 0 for each character of a literal, and _ for those of a quoted name."""
    return _LITERAL_OR_QUOTED.sub(lambda each: ("_" if each[0][0] == "`" else "0") * len(each[0]), expression)


def calls(expression: str) -> Iterator[Call]:
    """All calls, also those in arguments of others, and words of SQL before brackets."""
    mask = masked(expression)
    for match in _CALL.finditer(mask):
        *commas, end = _separators(mask, match.end())
        starts = (match.end(), *(comma + 1 for comma in commas))
        arguments = tuple(expression[start:stop].strip() for start, stop in zip(starts, (*commas, end), strict=True))
        yield Call(match[1].lower(), arguments if arguments != ("",) else (), match.start(), end + 1)


def replaced(expression: str, replacements: Mapping[str, Callable[[Sequence[str]], str]]) -> str:
    """The expression with the replacement of each call of these functions, made of its arguments."""
    result, done = "", 0
    for call in calls(expression):
        if call.name in replacements and call.start >= done:
            arguments = [replaced(each, replacements) for each in call.arguments]
            result += expression[done : call.start] + replacements[call.name](arguments)
            done = call.end
    return result + expression[done:]


def _separators(mask: str, start: int) -> Iterator[int]:
    """The places of the commas between the arguments of a call that begin at `start`, and of its closing bracket."""
    depth = 0
    for place, character in enumerate(mask[start:], start):
        if character in ")]":
            if not depth:
                yield place
                return
            depth -= 1
        elif character in "([":
            depth += 1
        elif character == "," and not depth:
            yield place
    yield len(mask)
