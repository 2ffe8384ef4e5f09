"""The message about a full disk: which disk, what is left on it, and how much is needed.

Here: that message. Not here: noticing it (`backfill`, `exit_codes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from feed_assets.cli.installation import Installation

MIB = 2**20


def no_space_left(installation: Installation, days: Sequence[str]) -> str:
    """The message for a backfill that had no space to compute these days."""
    from feed_assets.sources.raw import raw_days  # noqa: PLC0415 - loads pydantic

    sources = [source.key for source in installation.sources]
    first, last = date.fromisoformat(min(days)), date.fromisoformat(max(days))
    found = raw_days(installation.blackboard, sources, first, last)
    raw = sum(each.bytes for (_, day), each in found.items() if str(day) in days)
    needed = f"The failed days read {_mib(raw)} of raw data; their results need about as much."
    return f"No space is left. {_free(installation.settings.base)} {needed} Free it, then run the same backfill again."


def _free(base: str) -> str:
    from feed_assets.operations.doctor import free_space  # noqa: PLC0415 - loads Dagster

    return f"Free are {', '.join(f'{_mib(size)} for {place}' for place, size in free_space(base).items())}."


def _mib(size: int) -> str:
    return f"{size / MIB:,.1f} MiB"
