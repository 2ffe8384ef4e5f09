"""How far the jobs of a step are: tasks, rows and bytes.

Here: the figures, and their words. Not here: where they come from (`job_progress`), so that whoever shows them needs no
Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from feed_assets.file_feed.wording import counted

SIZES: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
EXACT: Final = 1_000_000
"""From here on, a number of rows is rounded to a tenth of a million."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Sums over the jobs that a step has started up to now. Later jobs are not known yet.

    Rows and bytes count each pass over the same data, and the tasks that failed, too.
    """

    stages_done: int
    stages: int
    tasks_done: int
    tasks: int
    rows_read: int
    bytes_read: int
    rows_written: int
    bytes_written: int

    @property
    def sentence(self) -> str:
        """The figures: `stage 2 of 3, 118 of 200 tasks, 41.2 million rows and 3.1 GB read`."""
        parts = [
            f"stage {min(self.stages_done + 1, self.stages)} of {self.stages}",
            f"{self.tasks_done:,} of {counted(self.tasks, 'task')}",
            *_amount(self.rows_read, self.bytes_read, "read"),
            *_amount(self.rows_written, self.bytes_written, "written"),
        ]
        return ", ".join(parts)


def _amount(rows: int, size: int, what: str) -> list[str]:
    known = [text for number, text in ((rows, _rows(rows)), (size, bytes_in_words(size))) if number]
    return [f"{' and '.join(known)} {what}"] if known else []


def _rows(number: int) -> str:
    return counted(number, "row") if number < EXACT else f"{number / EXACT:,.1f} million rows"


def bytes_in_words(number: int) -> str:
    """A size in units of thousands: 812 bytes, 3.1 GB."""
    size, unit = float(number), 0
    while size >= 999.95 and unit < len(SIZES) - 1:  # noqa: PLR2004 - it would be shown as 1000.0
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {SIZES[unit]}" if unit else f"{number} bytes"
