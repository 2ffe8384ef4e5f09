"""Publishing what the stages of a workflow return: staged under a claim, audited, and then visible or rejected.

Here: the updates of a stage's feed. Not here: the audit (`steps.audit`), and when a stage's work counts (`workflow`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.file_feed.control import records
from feed_assets.file_feed.quarantine import publish_both
from feed_assets.file_feed.staging import find_staged
from feed_assets.partitions.time_windows import partitions_before, window_of
from feed_assets.quality.expectation import Expectation
from feed_assets.quality.subject import Tolerance
from feed_assets.steps.audit import audit_output
from feed_assets.steps.run import Output, Run
from feed_assets.steps.step import Step
from feed_assets.workflow.errors import StageError
from feed_assets.workflow.flow import GONE, PUBLISHED, REJECTED

_LOOKED_AT: Final = 20
"""How many of the newest records of a partition are searched for an update that was decided before."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PublishedFeed:
    """A feed that a stage makes: its declaration, its partitions, and the expectations of its audit."""

    declaration: FeedDeclaration
    partitions: dg.PartitionsDefinition | None
    expectations: Sequence[Expectation]


@dataclass(frozen=True, slots=True)
class FeedPublisher:
    """Makes updates of the feeds of a project's assets. See `workflow.flow.Publisher`."""

    board: Blackboard
    spark: Callable[[], SparkSession]
    now: Callable[[], datetime]
    feeds: Mapping[dg.AssetKey, PublishedFeed]
    tolerance: Tolerance

    def stage(
        self, asset: dg.AssetsDefinition, partition: str | None, table: DataFrame, *, maker: str, digest: str
    ) -> str:
        """See `Publisher.stage`. A LIST and a PUT for the claim, and what Spark writes."""
        output = self._output(asset, partition, digest)
        step = Step.begin(self._run(maker), [output])
        return step.stage(output.place, table).claim.name

    def publish(self, asset: dg.AssetsDefinition, partition: str | None, update: str, *, maker: str) -> str:
        """See `Publisher.publish`. Whoever does it again finds what was done."""
        made, run = self._feed(asset), self._run(maker)
        feed = made.declaration.on(self.board)
        staged = find_staged(feed, partition, root_run_id=maker)
        if staged is None:
            found = (each for each in records(feed, partition, newest=_LOOKED_AT) if each.update == update)
            state = next((each.state for each in found), None)
            if state not in ("publishing", "published", "rejected"):
                return GONE
            if state == "rejected":
                return REJECTED
        if not made.declaration.audited:
            if staged is not None:
                publish_both(staged, now=self.now())
            return PUBLISHED
        output = self._output(asset, partition, "")
        before = list(partitions_before(made.partitions, partition, self.tolerance.recent))
        audited = audit_output(run, output, made.expectations, before=before, tolerance=self.tolerance)
        return REJECTED if audited.blocking else PUBLISHED

    def _output(self, asset: dg.AssetsDefinition, partition: str | None, digest: str) -> Output:
        made = self._feed(asset)
        name = asset.key.to_user_string()
        if (partition is None) != (made.partitions is None):
            raise StageError(
                f"{name} has {'no ' if made.partitions is None else ''}partitions, and the payload names "
                f"{'none' if partition is None else partition}: put the partition into the payload as `day`, or call "
                "`work.publish(rows, partition)`."
            )
        if partition is not None and not made.partitions.has_partition_key(partition):  # type: ignore[union-attr]
            raise StageError(f"{partition} is no partition of {name}, or has not ended.")
        return Output(made.declaration, partition, window_of(made.partitions, partition), config_digest=digest)

    def _feed(self, asset: dg.AssetsDefinition) -> PublishedFeed:
        if asset.key not in self.feeds:
            raise StageError(f"{asset.key.to_user_string()} is no feed of this project's workflows.")
        return self.feeds[asset.key]

    def _run(self, maker: str) -> Run:
        return Run(maker, maker, self.board, self.spark, self.now, _log)
