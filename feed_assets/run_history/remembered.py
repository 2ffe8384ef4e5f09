"""Ticks of schedules that came while the run of an earlier tick went on. Not here: when one is started."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Remembered:
    """A tick that waits: the time at which it was wanted, and the partition; "" without partitions."""

    schedule: str
    partition: str
    wanted: datetime
