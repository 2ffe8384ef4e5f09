"""How commands print: tables for people, JSON for programs.

Here: the streams, the terminal, and `--quiet`. Not here: the layout of tables (`tables`). Data goes to stdout, remarks
go to stderr, so a pipe carries data only. Through a pipe a row is one line, whatever its length. If the reader of a
pipe leaves, as `head` does, a command goes on to its end, and its exit code is the same. Terminals get bold text unless
`NO_COLOR` is set, or `TERM` is `dumb`.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar
from uuid import uuid4

import click

from feed_assets.blackboard.credentials import without_credentials
from feed_assets.cli.tables import TableColumn, field_lines, laid_out, wrapped

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from feed_assets.notices.messages import Table

NARROWEST = 20
"""The least width, whatever a terminal says of itself."""

USUAL_WIDTH = 80
"""The width of a terminal whose own width is unknown."""

QUIET = "feed_assets.quiet"

_Command = TypeVar("_Command", bound=Callable[..., Any])


class ClosedOutputError(OSError):
    """The program was started without standard output: nobody could read what it prints."""


def open_output() -> None:
    """Prepare stdout and stderr of a program for readers that leave. Raises ClosedOutputError."""
    if sys.stdout is None:
        raise ClosedOutputError("Standard output is closed. To drop what is printed, send it to /dev/null.")
    sys.stdout = _left_by_its_reader(sys.stdout)
    if sys.stderr is not None:
        sys.stderr = _left_by_its_reader(sys.stderr)


def _left_by_its_reader(stream: TextIO) -> TextIO:
    if stream not in {sys.__stdout__, sys.__stderr__}:  # it is that of a program which calls commands, such as a test
        return stream
    buffer = io.BufferedWriter(_Pipe(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(
        buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=stream.isatty(), write_through=True
    )


class _Pipe(io.FileIO):
    """A stream whose output is dropped once its reader has left, or once writing has failed."""

    def write(self, data: Buffer, /) -> int:
        """Write the data, or drop it. Raises OSError once, unless the reader has left."""
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if not isinstance(error, BrokenPipeError):
                raise
            return super().write(data)


def json_option(command: _Command) -> _Command:
    """Give a command the option `--json`: its parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for other programs.")(command)


class OutputPath(click.Path):
    """The type of an option: a file to write, with one of these endings (`.html`), in a directory that exists."""

    def __init__(self, *endings: str) -> None:
        super().__init__(path_type=Path, dir_okay=False)
        self.endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check ending and directory."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if path.suffix not in self.endings:
            self.fail(f"{path} is no {' or '.join(self.endings)} file.", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"{path.parent} is no directory; make it, or name another.", param, ctx)
        return path


def write_output(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: on a full disk, an earlier file stays as it was."""
    target = path.resolve()
    if target.exists() and not target.is_file():  # a device, or a pipe
        target.write_bytes(content)
        return
    part = target.with_name(f".{uuid4().hex}")
    try:
        part.write_bytes(content)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def print_json(data: object) -> None:
    """Print a value: on one line through a pipe, indented on a terminal. Times are in ISO 8601."""
    click.echo(json.dumps(json_value(data), indent=2 if _is_terminal(sys.stdout) else None, allow_nan=False))


def json_value(value: object) -> object:
    """The value in types of JSON: keys as text, times in ISO 8601, any other type as text."""
    if isinstance(value, Mapping):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    known = isinstance(value, str | int | None) or (isinstance(value, float) and math.isfinite(value))
    return value if known else str(value)


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    empty: str,
    keep: Sequence[str] = (),
    numbers: Sequence[str] = (),
    indent: str = "",
) -> None:
    """Print rows under their header, numbers to the right, as `1,234`. Without rows, print `empty` on stderr.

    On a narrow terminal, the columns in `keep` stay first; a line below the table names the columns that are left out.
    The columns in `numbers` hold numbers as texts.
    """
    if not rows:
        say(empty)
        return
    columns = []
    for index, name in enumerate(header):
        cells = [row[index] for row in rows]
        texts = tuple(printable(_text(cell)) for cell in cells)
        columns.append(TableColumn(printable(name), texts, is_number=name in numbers or all(map(_is_number, cells))))
    width = terminal_width()
    layout = laid_out(columns, width=None if width is None else width - len(indent), keep=keep)
    if layout.header:
        click.echo(indent + (click.style(layout.header, bold=True) if _styled() else layout.header))
    for line in layout.lines:
        click.echo(f"{indent}{line}".rstrip())


def print_blocks(blocks: Sequence[str | Table]) -> None:
    """Print the sentences and tables of a notice, indented."""
    for block in blocks:
        if isinstance(block, str):
            print_text(f"  {block}", indent="    ")
        elif block.rows:
            print_table(block.header, block.rows, empty="", numbers=block.header[1:], indent="    ")


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print names and values, one pair on a line."""
    texts = [(name, printable(_text(value))) for name, value in fields]
    for line in field_lines(texts, width=terminal_width()):
        click.echo(line)


def print_text(text: str, *, indent: str = "") -> None:
    """Print sentences on stdout. A terminal gets lines broken at spaces; continued lines are indented."""
    for line in _lines(text, width=terminal_width(), indent=indent):
        click.echo(line)


def print_title(text: str) -> None:
    """Print an empty line and a title: bold on a terminal, and broken at spaces."""
    click.echo()
    for line in _lines(text, width=terminal_width()):
        click.echo(click.style(line, bold=True) if _styled() else line)


def say(message: str) -> None:
    """Print a remark on stderr, unless `--quiet` is given."""
    if not _is_quiet():
        complain(message)


def complain(message: str) -> None:
    """Print a problem on stderr, also under `--quiet`. Passwords in URLs are not shown."""
    for line in _lines(without_credentials(message), width=terminal_width(sys.stderr)):
        click.echo(line, err=True)


def printable(text: str) -> str:
    """The text with all control characters and unprintable characters escaped."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode("ascii") for each in text
    )


def printable_lines(text: str) -> str:
    """The same for a text of several lines: line ends stay, and tabs become spaces."""
    return "\n".join(map(printable, text.expandtabs().split("\n")))


def quiet_option(command: click.Command) -> None:
    """Give a command and all commands below it `--quiet`, once."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            quiet_option(each)
    if not any("--quiet" in each.opts for each in command.params):
        text = "Print data and errors only."
        option = click.Option(["-q", "--quiet"], is_flag=True, expose_value=False, callback=_set_quiet, help=text)
        command.params.append(option)


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The width of the terminal behind stdout, or behind `stream`; None for a pipe or a file."""
    stream = stream or sys.stdout
    if not _is_terminal(stream):
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit():
        return max(NARROWEST, int(columns))
    try:
        return max(NARROWEST, os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH)
    except (OSError, ValueError):
        return USUAL_WIDTH


def _lines(text: str, *, width: int | None, indent: str = "") -> Iterator[str]:
    """The lines of a text for printing. Control characters other than line ends are escaped."""
    for line in text.split("\n"):
        yield from wrapped(printable(line), width=width, indent=indent)


def _set_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    ctx.meta[QUIET] = value or ctx.meta.get(QUIET, False)


def _is_quiet() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(QUIET))


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal | None) or (isinstance(value, str) and value.endswith(" %"))


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal. A stream that was closed before the program started is None."""
    return stream is not None and stream.isatty()


def _styled() -> bool:
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Bar(Protocol):
    """A progress bar."""

    def __call__(self, line: str | None = None, steps: int = 1) -> None:
        """Count these steps as done; print this line about them on stdout."""

    def under_way(self, step: str) -> None:
        """Show the step that begins."""


@contextmanager
def progress(what: str, total: int) -> Iterator[Bar]:
    """Show a progress bar of `total` steps on a terminal's stderr. Call the bar after each step.

    Through a pipe, and under `--quiet`, no bar is drawn. Lines are still printed.
    """
    if not _is_terminal(sys.stderr) or _is_quiet():
        yield _NoBar()
        return
    from feed_assets.cli.bar import TerminalBar  # noqa: PLC0415 - loads rich, and only a terminal needs it

    with TerminalBar(what, total) as bar:
        yield bar


def each_step(bar: Bar) -> Callable[[str], None]:
    """A function that shows the step that begins, and counts the step before it. The caller counts the last one."""
    begun = count()

    def starting(step: str) -> None:
        bar(steps=min(1, next(begun)))
        bar.under_way(step)

    return starting


def file_size(path: Path) -> str:
    """The size of a local file in parentheses, after a space; nothing if there is no file."""
    try:
        size = float(path.stat().st_size)
    except OSError:
        return ""
    for unit in ("B", "kB", "MB"):
        if size < 1000:  # noqa: PLR2004 - bytes in the next unit
            return f" ({size:.0f} {unit})"
        size /= 1000
    return f" ({size:.1f} GB)"


class _NoBar:
    def __call__(self, line: str | None = None, steps: int = 1) -> None:  # noqa: ARG002 - as of a Bar
        if line is not None:
            print_text(line)

    def under_way(self, step: str) -> None:
        pass
