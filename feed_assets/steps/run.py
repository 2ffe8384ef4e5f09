"""A run and its outputs, as plain values that the caller of a step fills in. Not here: the work (`step`, `audit`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pyspark.sql import SparkSession

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.declaration import FeedDeclaration, Place

Window = tuple[datetime, datetime]
"""The time from the first moment to before the second."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run with its storage, Spark and clock. `root_run_id` is the first run of its chain of re-executions.

    `spark` returns the session, and starts it if none runs. `now` returns the time, aware, in UTC. `starts` has the
    outputs of which each start publishes one update at most, however often it runs (see `file_feed.start_objects`): the
    outputs with a trigger, each with the key of its forced start, or "". `revisions` are those of the input slots for
    which the gate started the run.
    """

    run_id: str
    root_run_id: str
    board: Blackboard
    spark: Callable[[], SparkSession]
    now: Callable[[], datetime]
    log: logging.Logger
    starts: Mapping[Place, str] = field(default_factory=dict)
    revisions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Content:
    """What is recorded of the rows of an update: their digest, and their profile (see `engine.profiling`)."""

    digest: bool = False
    profile: bool = False


NOTHING: Final = Content()


@dataclass(frozen=True, slots=True)
class Output:
    """A partition of a feed that a step makes and an audit decides on.

    `window` is the time of the partition, None if it stands for no time. `code_version` and `config_digest` identify
    the code and the configuration of the step in the update's record. `content` is what is recorded there of the rows
    themselves.
    """

    declaration: FeedDeclaration
    partition: str | None = None
    window: Window | None = None
    code_version: str = ""
    config_digest: str = ""
    content: Content = NOTHING

    @property
    def place(self) -> Place:
        """Its key among the outputs of a step."""
        return self.declaration.location, self.partition
