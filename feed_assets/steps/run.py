"""Who runs a step, what it runs on, and what it is to make.

Here: plain values, that a caller fills in from wherever it runs. Not here: the work itself (`step`, `audit`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from feed_assets.blackboard import Blackboard
from feed_assets.datasets import FeedDeclaration

Place = tuple[str, str | None]
"""The location of a feed, and one of its partitions (None: it has none)."""

Window = tuple[datetime, datetime]
"""A time, from its start to before its end."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run, and what it runs on. `root_run_id` is the first run of its chain of re-executions.

    `spark` returns the session, and starts it where none runs yet. `now` returns the time, aware, in UTC.
    """

    run_id: str
    root_run_id: str
    board: Blackboard
    spark: Callable[[], SparkSession]
    now: Callable[[], datetime]
    log: logging.Logger


@dataclass(frozen=True, slots=True)
class Output:
    """A partition of a feed that a step makes, and that an audit decides on.

    `window` is the time of the partition, None where it stands for none. `code_version` and `config_digest` identify
    the code and the configuration of the step in the update's record.
    """

    declaration: FeedDeclaration
    partition: str | None = None
    window: Window | None = None
    code_version: str = ""
    config_digest: str = ""

    @property
    def place(self) -> Place:
        """Its key among the outputs of a step."""
        return self.declaration.location, self.partition
