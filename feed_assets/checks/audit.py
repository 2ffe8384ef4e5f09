"""The audit: evaluates an asset's expectations on its staged update, and publishes or rejects it.

Here: the Dagster checks, and the only place where an audited update becomes visible. Not here: the rules themselves
(`ready_made`, `ads`), and how results look in Dagster (`results`). A store or a Spark that fails is an error of the
run; only data can fail a check.
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from feed_assets.checks.candidate import Candidate, NothingToAudit, find_candidate
from feed_assets.checks.expectation import Expectation, Judgement, Subject
from feed_assets.checks.ready_made import has_declared_schema
from feed_assets.checks.reports import report, report_left_out
from feed_assets.checks.results import Audited, results
from feed_assets.checks.subject import Tolerance, count, describe
from feed_assets.file_feed import CheckOutcome, Feed, latest
from feed_assets.io_manager import FeedDeclaration
from feed_assets.io_manager.quarantine import invalidate_both, publish_both, publish_quarantine, reject_both
from feed_assets.io_manager.retries import retrying
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
        description="How far a partition's row count may be from the median of recent ones, as a factor.",
    )
    recent_days: int = Field(
        default=7, ge=1, description="How many partitions before make that median; without a time, how many updates."
    )

    @property
    def tolerance(self) -> Tolerance:
        """The same without Dagster."""
        return Tolerance(self.quarantined_share, self.usual_rows_factor, self.recent_days)


def audit(
    asset: dg.AssetsDefinition, expectations: Sequence[Expectation], *, key: dg.AssetKey | str | None = None
) -> dg.AssetChecksDefinition:
    """The checks of an audited asset, one for each expectation, evaluated together on each partition of a run.

    `key` says which of the assets of a multi-asset; each audited one needs an audit. All blocking expectations hold:
    the staged update is published. One fails: it is rejected, with the reason, and readers keep the update before.
    Evaluated again on a published update, one that fails invalidates it, and one that can no longer be told warns.
    The checks need the resources `blackboard`, `spark`, `clock` and `limits`.

    Raises DagsterInvalidDefinitionError where the asset is no audited feed, or two expectations have one name.
    """
    key = asset.key if key is None else dg.AssetKey.from_user_string(key) if isinstance(key, str) else key
    declaration = FeedDeclaration.of(asset.metadata_by_key[key])
    if declaration is None or not declaration.audited:
        message = f"{key.to_user_string()} is not an audited feed: give it `metadata=feed_metadata(..., audited=True)`."
        raise dg.DagsterInvalidDefinitionError(message)
    if twice := [name for name, times in Counter(each.name for each in expectations).items() if times > 1]:
        message = f"Two expectations of {key.to_user_string()} are called {', '.join(twice)}: give one another `name`."
        raise dg.DagsterInvalidDefinitionError(message)
    partitions = asset.specs_by_key[key].partitions_def

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
        feed = declaration.on(blackboard.blackboard)
        made_here = key in context.job_def.asset_layer.selected_asset_keys
        audited: dict[str | None, Audited] = {}
        with retrying(context.retry_number):
            for partition in map(str, context.partition_keys) if partitions is not None else [None]:
                found = find_candidate(
                    feed, partition, root_run_id=_root(context.run), made_here=made_here, now=clock.now()
                )
                if isinstance(found, NothingToAudit):
                    if not made_here:
                        raise dg.Failure(description=found.reason, allow_retries=False)
                    context.log.error(found.reason)
                    audited[partition] = not_audited(expectations, found)
                    if found.rejected is not None:
                        # The attempt that rejected it may have stopped before Dagster was told.
                        report(context, key, found.rejected, found.reason, turned_away=True, now=clock.now())
                    continue
                subject = describe(
                    found,
                    declaration,
                    spark.spark_session,
                    partitions=partitions,
                    tolerance=limits.tolerance,
                    now=clock.now(),
                )
                countable = expectations if has_declared_schema(subject) else ()
                counted = count(spark.spark_session, found, declaration, countable, now=clock.now())
                outcomes = evaluate(expectations, subject, counted)
                done = settle(found, outcomes, run_id=context.run.run_id, clock=clock)
                context.log.info(done)
                audited[partition] = one = Audited(found.update.name, outcomes, done)
                report(context, key, found, done, turned_away=bool(one.blocking), now=clock.now())
        if any(one.blocking for one in audited.values()):
            report_left_out(context, key, audited, blackboard=blackboard.blackboard, now=clock.now())
        yield from results(context, key, audited)

    return check


def evaluate(
    expectations: Sequence[Expectation], subject: Subject, counted: Mapping[tuple[str, str], Any]
) -> tuple[CheckOutcome, ...]:
    """The outcome of each expectation on what was counted; without its counts an expectation fails."""
    outcomes = []
    for expectation in expectations:
        values = {name: counted.get((expectation.name, name), UNCOUNTED) for name in expectation.counted_names}
        if UNCOUNTED in values.values():
            not_declared = "the files are not as declared"
            judgement = Judgement(
                passed=False, observed={"not counted": not_declared}, sentence=f"Not counted: {not_declared}."
            )
        else:
            judgement = expectation.judge(subject, values)
        # A lost record is lost lineage, not lost data: if the answer is unknown, the update keeps its state.
        warns = judgement.passed is None and subject.published
        outcomes.append(
            CheckOutcome(
                name=expectation.name,
                passed=bool(judgement.passed),
                severity="ERROR" if expectation.blocking and not warns else "WARN",
                observed=judgement.observed,
                description=judgement.sentence or expectation.description,
            )
        )
    return tuple(outcomes)


def not_audited(expectations: Sequence[Expectation], found: NothingToAudit) -> Audited:
    """What Dagster is told where there is nothing to evaluate: the outcomes on record, else that there are none."""
    if found.rejected is not None and found.rejected.record is not None:
        return Audited(found.rejected.update.name, found.rejected.record.checks, found.reason)
    outcomes = tuple(
        CheckOutcome(
            name=each.name,
            passed=False,
            severity="ERROR" if each.blocking else "WARN",
            observed={"not audited": found.reason},
            description=f"Not audited: {found.reason}",
        )
        for each in expectations
    )
    return Audited("none", outcomes, found.reason)


def settle(candidate: Candidate, outcomes: Sequence[CheckOutcome], *, run_id: str, clock: Clock) -> str:
    """Publish, reject or invalidate the candidate as the outcomes demand; what was done, in a sentence."""
    update = candidate.update
    failed = [outcome for outcome in outcomes if not outcome.passed and outcome.severity == "ERROR"]
    name = f"{update.feed.location} {update.partition or ''} update {update.name}"
    if candidate.staged is not None and not failed:
        publish_both(candidate.staged, now=clock.now(), checks=outcomes)
        return f"{name}: all blocking checks hold; published{_overtaken(update.feed, candidate, clock)}."
    reason = "; ".join(f"{outcome.name}: {_values(outcome.observed)}" for outcome in failed)
    if candidate.staged is not None:
        reject_both(candidate.staged, reason=reason, checks=outcomes, now=clock.now())
        return f"{name}: rejected ({reason}). Readers keep the update before."
    if failed:
        author = f"run {run_id}"
        invalidate_both(update, candidate.record, reason=reason, author=author, now=clock.now())
        return f"{name}: invalidated ({reason}). The update before is in force again."
    if candidate.record is not None:
        # The run that published it may have stopped before its quarantine.
        publish_quarantine(update.feed, candidate.record, now=clock.now())
    return f"{name}: was published before, and no blocking check fails."


def _overtaken(feed: Feed, candidate: Candidate, clock: Clock) -> str:
    """Which newer update is in force instead, if one is."""
    in_force = latest(feed, candidate.update.partition, now=clock.now())
    if in_force is None or in_force.name <= candidate.update.name:
        return ""
    return f" as history: {in_force.name} was begun later, so it read newer inputs and stays in force"


def _root(run: dg.DagsterRun) -> str:
    """The first run of the chain of re-executions that this run belongs to."""
    return run.root_run_id or run.run_id


def _spec(key: dg.AssetKey, expectation: Expectation, partitions: dg.PartitionsDefinition | None) -> dg.AssetCheckSpec:
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


def _values(observed: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in observed.items())
