"""How commands print: tables for people, JSON for programs.

Here: the look of what is printed. Not here: what is. Data goes to stdout; what is said about the work goes to stderr,
so a pipe carries data only. Colours and frames are for terminals; `NO_COLOR` is respected.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol, TextIO, TypeVar

import click

COPIED = frozenset({"partition", "update", "day"})
"""Columns of names that people copy from a table: on a terminal they stay on one line as long as they are short."""

SHORT = 24
"""Up to so many characters; what is longer is folded rather than cut off."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(command: _Command) -> _Command:
    """Give a command `--json`, as its parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for other programs.")(command)


def print_json(data: object) -> None:
    """Print a value: on one line through a pipe, indented on a terminal. Times are in ISO 8601."""
    click.echo(json.dumps(json_value(data), indent=2 if _on_terminal() else None, allow_nan=False))


def json_value(value: object) -> object:
    """The value in what JSON has: keys as text, times in ISO 8601, and all else that it has no notation for as text."""
    if isinstance(value, Mapping):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    known = isinstance(value, str | int | None) or (isinstance(value, float) and math.isfinite(value))
    return value if known else str(value)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print rows under their header; numbers to the right. Without rows, say `empty` on stderr."""
    if not rows:
        say(empty)
        return
    texts = [[printable(_text(value)) for value in row] for row in rows]
    right = [all(isinstance(row[column], int) for row in rows) for column in range(len(header))]
    if _on_terminal():
        _print_rich(header, texts, right)
        return
    widths = [max(len(line[column]) for line in [list(header), *texts]) for column in range(len(header))]
    for line in [list(header), *texts]:
        cells = (
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        )
        click.echo("  ".join(cells).rstrip())


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print names and values, one pair on a line."""
    width = max(len(name) for name, _ in fields)
    for name, value in fields:
        click.echo(f"{name:<{width}}  {printable(_text(value))}".rstrip())


def say(message: str) -> None:
    """Tell people something that is no data."""
    click.echo(printable(message), err=True)


def printable(text: str) -> str:
    """The text with everything escaped that could move the cursor, or that no terminal can show."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode("ascii") for each in text
    )


def _print_rich(header: Sequence[str], texts: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    # Loaded only where there is a terminal: it takes as long as a whole look at a feed.
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.markup import escape  # noqa: PLC0415 - see above
    from rich.table import Table  # noqa: PLC0415 - see above

    table = Table(header_style="bold")
    for column, (name, to_right) in enumerate(zip(header, right, strict=True)):
        whole = name in COPIED and all(len(line[column]) <= SHORT for line in texts)
        table.add_column(name, justify="right" if to_right else "left", overflow="fold", no_wrap=whole)
    for line in texts:
        table.add_row(*map(escape, line))
    Console().print(table)


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return str(value)


def _on_terminal() -> bool:
    return _is_terminal(sys.stdout)


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether this shows what is written: a stream that was closed before the program started is None."""
    return stream is not None and stream.isatty()


class Advance(Protocol):
    """Tells a bar of progress that a step is done."""

    def __call__(self, line: str | None = None) -> None:
        """One step is done; print this line about it on stdout."""


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """A bar on a terminal's stderr; gives what to call after each of `total` steps. Nothing is drawn through a pipe."""
    if not _is_terminal(sys.stderr):
        yield _print_line
        return
    from rich.console import Console  # noqa: PLC0415 - loaded only where there is a terminal
    from rich.progress import Progress  # noqa: PLC0415 - as above

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(line: str | None = None) -> None:
            if line is not None and _on_terminal():
                # The same terminal shows both, so the line has to be the bar's own to stand above it.
                bar.console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
            else:
                _print_line(line)
            bar.advance(task)

        yield advance


def _print_line(line: str | None = None) -> None:
    if line is not None:
        click.echo(printable(line))
