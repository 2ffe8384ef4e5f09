"""The audit: evaluates an asset's expectations on its staged update, and publishes or rejects it.

Here: the Dagster checks, and the only place where an audited update becomes visible. Not here: the rules themselves
(`expectations`). A store or a Spark that fails is an error of the run; only data can fail a check.
"""


import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import dagster as dg
from pydantic import Field

from feed_assets.checks.expectations import Expectation, Subject
from feed_assets.checks.subject import Candidate, count, describe, find_candidate
from feed_assets.file_feed import CheckOutcome, invalidate, publish, reject
from feed_assets.io_manager import FeedDeclaration
from feed_assets.resources import BlackboardResource, Clock, SparkResource


class Limits(dg.ConfigurableResource[None]):
    """How much is still good enough; a run may change it in its configuration."""

    quarantined_share: float = Field(
        default=0.05, ge=0, le=1, description="The share of the records read that may be quarantined."
    )
    usual_rows_factor: float = Field(
        default=2.0,
        ge=1,
        description="How far a day's row count may be from the median of recent days, as a factor.",
    )
    recent_days: int = Field(default=7, ge=1, description="How many days before make that median.")


def audit(
    asset: dg.AssetsDefinition, expectations: Sequence[Expectation], partitions: dg.PartitionsDefinition
) -> dg.AssetChecksDefinition:
    """The checks of an audited asset, one for each expectation, evaluated together in one pass over the files.

    All blocking ones hold: the staged update is published. One fails: it is rejected, with the reason, and readers
    keep the update before. Evaluated again on a published update, one that fails invalidates it.
    """
    key = asset.key
    declaration = FeedDeclaration.of(asset.metadata_by_key[key])
    if declaration is None or not declaration.audited:
        message = f"{key.to_user_string()} is not an audited feed: give it `metadata=feed_metadata(..., audited=True)`."
        raise dg.DagsterInvalidDefinitionError(message)

    @dg.multi_asset_check(
        name=f"{key.to_python_identifier()}_audit",
        specs=[_spec(key, expectation, partitions) for expectation in expectations],
        can_subset=True,
        compute_kind="pyspark",
    )
    def check(
        context: dg.AssetCheckExecutionContext,
        blackboard: BlackboardResource,
        spark: SparkResource,
        clock: Clock,
        limits: Limits,
    ) -> Iterator[dg.AssetCheckResult]:
        selected = {each.name for each in context.selected_asset_check_keys}
        feed = declaration.on(blackboard.blackboard)
        candidate = find_candidate(feed, context.partition_key, run_id=context.run.run_id, now=clock.now())
        subject = describe(
            candidate,
            declaration,
            spark.spark_session,
            day=date.fromisoformat(context.partition_key),
            recent=timedelta(days=limits.recent_days),
            quarantined_share_limit=limits.quarantined_share,
            usual_rows_factor=limits.usual_rows_factor,
            now=clock.now(),
        )
        outcomes = evaluate(expectations, subject, count(spark.spark_session, candidate, declaration, expectations))
        context.log.info(settle(candidate, outcomes, run_id=context.run.run_id, clock=clock))
        for outcome in outcomes:
            if outcome.name in selected:
                yield _result(key, outcome, candidate)

    return check


def evaluate(
    expectations: Sequence[Expectation], subject: Subject, counted: Mapping[str, Any]
) -> tuple[CheckOutcome, ...]:
    """The outcome of each expectation on what was counted."""
    outcomes = []
    for expectation in expectations:
        judgement = expectation.judge(
            subject, {name: counted[_alias(expectation, name)] for name in expectation.counts}
        )
        outcomes.append(
            CheckOutcome(
                name=expectation.name,
                passed=judgement.passed,
                severity="ERROR" if expectation.blocking else "WARN",
                observed=judgement.observed,
                description=expectation.description,
            )
        )
    return tuple(outcomes)


def settle(candidate: Candidate, outcomes: Sequence[CheckOutcome], *, run_id: str, clock: Clock) -> str:
    """Publish, reject or invalidate the candidate as the outcomes demand; what was done, in a sentence."""
    update = candidate.update
    failed = [outcome for outcome in outcomes if not outcome.passed and outcome.severity == "ERROR"]
    name = f"{update.feed.location} {update.partition or ''} update {update.name}"
    if candidate.staged is not None and not failed:
        publish(candidate.staged, now=clock.now(), checks=outcomes)
        return f"{name}: all blocking checks hold; published."
    reason = "; ".join(f"{outcome.name}: {_values(outcome.observed)}" for outcome in failed)
    if candidate.staged is not None:
        reject(candidate.staged, reason=reason, checks=outcomes, now=clock.now())
        return f"{name}: rejected ({reason}). Readers keep the update before."
    if failed:
        invalidate(update.feed, update.partition, update.name, reason=reason, author=f"run {run_id}", now=clock.now())
        return f"{name}: invalidated ({reason}). The update before is in force again."
    return f"{name}: was published before, and all blocking checks still hold."


def _alias(expectation: Expectation, name: str) -> str:
    return f"{expectation.name}__{name}"


def _spec(key: dg.AssetKey, expectation: Expectation, partitions: dg.PartitionsDefinition) -> dg.AssetCheckSpec:
    with warnings.catch_warnings():
        # Partitions on check specs are a preview feature, and the only way to gate a day and not all days.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            expectation.name,
            asset=key,
            description=expectation.description,
            blocking=expectation.blocking,
            partitions_def=partitions,
        )


def _result(key: dg.AssetKey, outcome: CheckOutcome, candidate: Candidate) -> dg.AssetCheckResult:
    observed = {
        name: value if isinstance(value, int | float) else str(value) for name, value in outcome.observed.items()
    }
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=outcome.name,
        passed=outcome.passed,
        severity=dg.AssetCheckSeverity.ERROR if outcome.severity == "ERROR" else dg.AssetCheckSeverity.WARN,
        description=outcome.description,
        metadata={**observed, "update": candidate.update.name},
    )


def _values(observed: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in observed.items())
