"""The progress bar on a terminal.

Here: the bar, and lines printed above it. Not here: whether a bar is shown (`output`).
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from feed_assets.cli.output import print_text, printable, terminal_width
from feed_assets.cli.tables import wrapped


class TerminalBar:
    """A progress bar on stderr, with a spinner, a clock and the name of the step."""

    def __init__(self, what: str, total: int) -> None:
        console = Console(stderr=True)
        under_way = TextColumn("{task.fields[under_way]}", table_column=Column(no_wrap=True, ratio=1), markup=False)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=max(4, min(20, console.width // 5))),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            under_way,
            console=console,
            transient=True,
            expand=True,
        )
        self._task = self._progress.add_task(what, total=total, under_way="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, line: str | None = None, steps: int = 1) -> None:
        """Count these steps as done; print this line about them on stdout."""
        if line is not None and sys.stdout is not None and sys.stdout.isatty():
            # stdout is the same terminal: only the bar itself can print a line above it.
            for part in wrapped(printable(line), width=terminal_width(), indent="    "):
                self._progress.console.print(Text(part), soft_wrap=True)
        elif line is not None:
            print_text(line)
        self._progress.advance(self._task, steps)

    def under_way(self, step: str) -> None:
        """Show the step that begins."""
        self._progress.update(self._task, under_way=printable(step))
