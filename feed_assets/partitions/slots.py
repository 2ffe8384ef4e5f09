"""Dagster's partitions as slots: which dataset a feed is, and which partition is which slot.

Here: hours, days, ISO weeks, months of any time zone, and feeds without partitions. Not here: what a slot is
(`datasets`). Other partitions are no slots: names, several dimensions, days that begin at another hour.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo

import dagster as dg

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import MemberError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import date_of, day_of, instant_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot
from feed_assets.errors import FeedAssetsError

_EPOCH: Final = date(1970, 1, 1)
_GRAINS: Final = {
    "0 * * * *": Grain.HOUR,
    "0 0 * * *": Grain.DAY,
    "0 0 * * 1": Grain.WEEK,
    "0 0 1 * *": Grain.MONTH,
}
"""The cron expressions, as Dagster writes them, of partitions that begin where slots do."""
_FITTING: Final = "slots are full hours, days from midnight, weeks from Monday, months, or a feed without partitions."


class NoSlotsError(FeedAssetsError):
    """Partitions that are no slots; the message says which are."""


def feed_dataset(location: str, partitions: dg.PartitionsDefinition | None) -> Dataset:
    """The dataset of a feed with these partitions: its base is their length. Raises NoSlotsError."""
    if partitions is None:
        return Dataset.flat(location, Grain.WHOLE, first=_EPOCH)
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        raise NoSlotsError(
            f"The partitions of {location} are {type(partitions).__name__}: {_FITTING} Leave its trigger out, or give "
            "it such partitions."
        )
    if (grain := _GRAINS.get(partitions.cron_schedule)) is None:
        raise NoSlotsError(
            f"The partitions of {location} begin by the cron expression {partitions.cron_schedule!r}: {_FITTING} Leave "
            "its trigger out, or use these."
        )
    first = partitions.start.astimezone(ZoneInfo(partitions.timezone)).date()
    try:
        return Dataset.flat(location, grain, first=first, calendar=Calendar(partitions.timezone))
    except MemberError as error:
        raise NoSlotsError(f"{location}: {error}") from None


def slot_of(dataset: Dataset, partitions: dg.PartitionsDefinition | None, partition: str | None) -> Slot:
    """The slot of a partition. `dataset` is that of `feed_dataset`."""
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition) or partition is None:
        return Slot(dataset.name, NO_MEMBER, Grain.WHOLE, 0)
    start = partitions.time_window_for_partition_key(partition).start
    begin = instant_of(start.astimezone(UTC)) if dataset.base.seconds else day_of(start.date())
    return Slot(dataset.name, NO_MEMBER, dataset.base, begin)


def partition_of(partitions: dg.PartitionsDefinition | None, slot: Slot) -> str | None:
    """The partition of a slot; None for a feed without partitions."""
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return None
    if slot.grain.seconds:
        return partitions.get_partition_key_for_timestamp(slot.start)
    midnight = datetime.combine(date_of(slot.start), datetime.min.time(), ZoneInfo(partitions.timezone))
    return partitions.get_partition_key_for_timestamp(midnight.timestamp())
