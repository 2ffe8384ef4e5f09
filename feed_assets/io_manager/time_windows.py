"""The time that a partition stands for, whatever Dagster's definition of it: hours, days, weeks, several dimensions.

Here: reading Dagster's definitions of partitions. Not here: which partitions this project has (`partitions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import dagster as dg


def time_window(definition: dg.PartitionsDefinition | None, partition: str | None) -> dg.TimeWindow | None:
    """The time of a partition; None where its definition has no time, or more than one dimension of time."""
    dimension = _time_dimension(definition)
    if definition is None or partition is None or dimension is None:
        return None
    if isinstance(definition, dg.MultiPartitionsDefinition):
        partition = definition.get_partition_key_from_str(partition).keys_by_dimension[dimension]
        definition = definition.get_partitions_def_for_dimension(dimension)
    assert isinstance(definition, dg.TimeWindowPartitionsDefinition)  # noqa: S101 - what a time dimension is
    return definition.time_window_for_partition_key(partition)


def window_of(definition: dg.PartitionsDefinition | None, partition: str | None) -> tuple[datetime, datetime] | None:
    """The same for those who know no Dagster: from its start to before its end."""
    window = time_window(definition, partition)
    return (window.start, window.end) if window else None


def partitions_before(definition: dg.PartitionsDefinition | None, partition: str | None, count: int) -> Iterator[str]:
    """The partitions of the time before, at most so many, newest first; alike in every other dimension."""
    dimension = _time_dimension(definition)
    if definition is None or partition is None or dimension is None:
        return
    others: dict[str, str] = {}
    times = definition
    if isinstance(definition, dg.MultiPartitionsDefinition):
        others = dict(definition.get_partition_key_from_str(partition).keys_by_dimension)
        partition = others[dimension]
        times = definition.get_partitions_def_for_dimension(dimension)
    assert isinstance(times, dg.TimeWindowPartitionsDefinition)  # noqa: S101 - what a time dimension is
    window: dg.TimeWindow | None = times.time_window_for_partition_key(partition)
    for _ in range(count):
        window = times.get_prev_partition_window(window.start) if window else None
        if window is None:
            return
        key = times.get_partition_key_for_timestamp(window.start.timestamp())
        yield str(dg.MultiPartitionKey({**others, dimension: key})) if others else key


def _time_dimension(definition: dg.PartitionsDefinition | None) -> str | None:
    """The dimension that is time: its name, "" where there is but one dimension, None where none or several are."""
    if isinstance(definition, dg.MultiPartitionsDefinition):
        times = [
            each.name
            for each in definition.partitions_defs
            if isinstance(each.partitions_def, dg.TimeWindowPartitionsDefinition)
        ]
        return times[0] if len(times) == 1 else None
    return "" if isinstance(definition, dg.TimeWindowPartitionsDefinition) else None
