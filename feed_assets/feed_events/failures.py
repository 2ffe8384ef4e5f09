"""Reads from Dagster's events why a run failed, a line for each cause."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from typing import Any

import dagster as dg

from feed_assets.errors import FeedAssetsError
from feed_assets.feed_events.results import ABOUT_THE_UPDATE
from feed_assets.file_feed.wording import observed_values

EVENTS = {
    dg.DagsterEventType.ASSET_CHECK_EVALUATION,
    dg.DagsterEventType.STEP_FAILURE,
    dg.DagsterEventType.ENGINE_EVENT,
    dg.DagsterEventType.RUN_FAILURE,
}
JAVA_CAUSE = "Caused by: "
UNREAD_FILE = re.compile(r"Encountered error while reading file (\S+)\.\s")
"""Spark's error of a file, which often only the cause explains, and the cause rarely names the file."""
OWN = re.compile(r"^feed_assets(\.\w+)+: ")
"""The class of an error of this package, before its message. This says what to do; its cause, as S3's, does not."""
PROGRESS = "progress"
"""In the metadata of a failed step: for how long it ran, and how far it was."""
STOPPED = "the run was stopped before its end, as by Ctrl-C"


def rejections(events: Iterable[dg.DagsterEvent]) -> tuple[str, ...]:
    """The blocking checks that failed, each with its asset and the values it observed."""
    lines = []
    for event in events:
        if event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            check = event.asset_check_evaluation_data
            if not check.passed and check.severity == dg.AssetCheckSeverity.ERROR:
                observed = {name: value.value for name, value in check.metadata.items() if name not in ABOUT_THE_UPDATE}
                lines.append(f"{check.asset_key.to_user_string()} {check.check_name}: {observed_values(observed)}")
    return tuple(lines)


def errors(events: Iterable[dg.DagsterEvent]) -> tuple[str, ...]:
    """The root cause of each failed step, a line each, without steps that failed only because of their checks."""
    found = (_error(event) for event in events if event.is_step_failure)
    return tuple(line for line in found if line)


def progress(events: Iterable[dg.DagsterEvent]) -> tuple[str, ...]:
    """How far each failed step was, a line each: `clean_ads failed after 3 min: ...`, if it ran for long enough."""
    found = ((event.step_key, event.step_failure_data.user_failure_data) for event in events if event.is_step_failure)
    told = ((step, data.metadata[PROGRESS].value) for step, data in found if data and PROGRESS in data.metadata)
    return tuple(f"{step} failed {value}" for step, value in told)


def errors_outside_steps(events: Iterable[dg.DagsterEvent]) -> tuple[str, ...]:
    """Why a run failed although no step did: the error of code that cannot be loaded, else Dagster's sentence."""
    all_events = list(events)
    engine = [event.engine_event_data.error for event in all_events if event.is_engine_event]
    causes = [_cause(error) for error in engine if error is not None]
    return tuple(causes or [event.message for event in all_events if event.is_run_failure and event.message])


def _error(event: dg.DagsterEvent) -> str | None:
    data = event.step_failure_data
    error = data.error
    if error is None or error.cls_name == "DagsterAssetCheckFailedError":
        return None
    if data.user_failure_data is not None and data.user_failure_data.description:
        return str(data.user_failure_data.description)
    return _cause(error)


def _cause(error: Any) -> str:
    while error.cause is not None and not OWN.match(error.message):
        error = error.cause
    if error.cls_name == dg.DagsterExecutionInterruptedError.__name__:
        return STOPPED
    return root_cause(OWN.sub("", error.message))


def reason_of(error: BaseException) -> str:
    """Why a step fails that raises this error, in a line."""
    while error.__cause__ is not None and not isinstance(error, FeedAssetsError):
        error = error.__cause__
    return root_cause(OWN.sub("", "".join(traceback.format_exception_only(error))))


def root_cause(message: str) -> str:
    """The last cause that Java names in an error's message, else its first line; after the file that Spark read."""
    lines = [line.strip() for line in message.strip().splitlines()]
    causes = [line.removeprefix(JAVA_CAUSE) for line in lines if line.startswith(JAVA_CAUSE)]
    cause = causes[-1] if causes else lines[0] if lines else "no reason known"
    file = UNREAD_FILE.search(message)
    return f"{file[1]}: {cause}" if file else cause
