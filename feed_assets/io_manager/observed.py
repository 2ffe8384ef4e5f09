"""Rows whose figures Spark computes while it writes them. Not here: writing (`steps`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Observed:
    """An output of one partition: its rows, and a function that gives its metadata when the rows are written.

    For aggregates that `DataFrame.observe` added to the rows. So Spark computes the rows once, and keeps none of them.
    """

    rows: DataFrame
    metadata: Callable[[], Mapping[str, Any]]
