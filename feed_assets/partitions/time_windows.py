"""The time of a partition, for any of Dagster's definitions: hours, days, weeks, several dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from zoneinfo import ZoneInfo

import dagster as dg

from feed_assets.datasets.days import ONE_DAY


def time_window(definition: dg.PartitionsDefinition | None, partition: str | None) -> dg.TimeWindow | None:
    """The time of a partition; None if its definition has no dimension of time, or several."""
    times, dimension = times_of(definition), _time_dimension(definition)
    if times is None or partition is None or dimension is None:
        return None
    return times.time_window_for_partition_key(_by_dimension(definition, partition)[dimension])


def window_of(definition: dg.PartitionsDefinition | None, partition: str | None) -> tuple[datetime, datetime] | None:
    """The time of a partition without Dagster's type: its start and its end, which is exclusive."""
    window = time_window(definition, partition)
    return (window.start, window.end) if window else None


def partition_keys(definition: dg.PartitionsDefinition | None) -> tuple[str, ...]:
    """The keys by which other programs know these partitions.

    `date` if a date names each, `date` and `hour` for full hours, `partition` for others, and none without partitions.
    """
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        if definition.fmt == "%Y-%m-%d":
            return ("date",)
        hourly = isinstance(definition, dg.HourlyPartitionsDefinition) and definition.minute_offset == 0
        if hourly and definition.fmt == "%Y-%m-%d-%H:%M":
            return ("date", "hour")
    return () if definition is None else ("partition",)


def partitions_before(definition: dg.PartitionsDefinition | None, partition: str | None, count: int) -> Iterator[str]:
    """Up to `count` partitions before this one in time, newest first, equal in every other dimension."""
    times, dimension = times_of(definition), _time_dimension(definition)
    if times is None or partition is None or dimension is None:
        return
    own = _by_dimension(definition, partition)
    window: dg.TimeWindow | None = times.time_window_for_partition_key(own[dimension])
    for _ in range(count):
        window = times.get_prev_partition_window(window.start) if window else None
        if window is None:
            return
        key = times.get_partition_key_for_timestamp(window.start.timestamp())
        yield str(dg.MultiPartitionKey({**own, dimension: key})) if dimension else key


def times_of(definition: dg.PartitionsDefinition | None) -> dg.TimeWindowPartitionsDefinition | None:
    """The definition of the partitions' times; None if no dimension is time, or several are."""
    dimension = _time_dimension(definition)
    if dimension and isinstance(definition, dg.MultiPartitionsDefinition):
        definition = definition.get_partitions_def_for_dimension(dimension)
    return definition if isinstance(definition, dg.TimeWindowPartitionsDefinition) else None


def has_dynamic_names(definition: dg.PartitionsDefinition | None) -> bool:
    """Whether a dimension has names that only an instance knows."""
    if isinstance(definition, dg.MultiPartitionsDefinition):
        return any(has_dynamic_names(each.partitions_def) for each in definition.partitions_defs)
    return isinstance(definition, dg.DynamicPartitionsDefinition)


def begun_on(definition: dg.PartitionsDefinition | None, day: date) -> list[str]:
    """The partitions that begin on this day of their time zone, with all names of another dimension.

    Empty if the partitions have no time, or if names are dynamic: only an instance knows those.
    """
    times = times_of(definition)
    if times is None or not _reach(times, day):
        return []
    window = dg.TimeWindow(_midnight(times, day), _midnight(times, day + ONE_DAY))
    keys = [key for key in times.get_partition_keys_in_time_window(window) if times.has_partition_key(key)]
    return _in_all_dimensions(definition, keys)


def within(definition: dg.PartitionsDefinition | None, start: datetime, end: datetime) -> list[str]:
    """The partitions that begin in this time or are under way at its start, with all names of another dimension.

    Empty if the partitions have no time, or if names are dynamic: only an instance knows those. The definition may have
    begun later than the first of them.
    """
    times = times_of(definition)
    if times is None:
        return []
    keys = times.get_partition_keys_in_time_window(dg.TimeWindow(start, end))
    # A month is over long after it began.
    first = times.get_partition_key_for_timestamp(start.timestamp())
    return _in_all_dimensions(definition, list(dict.fromkeys([first, *keys])))


def during(definition: dg.PartitionsDefinition | None, day: date) -> list[str]:
    """The partitions that begin on this day, or else those in which it begins; otherwise as `begun_on`."""
    begun, times = begun_on(definition, day), times_of(definition)
    if begun or times is None or not _reach(times, day):
        return begun
    key = times.get_partition_key_for_timestamp(_midnight(times, day).timestamp())
    return _in_all_dimensions(definition, [key] if times.has_partition_key(key) else [])


def _reach(times: dg.TimeWindowPartitionsDefinition, day: date) -> bool:
    """Whether the day is between the first partition and the last. Dagster fails on the first and last days of all."""
    first, last = times.get_first_partition_window(), times.get_last_partition_window()
    return first is not None and last is not None and first.start.date() <= day <= last.end.date()


def _midnight(times: dg.TimeWindowPartitionsDefinition, day: date) -> datetime:
    return datetime.combine(day, time(), ZoneInfo(times.timezone))


def _in_all_dimensions(definition: dg.PartitionsDefinition | None, keys: Sequence[str]) -> list[str]:
    """The partitions of these times."""
    dimension = _time_dimension(definition)
    if not dimension or not isinstance(definition, dg.MultiPartitionsDefinition):
        return list(keys)
    if has_dynamic_names(definition):
        return []
    return [str(key) for key in definition.get_multipartition_keys_with_dimension_values(dimension, keys)]


def _by_dimension(definition: dg.PartitionsDefinition | None, partition: str) -> Mapping[str, str]:
    """The parts of a partition's name by dimension; the whole under "" if there is one dimension."""
    if isinstance(definition, dg.MultiPartitionsDefinition):
        return definition.get_partition_key_from_str(partition).keys_by_dimension
    return {"": partition}


def _time_dimension(definition: dg.PartitionsDefinition | None) -> str | None:
    """The name of the dimension of time; "" if the definition has one dimension, None without one or with several."""
    if isinstance(definition, dg.MultiPartitionsDefinition):
        times = [
            each.name
            for each in definition.partitions_defs
            if isinstance(each.partitions_def, dg.TimeWindowPartitionsDefinition)
        ]
        return times[0] if len(times) == 1 else None
    return "" if isinstance(definition, dg.TimeWindowPartitionsDefinition) else None
