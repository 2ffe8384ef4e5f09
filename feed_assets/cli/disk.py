"""The message about a full disk: which disk, what is left on it, and how much is needed.

Here: that message. Not here: noticing it (`backfill`, `errors`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from feed_assets.blackboard import local_directory

if TYPE_CHECKING:
    from feed_assets.cli.installation import Installation

MIB = 2**20


def no_space_left(installation: Installation, days: Sequence[str]) -> str:
    """The message for a backfill that had no space to compute these days."""
    from feed_assets.sources import raw_days  # noqa: PLC0415 - loads pydantic

    sources = [source.key for source in installation.sources]
    first, last = date.fromisoformat(min(days)), date.fromisoformat(max(days))
    found = raw_days(installation.blackboard, sources, first, last)
    raw = sum(each.bytes for (_, day), each in found.items() if str(day) in days)
    needed = f"The failed days read {_mib(raw)} of raw data; their results need about as much."
    return f"No space is left. {_free(installation.settings.base)} {needed} Free it, then run the same backfill again."


def _free(base: str) -> str:
    """The free space of each place that a run writes to, the fullest disk first."""
    directory = local_directory(base)
    places = {
        **({"the data": directory} if directory else {}),
        "Spark's temporary files (SPARK_LOCAL_DIRS)": Path(os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()),
        "Dagster's runs (DAGSTER_HOME)": Path(os.environ.get("DAGSTER_HOME") or "."),
    }
    free = {f"{name} in {path}": shutil.disk_usage(path).free for name, path in places.items() if path.is_dir()}
    parts = [f"{_mib(size)} for {place}" for place, size in sorted(free.items(), key=lambda each: each[1])]
    return f"Free are {', '.join(parts)}."


def _mib(size: int) -> str:
    return f"{size / MIB:,.1f} MiB"
