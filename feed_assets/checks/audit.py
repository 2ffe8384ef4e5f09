"""The audit: evaluates an asset's expectations on its staged update, and publishes or rejects it.

Here: the Dagster checks, and the only place where an audited update becomes visible. Not here: the rules themselves
(`expectations`). A store or a Spark that fails is an error of the run; only data can fail a check.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from pydantic import Field

from feed_assets.checks.expectations import Expectation, Judgement, Subject, has_declared_schema
from feed_assets.checks.subject import Candidate, count, describe, find_candidate
from feed_assets.file_feed import CheckOutcome, invalidate, publish, reject
from feed_assets.io_manager import FeedDeclaration
from feed_assets.resources import BlackboardResource, Clock, SparkResource

UNCOUNTED = object()
"""Stands for the value of a count that was not taken; NULL is a value."""


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
    """The checks of an audited asset, one for each expectation, evaluated together.

    All blocking ones hold: the staged update is published. One fails: it is rejected, with the reason, and readers
    keep the update before. Evaluated again on a published update, one that fails invalidates it, and one that can no
    longer be told warns.
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
        audited: dict[str, tuple[Candidate, tuple[CheckOutcome, ...]]] = {}
        for partition in context.partition_keys:
            candidate = find_candidate(feed, partition, run_id=context.run.run_id, now=clock.now())
            subject = describe(
                candidate,
                declaration,
                spark.spark_session,
                day=date.fromisoformat(partition),
                recent=timedelta(days=limits.recent_days),
                quarantined_share_limit=limits.quarantined_share,
                usual_rows_factor=limits.usual_rows_factor,
                now=clock.now(),
            )
            counted = count(spark.spark_session, candidate, declaration, countable(expectations, subject))
            outcomes = evaluate(expectations, subject, counted)
            context.log.info(settle(candidate, outcomes, run_id=context.run.run_id, clock=clock))
            audited[partition] = candidate, tuple(outcome for outcome in outcomes if outcome.name in selected)
        yield from _results(context, key, audited)

    return check


def countable(expectations: Sequence[Expectation], subject: Subject) -> Sequence[Expectation]:
    """Those whose counts can be taken: none on files that do not have the columns and types the counts are made of."""
    return expectations if has_declared_schema(subject) else ()


def evaluate(
    expectations: Sequence[Expectation], subject: Subject, counted: Mapping[str, Any]
) -> tuple[CheckOutcome, ...]:
    """The outcome of each expectation on what was counted; what could not be counted is not as expected."""
    outcomes = []
    for expectation in expectations:
        values = {name: counted.get(_alias(expectation, name), UNCOUNTED) for name in expectation.counts}
        if UNCOUNTED in values.values():
            judgement = Judgement(passed=False, observed={"not counted": "the files are not as declared"})
        else:
            judgement = expectation.judge(subject, values)
        # A lost record is lost lineage, not lost data: what cannot be told takes nothing out of force, nor into it.
        warns = judgement.passed is None and subject.published
        outcomes.append(
            CheckOutcome(
                name=expectation.name,
                passed=bool(judgement.passed),
                severity="ERROR" if expectation.blocking and not warns else "WARN",
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
    return f"{name}: was published before, and no blocking check fails."


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


def _results(
    context: dg.AssetCheckExecutionContext,
    key: dg.AssetKey,
    audited: Mapping[str, tuple[Candidate, Sequence[CheckOutcome]]],
) -> Iterator[dg.AssetCheckResult]:
    """A result for each check. A run over several partitions has one result for all: each gets its own beside it."""
    if len(audited) == 1:
        (candidate, outcomes), *_ = audited.values()
        for outcome in outcomes:
            yield dg.AssetCheckResult(asset_key=key, **_evaluation(outcome, _observed(outcome, candidate)))
        return
    for partition, (candidate, outcomes) in audited.items():
        target = _materialization(context.instance, key, partition)
        for outcome in outcomes:
            evaluation = dg.AssetCheckEvaluation(
                asset_key=key,
                partition=partition,
                target_materialization_data=target,
                blocking=outcome.severity == "ERROR",
                **_evaluation(outcome, _observed(outcome, candidate)),
            )
            # Of this run: Dagster keeps one evaluation of a day that belongs to no run, and refuses a second.
            context.op_execution_context.log_event(evaluation)  # type: ignore[arg-type] # taken, and not declared
    for outcomes_of_one in zip(*(outcomes for _, outcomes in audited.values()), strict=True):
        failed = [name for name, each in zip(audited, outcomes_of_one, strict=True) if not each.passed]
        metadata = {"partitions": len(audited), "failed partitions": ", ".join(failed) or "none"}
        worst = min(outcomes_of_one, key=lambda each: (each.passed, each.severity != "ERROR"))
        yield dg.AssetCheckResult(asset_key=key, **_evaluation(worst, metadata))


def _evaluation(outcome: CheckOutcome, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "check_name": outcome.name,
        "passed": outcome.passed,
        "severity": dg.AssetCheckSeverity.ERROR if outcome.severity == "ERROR" else dg.AssetCheckSeverity.WARN,
        "description": outcome.description,
        "metadata": metadata,
    }


def _observed(outcome: CheckOutcome, candidate: Candidate) -> Mapping[str, Any]:
    observed = {
        name: value if isinstance(value, int | float) else str(value) for name, value in outcome.observed.items()
    }
    return {**observed, "update": candidate.update.name}


def _materialization(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str
) -> AssetCheckEvaluationTargetMaterializationData | None:
    """What Dagster takes the evaluation to be about: without it, the partition would stay gated."""
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
    ).records
    if not found:
        return None
    newest = found[0]
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp
    )


def _values(observed: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in observed.items())
