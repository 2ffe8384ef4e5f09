"""Choosing Java's compiler by the size of what is to be read.

Here: the choice. Not here: what each compiler is good for (`engine.session`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Final

from feed_assets.blackboard.port import Blackboard
from feed_assets.engine.session import compile_quickly
from feed_assets.file_feed.record import RawInput
from feed_assets.sources.raw import each_day, latest_days
from feed_assets.sources.spec import Source

DAYS_LOOKED_AT: Final = 7
SMALL_DAY: Final = 8 * 2**20
SMALL_DELIVERY: Final = 4 * 2**20
"""Bytes: compressed, these are a few hundred thousand records, up to which a quick compiler is faster (measured)."""


def compile_for_days(blackboard: Blackboard, sources: Iterable[Source], first: date, last: date) -> None:
    """Let the Java that this process starts compile quickly if there are raw files, and those of a day are small.

    It judges by the first days of each source in this period: two listings for each.

    Raises BlackboardError.
    """
    _compile_for(each_day(blackboard, source.key, first, last) for source in sources)


def compile_for_latest_days(blackboard: Blackboard, sources: Iterable[Source]) -> None:
    """As `compile_for_days`, for the last days that have raw files: three listings for each source."""
    latest = ((source.key, latest_days(blackboard, source.key, DAYS_LOOKED_AT)) for source in sources)
    _compile_for(each_day(blackboard, key, days[0], days[-1]) for key, days in latest if days)


def _compile_for(days_of_sources: Iterable[Iterable[RawInput]]) -> None:
    size = 0.0
    for days in days_of_sources:
        sizes = [day.bytes for day in islice(days, DAYS_LOOKED_AT)]
        size += sum(sizes) / max(1, len(sizes))
    if 0 < size <= SMALL_DAY:
        compile_quickly()


def compile_for_delivery(files: Iterable[Path]) -> None:
    """Let the Java that this process starts compile quickly if there are such files, and together they are small."""
    if 0 < sum(file.stat().st_size for file in files if file.is_file()) <= SMALL_DELIVERY:
        compile_quickly()
