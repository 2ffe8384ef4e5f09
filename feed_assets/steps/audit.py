"""The audit: evaluates expectations on an update, and publishes, rejects or invalidates it.

Here: the only place where an audited update becomes visible. Not here: the rules, and counting for them (`quality`).
A failure of storage or Spark is an error of the run, never a failed expectation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.errors import StartTakenError
from feed_assets.file_feed.feed import Update
from feed_assets.file_feed.quarantine import finish_publication, invalidate_both, publish_both, reject_both
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.record import CheckOutcome
from feed_assets.file_feed.wording import observed_values
from feed_assets.quality.column_rules import schema_differences
from feed_assets.quality.expectation import Expectation, Judgement, Subject
from feed_assets.quality.subject import Tolerance, count, describe
from feed_assets.steps.candidate import Candidate, NothingToAudit, find_candidate
from feed_assets.steps.run import Output, Run


@dataclass(frozen=True, slots=True)
class Audited:
    """The audit of one partition: the update's name ("none" without an update), all outcomes, and the action taken.

    `candidate` is the update that the audit decided on, now or before; None without an update.
    """

    update: str
    outcomes: Sequence[CheckOutcome]
    done: str
    candidate: Candidate | None = None

    def of(self, names: set[str]) -> list[CheckOutcome]:
        """The outcomes with these names."""
        return [outcome for outcome in self.outcomes if outcome.name in names]

    @property
    def blocking(self) -> list[CheckOutcome]:
        """The failed outcomes that keep the update from being published."""
        return [outcome for outcome in self.outcomes if not outcome.passed and outcome.severity == "ERROR"]


def audit_output(
    run: Run,
    output: Output,
    expectations: Sequence[Expectation],
    *,
    before: Sequence[str],
    tolerance: Tolerance,
    made_here: bool = True,
) -> Audited:
    """Audit the update of an output, and publish, reject or invalidate it.

    If all blocking expectations hold, a staged update is published. If one fails, a staged update is rejected with the
    reason, and readers keep the update before; a published one is invalidated. If another update of the same start is
    published, the staged one is rejected, and the audit is that of the other. `before` names the partitions before
    this one in time. With `made_here`, only an update of this run is audited, and if it is missing, every expectation
    fails. Otherwise raises NothingToAuditError if there is no update.
    """
    partition = output.partition
    feed = output.declaration.on(run.board)
    found = find_candidate(feed, partition, root_run_id=run.root_run_id, made_here=made_here, now=run.now())
    if isinstance(found, NothingToAudit):
        run.log.error(found.reason)
        return _not_audited(expectations, found)
    outcomes = evaluated(run, output, found, expectations, before=before, tolerance=tolerance)
    try:
        done = _settle(run, found, outcomes)
    except StartTakenError as taken:
        if taken.update is None:
            raise
        run.log.warning(f"{found.update.uri} is not published: {taken}")
        return _of_the_same_start(taken.update, outcomes, str(taken))
    run.log.info(done)
    return Audited(found.update.name, outcomes, done, found)


def evaluated(
    run: Run,
    output: Output,
    found: Candidate,
    expectations: Sequence[Expectation],
    *,
    before: Sequence[str],
    tolerance: Tolerance,
) -> tuple[CheckOutcome, ...]:
    """The outcome of each expectation on an update. It changes nothing. `before` as in `audit_output`."""
    declaration, spark = output.declaration, run.spark()
    subject = describe(
        found.update,
        found.record,
        declaration,
        spark,
        published=found.staged is None,
        window=output.window,
        before=before,
        tolerance=tolerance,
        now=run.now(),
    )
    differences = schema_differences(subject)
    countable = () if differences else expectations
    counted = count(
        spark,
        found.update,
        declaration,
        countable,
        rows_recorded=subject.rows.published if subject.rows else None,
        now=run.now(),
    )
    return _evaluate(expectations, subject, counted, differences)


def _of_the_same_start(update: Update, outcomes: Sequence[CheckOutcome], why: str) -> Audited:
    """The audit of an update that was rejected because another one of its start is published: that one's."""
    record = read_record(update.feed, update.partition, update.name)
    checks = record.checks if record is not None and record.checks else outcomes
    return Audited(update.name, checks, why, Candidate(update, record, None))


def _judge(expectation: Expectation, subject: Subject, counted: Mapping[str, Any]) -> Judgement:
    try:
        judgement = expectation.judge(subject, counted)
    except Exception as error:
        error.add_note(f"Correct the function of the expectation {expectation.name}.")
        raise
    if not isinstance(judgement, Judgement):
        whose = f"The function of the expectation {expectation.name}"
        raise TypeError(f"{whose} returned {judgement!r}: let it return a Judgement.")
    return judgement


def _evaluate(
    expectations: Sequence[Expectation], subject: Subject, counted: Mapping[tuple[str, str], Any], differences: str
) -> tuple[CheckOutcome, ...]:
    """The outcome of each expectation on these counts; an expectation without its counts fails."""
    outcomes = []
    for expectation in expectations:
        names = expectation.counted_names
        if all((expectation.name, name) in counted for name in names):
            judgement = _judge(expectation, subject, {name: counted[expectation.name, name] for name in names})
        else:
            reason = f"the files are not as declared ({differences})"
            judgement = Judgement(passed=False, observed={"not counted": reason}, sentence=f"Not counted: {reason}.")
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


def _not_audited(expectations: Sequence[Expectation], found: NothingToAudit) -> Audited:
    """The audit without an update to evaluate: the outcomes in the record, else a failure of every expectation."""
    if found.rejected is not None and found.rejected.record is not None:
        return Audited(found.rejected.update.name, found.rejected.record.checks, found.reason, found.rejected)
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


def _settle(run: Run, candidate: Candidate, outcomes: Sequence[CheckOutcome]) -> str:
    """Publish, reject or invalidate the candidate by its outcomes; return the action in a sentence."""
    update = candidate.update
    failed = [outcome for outcome in outcomes if not outcome.passed and outcome.severity == "ERROR"]
    where = f"{update.feed.location} {update.partition}" if update.partition else update.feed.location
    name = f"{where} update {update.name}"
    if candidate.staged is not None and not failed:
        publish_both(candidate.staged, now=run.now(), checks=outcomes)
        return f"{name}: all blocking checks hold; published{_overtaken(run, update)}."
    reason = "; ".join(f"{outcome.name}: {observed_values(outcome.observed)}" for outcome in failed)
    if candidate.staged is not None:
        reject_both(candidate.staged, reason=reason, checks=outcomes, now=run.now())
        return f"{name}: rejected ({reason}). Readers keep what they had."
    if failed:
        author = f"run {run.run_id}"
        invalidate_both(update.feed, update.partition, update.name, reason=reason, author=author, now=run.now())
        return f"{name}: invalidated ({reason}). The update before is in force again."
    if candidate.record is not None:
        finish_publication(update.feed, candidate.record, now=run.now())
    return f"{name}: was published before, and no blocking check fails."


def _overtaken(run: Run, update: Update) -> str:
    """The end of the sentence if a newer update is in force; else empty."""
    in_force = latest(update.feed, update.partition, now=run.now())
    if in_force is None or in_force.name <= update.name:
        return ""
    return f" as history: {in_force.name} was begun later, so it read newer inputs and stays in force"
