"""Lay out rows as lines of text without breaking a number, a date or a name.

Here: the layout, from texts and a width to lines. Not here: printing (`output`). Three forms are tried in this order:

- a table, if every row fits on one line;
- a table of the short columns, with the long texts of a row on indented lines below it;
- a block of `name  value` lines for each row. If the caller names the most important columns, a table without the
  columns that do not fit instead; a line below the table names those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.cells import cell_len

SHORT = 24
"""Texts up to this length are never broken. Longer texts are broken at spaces only."""

GAP = "  "
INDENT = "    "


@dataclass(frozen=True)
class TableColumn:
    """A column's name, its texts from top to bottom, and whether they are numbers, aligned to the right."""

    name: str
    texts: tuple[str, ...]
    is_number: bool

    @cached_property
    def width(self) -> int:
        """The width of its widest text."""
        return max(map(cell_len, (self.name, *self.texts)))

    @property
    def is_prose(self) -> bool:
        """Whether it has texts that can be broken at spaces."""
        return any(cell_len(text) > SHORT and " " in text for text in self.texts)


@dataclass(frozen=True, slots=True)
class Layout:
    """Lines to print: the header ("" for blocks), and the lines below it."""

    header: str
    lines: tuple[str, ...]


def laid_out(columns: Sequence[TableColumn], *, width: int | None, keep: Sequence[str] = ()) -> Layout:
    """The rows as lines of at most `width` cells; None: any width.

    A text without spaces is never broken, even if it is longer than the width. `keep` names the columns that stay if
    the table has to leave out columns.
    """
    if width is None or _fits(columns, width):
        return _table(columns)
    short = [column for column in columns if not column.is_prose]
    if short and _fits(short, width):
        return _table(short, below=[column for column in columns if column.is_prose], width=width)
    kept = _kept(columns, keep, width)
    if kept:
        left_out = ", ".join(column.name for column in columns if column not in kept)
        note = f"Not shown, as the terminal is too narrow: {left_out}. A pipe or --json has all columns."
        table = _table(kept)
        return Layout(table.header, (*table.lines, *wrapped(note, width=width)))
    return Layout("", tuple(_blocks(columns, width)))


def field_lines(fields: Sequence[tuple[str, str]], *, width: int | None) -> list[str]:
    """Names and values, a pair a line. A long value continues on the next line, below itself."""
    name_width = max((cell_len(name) for name, _ in fields), default=0)
    indent = " " * (name_width + len(GAP))
    lines = []
    for name, value in fields:
        rest = None if width is None else max(1, width - len(indent))
        first, *more = wrapped(value, width=rest)
        lines += [f"{_padded(name, name_width)}{GAP}{first}".rstrip(), *(f"{indent}{line}" for line in more)]
    return lines


def wrapped(text: str, *, width: int | None, indent: str = "") -> list[str]:
    """The text as lines of at most `width`, broken at spaces only. Leading spaces stay; further lines are indented."""
    if width is None or cell_len(text) <= width or not text.strip():
        return [text]
    words = text.split()
    lines = [text[: len(text) - len(text.lstrip(" "))] + words[0]]
    for word in words[1:]:
        if cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{indent}{word}")
    return lines


def _fits(columns: Sequence[TableColumn], width: int) -> bool:
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1) <= width


def _kept(columns: Sequence[TableColumn], keep: Sequence[str], width: int) -> list[TableColumn]:
    """The columns in `keep`, and the other columns that fit beside them; empty if `keep` does not fit."""
    kept = [column for column in columns if column.name in keep]
    if not kept or not _fits(kept, width):
        return []
    for column in columns:
        if column not in kept:
            more = [each for each in columns if each in kept or each is column]
            kept = more if _fits(more, width) else kept
    return kept


def _table(columns: Sequence[TableColumn], *, below: Sequence[TableColumn] = (), width: int | None = None) -> Layout:
    lines = []
    for row in range(len(columns[0].texts)):
        lines.append(_line([column.texts[row] for column in columns], columns))
        for column in below:
            if text := column.texts[row]:
                lines += _below(column.name, text, width)
    return Layout(_line([column.name for column in columns], columns), tuple(lines))


def _below(name: str, text: str, width: int | None) -> list[str]:
    line = f"{INDENT}{name}: {text}"
    if width is not None and cell_len(line) > width and cell_len(text) <= SHORT:
        return [f"{INDENT}{name}:", f"{INDENT}  {text}"]
    return wrapped(line, width=width, indent=f"{INDENT}  ")


def _line(texts: Sequence[str], columns: Sequence[TableColumn]) -> str:
    cells = (
        _padded(text, column.width, to_right=column.is_number) for text, column in zip(texts, columns, strict=True)
    )
    return GAP.join(cells).rstrip()


def _padded(text: str, width: int, *, to_right: bool = False) -> str:
    space = " " * (width - cell_len(text))
    return f"{space}{text}" if to_right else f"{text}{space}"


def _blocks(columns: Sequence[TableColumn], width: int) -> Iterator[str]:
    for row in range(len(columns[0].texts)):
        if row:
            yield ""
        yield from field_lines([(column.name, column.texts[row]) for column in columns], width=width)
