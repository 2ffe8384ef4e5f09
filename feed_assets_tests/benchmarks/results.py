"""What a benchmark found: a table for people, JSON for programs.

Here: the values, the machine they were measured on, and how both are shown. Not here: how anything is measured.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from math import floor, log10
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

LEFT_OUT = "Left out of quick measurements: it takes minutes."
PACKAGES = ("dagster", "pyspark", "duckdb", "pyarrow", "boto3", "moto")

Value = str | int | float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: what was measured at which size, and what came out; seconds have names that end so."""

    size: str
    subject: str
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A number held against a goal; `reached` is None where there is no goal."""

    name: str
    value: float
    goal: str = ""
    reached: bool | None = None

    @classmethod
    def at_most(cls, name: str, value: float, goal: float | None) -> Self:
        """A number that should not exceed this goal, if there is one."""
        return cls(name, value) if goal is None else cls(name, value, f"<= {goal:g}", value <= goal)


@dataclass(frozen=True, slots=True)
class Report:
    """All that one benchmark found."""

    name: str
    title: str
    rows: Sequence[Row]
    comparisons: Sequence[Comparison] = ()
    notes: Sequence[str] = ()


@dataclass(slots=True)
class Rounds:
    """The seconds of several subjects that take turns, so that what disturbs the machine disturbs all of them.

    `cpu` are seconds of processor time, which other programs on the machine hardly change.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def add(self, subject: str, seconds: float, cpu: float | None = None) -> None:
        """One more measurement of a subject."""
        self.seconds.setdefault(subject, []).append(seconds)
        if cpu is not None:
            self.cpu.setdefault(subject, []).append(cpu)

    def median(self, subject: str) -> float:
        """The median of its measurements."""
        return median(self.seconds[subject])

    def median_cpu(self, subject: str) -> float:
        """The median of its processor time."""
        return median(self.cpu[subject])

    def rows(self, size: str) -> list[Row]:
        """A row for each subject: median, fastest and slowest."""
        return [
            Row(
                size,
                subject,
                {
                    "median_seconds": median(all_of_it),
                    "min_seconds": min(all_of_it),
                    "max_seconds": max(all_of_it),
                    "rounds": len(all_of_it),
                    **({"median_cpu_seconds": self.median_cpu(subject)} if subject in self.cpu else {}),
                },
            )
            for subject, all_of_it in self.seconds.items()
        ]


def under_way(doing: str) -> None:
    """Tell whoever waits what is measured now; the tables go to stdout."""
    sys.stderr.write(f"  {doing} ...\n")


def timed(what: Callable[[], object]) -> float:
    """How many seconds a call takes."""
    start = perf_counter()
    what()
    return perf_counter() - start


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show on stderr how far a measurement is. After each of its `total` steps, call the result with the outcome."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(*columns, TextColumn("{task.fields[last]}"), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total, last="")
        yield lambda last: bar.update(task, advance=1, last=last)


def machine() -> dict[str, Any]:
    """What the numbers depend on besides the code."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def show(report: Report, console: Console) -> None:
    """Print a report as a table, with what it is compared with below."""
    names = list(dict.fromkeys(name for row in report.rows for name in row.values))
    console.print(f"{report.name}: {report.title}", style="italic")
    table = Table()
    table.add_column("size")
    table.add_column("what")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for row in report.rows:
        table.add_row(row.size, row.subject, *(_cell(row.values.get(name)) for name in names))
    if report.rows:
        console.print(table)
    for each in report.comparisons:
        verdict = {True: "reached", False: "missed", None: ""}[each.reached]
        console.print(f"  {each.name}: {each.value:.2f}  {each.goal and f'(goal {each.goal})'} {verdict}".rstrip())
    for note in report.notes:
        console.print(f"  {note}", style="dim", soft_wrap=True)


def write(reports: Sequence[Report], path: Path, *, started: str, quick: bool) -> None:
    """Write everything as JSON."""
    content = {
        "started": started,
        "quick": quick,
        "machine": machine(),
        "benchmarks": {report.name: asdict(report) for report in reports},
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _cell(value: Value | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    # As many digits as tell something.
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{max(0, 2 - floor(log10(value or 1)))}f}"
