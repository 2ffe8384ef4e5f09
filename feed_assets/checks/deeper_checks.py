"""Checks that look deeper into an update in force, when something about it is unusual: their failure is a mark.

Here: these checks, as Dagster's. Not here: when they run (`sensors.slot_quality`), the marks (`dependencies`), and
audits, which decide whether an update is published (`asset_checks`).
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import dagster as dg

from feed_assets.checks.asset_checks import NO_PARTITION, Limits, check_spec
from feed_assets.feed_events.declarations import declared_feed
from feed_assets.feed_events.results import results
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.feed import Update
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.record import CheckOutcome
from feed_assets.io_manager.live_steps import LiveSteps, watched
from feed_assets.io_manager.retries import retrying
from feed_assets.io_manager.step_contexts import is_selected, run_of
from feed_assets.partitions.time_windows import partitions_before, window_of
from feed_assets.quality.expectation import Expectation
from feed_assets.resources.settings import Clock
from feed_assets.resources.spark import SparkResource
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.steps.audit import Audited, evaluated
from feed_assets.steps.candidate import Candidate
from feed_assets.steps.run import Output, Run

DEEPER: Final = "feed/deeper"
"""On a check: it runs on demand, and its failure marks the slot."""
SLOT_MARKS: Final = "slot_marks"
"""The resource that takes the results of deeper checks."""


class SlotMarks(Protocol):
    """Takes the results of deeper checks: `sensors.slot_marks`."""

    def take(
        self, run: Run, state: StateResource, location: str, update: Update, outcomes: Sequence[CheckOutcome]
    ) -> str:
        """Mark the slot of the update for each failure, and take back the marks of what passes. Returns a sentence."""
        ...


def deeper(
    asset: dg.AssetsDefinition, expectations: Sequence[Expectation], *, key: dg.AssetKey | str | None = None
) -> dg.AssetChecksDefinition:
    """Checks that look deeper into the update in force of an asset, when its profile is unusual.

    Give the asset `feed_metadata(..., profiled=True)`; it or an asset that reads it needs a `trigger()`. The sensor
    `slot_quality` runs them on a partition whose profile is unusual beside those of recent weeks, and again on a new
    revision of what they marked. Anybody may run them from Dagster's UI. A failure marks the slot as bad, with what was
    observed; a pass takes the check's own marks back. The update stays in force. In a run that makes the asset they are
    skipped. `key` selects one asset of a multi-asset.

    Raises DagsterInvalidDefinitionError if the asset is no feed, or the expectations are no list of expectations.
    """
    key = asset.key if key is None else dg.AssetKey.from_user_string(key) if isinstance(key, str) else key
    declaration = declared_feed(asset.metadata_by_key[key])
    name = f"{key.to_python_identifier()}_deeper"
    if declaration is None:
        raise dg.DagsterInvalidDefinitionError(f"{key.to_user_string()} is no feed: give it `feed_metadata(...)`.")
    if not isinstance(expectations, Sequence) or not all(isinstance(each, Expectation) for each in expectations):
        raise dg.DagsterInvalidDefinitionError(
            f"The deeper checks of {key.to_user_string()} are a list of expectations, such as `[checks.not_empty()]`."
        )
    partitions = asset.specs_by_key[key].partitions_def

    @dg.multi_asset_check(
        name=name,
        specs=[check_spec(key, each, partitions, blocking=False, metadata={DEEPER: True}) for each in expectations],
        can_subset=True,
        compute_kind="pyspark",
    )
    def check(
        context: dg.AssetCheckExecutionContext,
        blackboard: BlackboardResource,
        state: StateResource,
        spark: SparkResource,
        clock: Clock,
        limits: Limits,
        slot_marks: dg.ResourceParam[SlotMarks],
        live_steps: dg.ResourceParam[LiveSteps],
    ) -> Iterator[dg.AssetCheckResult]:
        if is_selected(context, key):
            context.log.info("Deeper checks run on demand: when the profile of this update is unusual.")
            return
        if partitions is not None and not (context.has_partition_key or context.has_partition_key_range):
            raise dg.Failure(description=NO_PARTITION.format(name), allow_retries=False)
        selected = {each.name for each in context.selected_asset_check_keys}
        wanted = [each for each in expectations if each.name in selected]
        keys = list(map(str, context.partition_keys)) if partitions is not None else [None]
        places = [(declaration.location, partition) for partition in keys]
        audited: dict[str | None, Audited] = {}
        with (
            live_steps.watching(name, places, context.log, context.retry_number) as watch,
            retrying(context.retry_number),
        ):
            run = watched(run_of(context.run, blackboard, spark, clock, context.log), watch)
            for partition in keys:
                update = latest(declaration.on(run.board), partition, now=run.now())
                if update is None:
                    message = f"{declaration.on(run.board).title(partition)} has no valid update to check."
                    raise dg.Failure(description=message, allow_retries=False)
                found = Candidate(update, read_record(update.feed, partition, update.name), None)
                outcomes = evaluated(
                    run,
                    Output(declaration, partition, window_of(partitions, partition)),
                    found,
                    wanted,
                    before=list(partitions_before(partitions, partition, limits.recent_days)),
                    tolerance=limits.tolerance,
                )
                done = slot_marks.take(run, state, declaration.location, update, outcomes)
                run.log.info(done)
                audited[partition] = Audited(update.name, outcomes, done, found)
        yield from results(context, key, audited)

    return check
