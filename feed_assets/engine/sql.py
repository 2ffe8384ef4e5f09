"""Names and texts in Spark's SQL.

Here: quoting, and names in expressions as far as they can be told without Spark. Not here: expressions of sources
(`sources.expressions`), and rules (`quality`).
"""

import re
from collections.abc import Iterable, Mapping

LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def quoted(column: str) -> str:
    """A column's name as Spark's SQL takes it, with any characters."""
    return f"`{column.replace('`', '``')}`"


def text_literal(text: str) -> str:
    """A text as a value in Spark's SQL; the session must have `engine.session.SESSION_SETTINGS`."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def map_literal(entries: Mapping[str, str]) -> str:
    """A map of texts as a value in Spark's SQL, such as the options of a function; otherwise as `text_literal`."""
    return f"map({', '.join(text_literal(each) for entry in entries.items() for each in entry)})"


def columns_in(expression: str, declared: Iterable[str]) -> list[str]:
    """The declared columns that a SQL expression names, ignoring case and literals."""
    text = LITERAL.sub("''", expression)
    return [
        name
        for name in declared
        if re.search(rf"`{re.escape(name)}`|(?<![\w`.]){re.escape(name)}(?![\w`]|\s*\()", text, re.IGNORECASE)
    ]
