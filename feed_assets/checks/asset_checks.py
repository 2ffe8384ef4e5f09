"""The Dagster checks of an audited asset: one for each expectation, evaluated together by the audit.

Here: the contexts of checks. Not here: the audit (`steps.audit`), the rules (`quality`), the checks' results in
Dagster (`results`), and the update in force in its UI (`reports`).
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import dagster as dg
from pydantic import Field

from feed_assets.feed_events.declarations import declared_feed
from feed_assets.feed_events.reports import report_audit, report_left_out
from feed_assets.feed_events.results import results
from feed_assets.feed_events.triggers import has_trigger
from feed_assets.io_manager.live_steps import LiveSteps, watched
from feed_assets.io_manager.retries import retrying
from feed_assets.io_manager.run_attempts import RunAttempts
from feed_assets.io_manager.step_contexts import is_selected, run_of
from feed_assets.partitions.time_windows import partitions_before, window_of
from feed_assets.quality.expectation import Expectation
from feed_assets.quality.subject import Tolerance
from feed_assets.resources.settings import Clock
from feed_assets.resources.spark import SparkResource
from feed_assets.resources.storage import BlackboardResource
from feed_assets.starts.attempt import State
from feed_assets.steps.audit import Audited, audit_output
from feed_assets.steps.candidate import NothingToAuditError
from feed_assets.steps.run import Output

NO_PARTITION = (
    "This run has no partition, and these checks look at one. Open a run that made the partition, select its step {}, "
    "and re-execute the step."
)

_EXPECTATIONS: WeakKeyDictionary[dg.AssetChecksDefinition, Mapping[dg.AssetKey, tuple[Expectation, ...]]] = (
    WeakKeyDictionary()
)


class Limits(dg.ConfigurableResource[None]):
    """The limits of the checks; a run may change them in its configuration."""

    quarantined_share: float = Field(
        default=0.05, ge=0, le=1, description="The share of the records read that may be quarantined."
    )
    usual_rows_factor: float = Field(
        default=2.0,
        ge=1,
        description="The largest factor between a partition's row count and the median of recent partitions.",
    )
    recent_days: int = Field(
        default=7, ge=1, description="The number of earlier partitions for the median; without a time, of updates."
    )

    @property
    def tolerance(self) -> Tolerance:
        """The limits without Dagster."""
        return Tolerance(self.quarantined_share, self.usual_rows_factor, self.recent_days)


def audit(
    asset: dg.AssetsDefinition, expectations: Sequence[Expectation], *, key: dg.AssetKey | str | None = None
) -> dg.AssetChecksDefinition:
    """The checks of an audited asset, one for each expectation, evaluated together on each partition of a run.

    `key` selects one asset of a multi-asset; each audited asset needs an audit. If all blocking expectations hold, the
    staged update is published. If one fails, it is rejected with the reason, and readers keep the update before. On a
    published update, a failed blocking expectation invalidates it, and an expectation that cannot be judged any more
    warns. The checks need the resources `blackboard`, `spark`, `clock`, `limits`, `attempts` and
    `live_steps`.

    Raises DagsterInvalidDefinitionError if the asset is not an audited feed, if the expectations are no list, or if
    two have the same name.
    """
    key = asset.key if key is None else dg.AssetKey.from_user_string(key) if isinstance(key, str) else key
    declaration = declared_feed(asset.metadata_by_key[key])
    if declaration is None or not declaration.audited:
        message = f"{key.to_user_string()} is not an audited feed: give it `metadata=feed_metadata(..., audited=True)`."
        raise dg.DagsterInvalidDefinitionError(message)
    if not isinstance(expectations, Sequence) or not all(isinstance(each, Expectation) for each in expectations):
        message = f"The audit of {key.to_user_string()} takes a list of expectations, such as `[checks.not_empty()]`."
        raise dg.DagsterInvalidDefinitionError(message)
    if twice := [name for name, times in Counter(each.name for each in expectations).items() if times > 1]:
        message = f"Two expectations of {key.to_user_string()} are named {', '.join(twice)}: give one another `name`."
        raise dg.DagsterInvalidDefinitionError(message)
    partitions = asset.specs_by_key[key].partitions_def
    triggered = has_trigger(asset.metadata_by_key[key])

    @dg.multi_asset_check(
        name=audit_name(key),
        specs=[check_spec(key, each, partitions, blocking=each.blocking) for each in expectations],
        can_subset=True,
        compute_kind="pyspark",
    )
    def check(
        context: dg.AssetCheckExecutionContext,
        blackboard: BlackboardResource,
        spark: SparkResource,
        clock: Clock,
        limits: Limits,
        attempts: dg.ResourceParam[RunAttempts],
        live_steps: dg.ResourceParam[LiveSteps],
    ) -> Iterator[dg.AssetCheckResult]:
        if partitions is not None and not (context.has_partition_key or context.has_partition_key_range):
            # The button "Execute all" of Dagster 1.13 asks for no partition.
            raise dg.Failure(description=NO_PARTITION.format(audit_name(key)), allow_retries=False)
        keys = list(map(str, context.partition_keys)) if partitions is not None else [None]
        places = [(declaration.location, partition) for partition in keys]
        made_here = is_selected(context, key)
        audited: dict[str | None, Audited] = {}
        with (
            live_steps.watching(audit_name(key), places, context.log, context.retry_number) as watch,
            retrying(context.retry_number),
        ):
            run = watched(run_of(context.run, blackboard, spark, clock, context.log), watch)
            for partition in keys:
                try:
                    audited[partition] = one = audit_output(
                        run,
                        Output(declaration, partition, window_of(partitions, partition)),
                        expectations,
                        before=list(partitions_before(partitions, partition, limits.recent_days)),
                        tolerance=limits.tolerance,
                        made_here=made_here,
                    )
                except NothingToAuditError as error:
                    raise dg.Failure(description=str(error), allow_retries=False) from None
                report_audit(context, key, one, now=run.now())
                if triggered:
                    result, why = (State.REJECTED, one.done) if one.blocking else (State.PUBLISHED, "")
                    attempts.end(context.run, (declaration.location, partition), result, why)
        if any(one.blocking for one in audited.values()):
            report_left_out(context, key, audited, blackboard=run.board, now=run.now())
        yield from results(context, key, audited)

    _EXPECTATIONS[check] = {key: tuple(expectations)}
    return check


def expectations_of(checks: dg.AssetChecksDefinition) -> Mapping[dg.AssetKey, tuple[Expectation, ...]]:
    """The expectations of an audit that `audit` has made, by its asset; none of other checks."""
    return _EXPECTATIONS.get(checks, {})


def audit_name(key: dg.AssetKey) -> str:
    """The name of the audit of an asset, as a step of Dagster."""
    return f"{key.to_python_identifier()}_audit"


def check_spec(
    key: dg.AssetKey,
    expectation: Expectation,
    partitions: dg.PartitionsDefinition | None,
    *,
    blocking: bool,
    metadata: Mapping[str, Any] | None = None,
) -> dg.AssetCheckSpec:
    """The check of an expectation, as Dagster declares it."""
    with warnings.catch_warnings():
        # Partitions on check specs are a preview feature, but only they gate a single day.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            expectation.name,
            asset=key,
            description=expectation.description,
            blocking=blocking,
            partitions_def=partitions,
            metadata=metadata,
        )
