"""One job of a step: what it gets, and what Dagster shows of what it reports.

Here: Dagster's side. Not here: the job (`entry`), and starting it (`launchers`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import dagster as dg

from feed_assets.blackboard.location import local_directory
from feed_assets.feed_events.declarations import declared_feed, plain
from feed_assets.feed_events.reports import report_audit, report_left_out
from feed_assets.feed_events.results import ABOUT_THE_UPDATE, results
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.names import is_update_name
from feed_assets.file_feed.record import CheckOutcome
from feed_assets.pipes.launchers import Job
from feed_assets.pipes.messages import Messages
from feed_assets.project.assembly import PROJECT
from feed_assets.resources.settings import Settings
from feed_assets.steps.audit import Audited
from feed_assets.steps.candidate import Candidate, find_candidate

LAUNCHER: Final = "launcher"
"""The resource that starts the jobs."""

PARTITION, DESCRIPTION = "feed/partition", "feed/description"
"""Entries of a check's metadata: what Pipes' message of a check has no field for."""

FAILURE, TRANSIENT = "failure", "transient"
"""Fields of the last message of a job: why it has no results ("" if it has), and whether another job can have some."""

PAUSE_SECONDS = 60
"""Before the second job, if the first one died or storage did not answer it."""

Result = dg.MaterializeResult[Any] | dg.AssetCheckResult


def run_job(context: dg.AssetExecutionContext, module: str, resources: Collection[str]) -> Iterator[Result]:
    """Start a job for the selected assets and checks of this step, wait for its end, and yield its results.

    It gets the configuration of these resources. Raises Failure with the job's reason if it has no results, and
    RetryRequested if another job can have some.
    """
    reported, about = _launch(context, module, resources)
    for each in reported:
        if isinstance(each, dg.MaterializeResult):
            yield each._replace(metadata={**(each.metadata or {}), **about})
    checks = [each for each in reported if isinstance(each, dg.AssetCheckResult)]
    checked = {each.asset_key for each in context.selected_asset_check_keys}
    for key in sorted(context.selected_asset_keys | checked):
        yield from _settled(context, key, [each for each in checks if each.asset_key == key])


def _launch(
    context: dg.AssetExecutionContext, module: str, resources: Collection[str]
) -> tuple[Iterable[Result], dict[str, Any]]:
    """The results that the job reports, and metadata that names the job."""
    launcher, blackboard = context.resources.launcher, context.resources.blackboard
    if launcher.needs_bucket and local_directory(blackboard.base) is not None:
        raise dg.Failure(
            f"A job of {type(launcher).__name__} does not reach {blackboard.base}: set FEED_ASSETS_BASE to s3://...",
            allow_retries=False,
        )
    extras = _extras(context, resources)
    messages, about, problem = Messages(blackboard, context.run.run_id), {}, None
    try:
        about = dict(launcher.launch(Job(context, ["--module", module], extras, messages)))
    except Exception as error:
        if messages.heard is None or not messages.heard.received_opened_message:
            raise  # no job was started: the parameters are wrong, or the service does not answer
        problem = error
    verdict = next(iter(messages.heard.get_custom_messages()), None) if messages.heard else None
    if verdict is None or verdict[TRANSIENT]:
        reason = (
            verdict[FAILURE] if verdict else f"The job ended without a result; its log may say why. {problem or ''}"
        )
        raise dg.RetryRequested(max_retries=1, seconds_to_wait=PAUSE_SECONDS) from dg.Failure(reason, about)
    if verdict[FAILURE]:
        raise dg.Failure(verdict[FAILURE], about, allow_retries=False)
    if problem is not None:
        context.log.warning(f"The job has results, but its end was not seen: {type(problem).__name__}: {problem}")
    return messages.heard.get_reported_results() if messages.heard else (), about


def _extras(context: dg.AssetExecutionContext, resources: Collection[str]) -> dict[str, Any]:
    """The work of the job, as Pipes' extras: what Pipes' own context lacks."""
    op = context.assets_def.op.name
    config: Mapping[str, Any] = context.run.run_config
    return {
        "environment": _environment(getattr(context.resources, PROJECT).settings),
        "root_run_id": _root(context),
        # Pipes' context has no partitions in a run over several.
        "partitions": _partitions(context),
        "checks": [[each.asset_key.to_escaped_user_string(), each.name] for each in context.selected_asset_check_keys],
        "run_config": {
            "ops": {name: each for name, each in config.get("ops", {}).items() if name == op},
            "resources": {name: each for name, each in config.get("resources", {}).items() if name in resources},
        },
    }


def _environment(settings: Settings) -> dict[str, str]:
    """The settings of this installation that the job needs, too. None is a secret."""
    clock = {"FEED_ASSETS_AS_OF": settings.as_of.isoformat()} if settings.as_of else {}
    return {"FEED_ASSETS_BASE": settings.base, "FEED_ASSETS_FIRST_DAY": str(settings.first_day), **clock}


def _root(context: dg.AssetExecutionContext) -> str:
    return context.run.root_run_id or context.run.run_id


def _partitions(context: dg.AssetExecutionContext) -> list[str]:
    """The partitions of this run; none if the asset has none."""
    return list(context.partition_keys) if context.assets_def.partitions_def is not None else []


def _settled(
    context: dg.AssetExecutionContext, key: dg.AssetKey, checks: Iterable[dg.AssetCheckResult]
) -> Iterator[dg.AssetCheckResult]:
    """Report the update in force of each partition, and yield the results of the checks, as an audit does."""
    declaration = declared_feed(context.assets_def.metadata_by_key[key])
    if declaration is None:
        return
    board, now = context.resources.blackboard.blackboard, context.resources.clock.now()
    feed = declaration.on(board)
    if declaration.audited:
        audited = _audited(feed, checks)
    else:
        audited = dict(_published(feed, _partitions(context) or [None], _root(context), now))
    for one in audited.values():
        report_audit(context, key, one, now=now)
    if any(one.blocking for one in audited.values()):
        report_left_out(context, key, audited, blackboard=board, now=now)
    yield from results(context, key, audited)


def _audited(feed: Feed, checks: Iterable[dg.AssetCheckResult]) -> dict[str | None, Audited]:
    """The audit of each partition, from the results of its checks."""
    outcomes: dict[tuple[str | None, str, str], list[CheckOutcome]] = {}
    for each in checks:
        observed = {name: plain(value) for name, value in (each.metadata or {}).items()}
        partition, description = observed.pop(PARTITION, None), observed.pop(DESCRIPTION)
        update, done = (observed.pop(name) for name in ABOUT_THE_UPDATE)
        outcome = CheckOutcome(str(each.check_name), each.passed, each.severity.value, observed, description)
        outcomes.setdefault((partition, update, done), []).append(outcome)
    found = {}
    for (partition, update, done), of_update in outcomes.items():
        record = read_record(feed, partition, update) if is_update_name(update) else None
        candidate = Candidate(Update(feed, partition, update, record.files), record, None) if record else None
        found[partition] = Audited(update, of_update, done, candidate)
    return found


def _published(
    feed: Feed, partitions: Sequence[str | None], root_run_id: str, now: datetime
) -> Iterator[tuple[str | None, Audited]]:
    """The updates that the job published without an audit."""
    for partition in partitions:
        own = find_candidate(feed, partition, root_run_id=root_run_id, made_here=True, now=now)
        if isinstance(own, Candidate):
            yield partition, Audited(own.update.name, (), "", own)
