"""Reads a step's outputs, partitions, code version and configuration from Dagster's contexts.

Here: every private name of Dagster's that this takes. Not here: storage and Spark.
"""

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import dagster as dg
from dagster._core.execution.plan.outputs import StepOutputHandle  # the only name for an output of a step
from pyspark.sql import DataFrame

from feed_assets.datasets.days import ONE_DAY
from feed_assets.datasets.declaration import FeedDeclaration, Place
from feed_assets.dependencies.gate.trigger import Trigger
from feed_assets.feed_events.declarations import CONFIGURATION, PROFILED, declared_feed, is_required, plain
from feed_assets.feed_events.selection import asset_layer
from feed_assets.feed_events.triggers import REOPENED_TAG, REVISIONS_TAG, declared_trigger, has_trigger
from feed_assets.file_feed.digest import short_digest
from feed_assets.io_manager.run_attempts import root_of
from feed_assets.partitions.time_windows import time_window, window_of
from feed_assets.resources.settings import Clock
from feed_assets.resources.spark import SparkResource
from feed_assets.resources.storage import BlackboardResource
from feed_assets.steps.run import Content, Output, Run

INFRASTRUCTURE = frozenset(
    {
        "attempts",
        "blackboard",
        "clock",
        "file_feed",
        "io_manager",
        "limits",
        "live_steps",
        "project",
        "slot_marks",
        "spark",
        "state",
        "warehouse",
    }
)
"""Resources that do not change an update's content, and are not part of its configuration.

The limits of its checks are not, either: a run without these checks does not have them.
"""


def run_of(
    run: dg.DagsterRun,
    blackboard: BlackboardResource,
    spark: SparkResource,
    clock: Clock,
    log: logging.Logger,
    starts: Mapping[Place, str] | None = None,
) -> Run:
    """The run for steps and audits. Spark starts at its first use. `starts` as for `Run`."""
    return Run(
        run_id=run.run_id,
        root_run_id=root_of(run),
        board=blackboard.blackboard,
        spark=lambda: spark.spark_session,
        now=clock.now,
        log=log,
        starts=starts or {},
        revisions=json.loads(run.tags.get(REVISIONS_TAG, "{}")),
    )


def flows_of(step: Any, manager: dg.IOManager) -> dict[Place, str]:
    """The outputs with a trigger, each with a digest of the revisions of the inputs that only the gate knows.

    These are inputs that only its trigger names, and inputs that somebody reopened. A start with other such revisions
    is another start, although it reads the same inputs. "": there are none.
    """
    tags = step.dagster_run.tags
    revisions, reopened = json.loads(tags.get(REVISIONS_TAG, "{}")), tags.get(REOPENED_TAG, "")
    return {
        (declaration.location, partition): ",".join(filter(None, (_extra_digest(trigger, revisions), reopened)))
        for context, declaration in _feeds_of(step, manager)
        if (trigger := declared_trigger(context.definition_metadata)) is not None
        for partition in partitions_of(context)
    }


def _extra_digest(trigger: Trigger, revisions: Mapping[str, int]) -> str:
    """A digest of the revisions of inputs that only the trigger names; "" if it names none."""
    names = {each.dataset for each in trigger.also}
    extra = sorted((slot, revision) for slot, revision in revisions.items() if slot.partition(" ")[0] in names)
    return short_digest(json.dumps(extra)) if extra else ""


def _feeds_of(step: Any, manager: dg.IOManager) -> Iterator[tuple[dg.OutputContext, FeedDeclaration]]:
    """The selected outputs that are feeds and that this IO manager writes."""
    for name in sorted(step.selected_output_names):
        handle = StepOutputHandle(step.step.key, name)
        if step.get_io_manager(handle) is manager:
            context = step.get_output_context(handle)
            if (declaration := declared_feed(context.definition_metadata)) is not None:
                yield context, declaration


def outputs_of(step: Any, manager: dg.IOManager, digested: Collection[dg.AssetKey] = ()) -> Iterator[Output]:
    """The partitions of the selected outputs that are feeds and that this IO manager writes.

    The rows of `digested` assets, and of those with a trigger, get a digest.
    """
    for context, declaration in _feeds_of(step, manager):
        definition = context.asset_partitions_def if context.has_asset_partitions else None
        version, digest = _code_version(context), _config_digest(context)
        content = _content(context, digested)
        for partition in partitions_of(context):
            yield Output(declaration, partition, window_of(definition, partition), version, digest, content)


def _content(context: dg.OutputContext, digested: Collection[dg.AssetKey]) -> Content:
    """What is recorded of the rows of an output: the digest for the gate; the profile only if the asset asks for it.

    A profile takes a few percent of a run.
    """
    own = context.definition_metadata
    digest = context.asset_key in digested or has_trigger(own)
    return Content(digest=digest, profile=bool(plain(own.get(PROFILED))))


def partitions_of(context: dg.InputContext | dg.OutputContext) -> list[str | None]:
    """The partitions of an input or an output of this run; [None] if its asset has no partitions."""
    return list(map(str, context.asset_partition_keys)) if context.has_asset_partitions else [None]


def makes_hours(step: Any) -> bool:
    """Whether this step's own partitions are shorter than a day."""
    own = step.entity_partitions_def
    window = time_window(own, step.partition_key_range.start) if own is not None else None
    return window is not None and window.end - window.start < ONE_DAY


def is_selected(context: Any, key: dg.AssetKey) -> bool:
    """Whether the run of this step or check computes the asset, too."""
    return key in asset_layer(context).selected_asset_keys


def is_required_input(context: dg.InputContext, partition: str | None) -> bool:
    """Whether a missing upstream partition is an error: it shares time with the output, and is not optional.

    Other partitions are read if they exist: those that a mapping adds outside that time (the next day's clicks), and
    all partitions of time for an output without a time or without partitions.
    """
    upstream = context.asset_partitions_def if context.has_asset_partitions else None
    own = context.step_context.entity_partitions_def
    if upstream is not None and own is None:
        return False
    window = time_window(upstream, partition)
    if window is None:
        return is_required(context.definition_metadata, None, None)
    windows = [time_window(own, key) for key in context.step_context.partition_key_range]
    first, last = windows[0], windows[-1]
    time = dg.TimeWindow(first.start, last.end) if first is not None and last is not None else None
    return is_required(context.definition_metadata, window, time)


def frames_by_partition(
    context: dg.OutputContext, obj: DataFrame | Mapping[str, DataFrame]
) -> Mapping[str | None, DataFrame]:
    """The frames to write by partition. Raises DagsterInvariantViolationError if they are not the run's partitions."""
    keys = partitions_of(context)
    if isinstance(obj, DataFrame) and len(keys) == 1:
        return {keys[0]: obj}
    if isinstance(obj, Mapping) and set(obj) == set(keys):
        return {key: obj[key] for key in keys if key is not None}
    named = "None" if obj is None else f"{type(obj).__module__}.{type(obj).__qualname__}"
    got = sorted(obj) if isinstance(obj, Mapping) else named
    raise dg.DagsterInvariantViolationError(
        f"{context.asset_key.to_user_string()} returned {got} for the partitions {keys}: return one DataFrame of Spark "
        "in a run over one partition, and a dict with a DataFrame for each key in a run over several."
    )


def _code_version(context: dg.OutputContext) -> str:
    """The version that the asset's code declares, or ""."""
    return context.asset_spec.code_version or ""


def _config_digest(context: dg.OutputContext) -> str:
    """16 hex digits that change with `CONFIGURATION` and the configuration of the op and its resources.

    Resources of INFRASTRUCTURE do not count.
    """
    resolved = context.step_context.resolved_run_config
    op = resolved.ops.get(context.step_context.op.name)
    settings = {
        "asset": plain(context.definition_metadata.get(CONFIGURATION)),
        "op": op.config if op else None,
        "resources": {
            name: resource.config for name, resource in resolved.resources.items() if name not in INFRASTRUCTURE
        },
    }
    return short_digest(json.dumps(settings, sort_keys=True, default=str))
