"""Names, texts and types in Spark's SQL.

Here: quoting, and names in expressions and in types as far as they are known without Spark. Not here: expressions of
sources (`sources.expressions`), and rules (`quality`).
"""

import re
from collections.abc import Iterable, Mapping

_TEXT = re.compile(r"(?<![^:<,])(var)?char\(\d+\)(?![^,>])")
_FIELD_NAME = re.compile(r"[^<>,:`]+")
_FIELD = re.compile(rf"(?<=[<,]){_FIELD_NAME.pattern}(?=:)")
QUOTED = re.compile(r"`(?:[^`]|``)*`")
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


def stored_type(name: str) -> str:
    """The type that files have for this type of a column: a text of any length for VARCHAR and CHAR."""
    return _TEXT.sub("string", name)


def parsable_type(name: str) -> str:
    """A type in Spark's words, as Spark's parser takes it: with quoted names of fields.

    Without quotes the parser refuses names such as `content-type`, but `simpleString` and all records have none.
    """
    return _FIELD.sub(r"`\g<0>`", name)


def is_field_name(name: str) -> bool:
    """Whether `parsable_type` finds the whole name of this field of a STRUCT in the text of a type."""
    return _FIELD_NAME.fullmatch(name) is not None


def columns_in(expression: str, declared: Iterable[str]) -> list[str]:
    """The declared columns that a SQL expression names, ignoring case and literals."""
    text = LITERAL.sub("''", expression)
    return [
        name
        for name in declared
        if re.search(rf"`{re.escape(name)}`|(?<![\w`.]){re.escape(name)}(?![\w`]|\s*\()", text, re.IGNORECASE)
    ]
