"""The results of an audit as Dagster's events: one for each selected check, and for each partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData

from feed_assets.file_feed.record import CheckOutcome, Record
from feed_assets.resources.event_log import event_log
from feed_assets.steps.audit import Audited

SEARCHED = 20
"""Evaluations of a check to search for those of an update."""

StepContext = dg.AssetCheckExecutionContext | dg.AssetExecutionContext
"""The context of a step that has checks: of an audit, or of a job that also made the asset."""

ABOUT_THE_UPDATE = ("update", "outcome")
"""The entries of a result that all checks of an update share: its name, and what the audit did with it."""


def results(
    context: StepContext, key: dg.AssetKey, audited: Mapping[str | None, Audited]
) -> Iterator[dg.AssetCheckResult]:
    """A result for each selected check, over all partitions of the run; if several, each also gets its own events.

    Raises Failure at the end if an update was refused for a check that is not selected, as no result shows that.
    """
    selected = {each.name for each in context.selected_asset_check_keys}
    if len(audited) == 1:
        (one,) = audited.values()
        for outcome in one.of(selected):
            yield dg.AssetCheckResult(asset_key=key, **_evaluation(outcome, _observed(outcome, one)))
    else:
        yield from _of_several(context, key, audited, selected)
    unseen = [one.done for one in audited.values() if one.blocking and not one.of(selected & _names(one.blocking))]
    if unseen:
        description = (
            f"Checks that are not selected failed. {' '.join(unseen)} Run all checks of the asset to see them."
        )
        raise dg.Failure(description=description, allow_retries=False)


def _of_several(
    context: StepContext,
    key: dg.AssetKey,
    audited: Mapping[str | None, Audited],
    selected: set[str],
) -> Iterator[dg.AssetCheckResult]:
    for partition, one in audited.items():
        log_evaluations(context, key, partition, one, selected)
    for outcomes in zip(*(one.of(selected) for one in audited.values()), strict=True):
        failed = [str(name) for name, each in zip(audited, outcomes, strict=True) if not each.passed]
        metadata = {"partitions": len(audited), "failed partitions": ", ".join(failed) or "none"}
        worst = min(outcomes, key=lambda each: (each.passed, each.severity != "ERROR"))
        yield dg.AssetCheckResult(asset_key=key, **_evaluation(worst, metadata))


def log_evaluations(
    context: StepContext, key: dg.AssetKey, partition: str | None, audited: Audited, names: set[str]
) -> None:
    """Log the outcomes with these names as evaluations of the latest materialization by this run."""
    target = _materialization(context.instance, key, partition)
    for outcome in audited.of(names):
        evaluation = dg.AssetCheckEvaluation(
            asset_key=key,
            partition=partition,
            target_materialization_data=target,
            blocking=outcome.severity == "ERROR",
            **_evaluation(outcome, _observed(outcome, audited)),
        )
        # Logged by this run, because Dagster accepts only one evaluation of a day without a run.
        log_event(context, evaluation)


def evaluations_without_run(
    instance: dg.DagsterInstance, key: dg.AssetKey, record: Record
) -> list[dg.AssetCheckEvaluation]:
    """The outcomes in the record of an update that no run of this instance has made; none if they were reported.

    They name their partition in text only: Dagster stores one evaluation of a check and partition without a run, and
    refuses the next one.
    """
    where = f"{record.partition}: " if record.partition is not None else ""
    reason = f" ({record.history[-1].reason})" if record.history[-1].reason else ""
    audited = Audited(record.update, record.checks, f"{where}update {record.update} is {record.state}{reason}.")
    if not record.checks or _is_reported(instance, dg.AssetCheckKey(key, record.checks[0].name), record.update):
        return []
    partition = {"partition": record.partition} if record.partition is not None else {}
    return [
        dg.AssetCheckEvaluation(
            asset_key=key,
            blocking=outcome.severity == "ERROR",
            **_evaluation(
                replace(outcome, description=f"{where}{outcome.description}"),
                {**partition, **_observed(outcome, audited)},
            ),
        )
        for outcome in record.checks
    ]


def _is_reported(instance: dg.DagsterInstance, check: dg.AssetCheckKey, update: str) -> bool:
    """Whether a recent evaluation of a check is about this update."""
    recent = event_log(instance).get_asset_check_execution_history(check, limit=SEARCHED)
    found = (each.event.asset_check_evaluation for each in recent if each.event)
    return any(each is not None and each.metadata.get("update") == dg.TextMetadataValue(update) for each in found)


def log_event(context: StepContext, event: dg.AssetMaterialization | dg.AssetCheckEvaluation) -> None:
    """Log an event of the run. A context of checks has no public way."""
    context.op_execution_context.log_event(event)  # type: ignore[arg-type] # accepts evaluations, but does not say so


def _names(outcomes: Sequence[CheckOutcome]) -> set[str]:
    return {outcome.name for outcome in outcomes}


def _evaluation(outcome: CheckOutcome, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "check_name": outcome.name,
        "passed": outcome.passed,
        "severity": dg.AssetCheckSeverity.ERROR if outcome.severity == "ERROR" else dg.AssetCheckSeverity.WARN,
        "description": outcome.description,
        "metadata": metadata,
    }


def _observed(outcome: CheckOutcome, audited: Audited) -> Mapping[str, Any]:
    observed = {
        name: value if isinstance(value, int | float) else str(value) for name, value in outcome.observed.items()
    }
    return {**observed, **dict(zip(ABOUT_THE_UPDATE, (audited.update, audited.done), strict=True))}


def _materialization(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None
) -> AssetCheckEvaluationTargetMaterializationData | None:
    """The materialization that an evaluation is about; without it, Dagster would keep the partition gated."""
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None), limit=1
    ).records
    if not found:
        return None
    newest = found[0]
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp
    )
