"""The workflows of a project, and workers for them. Not here: what a worker does (`workflow.worker`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import dagster as dg

from feed_assets.blackboard.port import Blackboard
from feed_assets.checks.asset_checks import Limits, expectations_of
from feed_assets.engine.task_tables import SparkTables
from feed_assets.feed_events.declarations import declared_feed
from feed_assets.resources.settings import Settings
from feed_assets.starts.attempts import Attempts
from feed_assets.state.store import Store
from feed_assets.workers.computing import RunsOfAssets
from feed_assets.workers.publisher import FeedPublisher, PublishedFeed
from feed_assets.workflow.flow import Stage, Workflow
from feed_assets.workflow.worker import Caller, Worker

WORKFLOWS: Final = "workflows"
"""The resource in which commands find the workflows of some definitions."""


@dataclass(frozen=True, slots=True)
class ProjectWorkflows:
    """The workflows of a project, and the feeds that their stages publish."""

    flows: tuple[Workflow, ...] = ()
    feeds: Mapping[dg.AssetKey, PublishedFeed] = field(default_factory=dict)
    computed: Mapping[dg.AssetKey, Workflow] = field(default_factory=dict)
    """The workflow that computes each of these assets."""

    @classmethod
    def of(cls, flows: Iterable[Workflow], asset_checks: Sequence[dg.AssetChecksDefinition]) -> ProjectWorkflows:
        """The workflows, with the audits among the checks.

        Raises DagsterInvalidDefinitionError if two have one name, if a stage publishes what is no feed, or if two
        stages publish one feed.
        """
        found = tuple(flows)
        if len({each.name for each in found}) < len(found):
            raise dg.DagsterInvalidDefinitionError("Two workflows have one name: rename one of them.")
        audits = {key: rules for each in asset_checks for key, rules in expectations_of(each).items()}
        feeds: dict[dg.AssetKey, PublishedFeed] = {}
        for flow in found:
            for stage in flow.stages.values():
                if (asset := stage.publishes) is not None:
                    if asset.key in feeds:
                        message = f"Two stages publish {asset.key.to_user_string()}: a feed has one maker."
                        raise dg.DagsterInvalidDefinitionError(message)
                    feeds[asset.key] = _published(flow, stage, audits)
        computed: dict[dg.AssetKey, Workflow] = {}
        for flow in found:
            for asset in flow.computed:
                if asset.key in feeds or computed.setdefault(asset.key, flow) is not flow:
                    message = f"Two stages make {asset.key.to_user_string()}: a feed has one maker."
                    raise dg.DagsterInvalidDefinitionError(message)
        return cls(found, feeds, computed)

    def worker(
        self,
        settings: Settings,
        definitions: dg.Definitions,
        flow: Workflow,
        stages: Sequence[Stage],
        caller: Caller,
        done: Callable[[Stage, int, str], None],
    ) -> Worker:
        """A worker for some stages. Its Spark starts with the first task that has a table."""
        board: Blackboard = settings.blackboard.blackboard

        def spark() -> Any:
            return settings.spark.spark_session

        publisher = FeedPublisher(board, spark, settings.clock.now, self.feeds, Limits().tolerance)
        computer = RunsOfAssets(
            definitions, settings.run_config, Attempts(Store(settings.state), board.uri(""), settings.clock.now)
        )
        return Worker(flow, stages, caller, board, SparkTables(board, spark), publisher, computer, done)


def _published(flow: Workflow, stage: Stage, audits: Mapping[dg.AssetKey, Any]) -> PublishedFeed:
    asset = stage.publishes
    where = f"The stage {stage.name} of the workflow {flow.name}"
    declaration = declared_feed(asset.metadata_by_key[asset.key]) if isinstance(asset, dg.AssetsDefinition) else None
    if declaration is None:
        raise dg.DagsterInvalidDefinitionError(f"{where} publishes what is no asset with a feed: give it one.")
    return PublishedFeed(declaration, asset.partitions_def, audits.get(asset.key, ()))
