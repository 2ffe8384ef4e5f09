"""Run many partitions with one Spark, and one Dagster run for each partition and stage.

Here: the order of the runs, a run, and its result. Not here: the command line; several processes (`side_by_side`). An
asset may read the neighbouring days of its inputs, so all days of the inputs run before its first day.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import yaml
from dagster._check import CheckError  # raised for a file without a mapping; it has no public name
from dagster._core.instance.ref import InstanceRef  # the only way to open an instance with other settings

from feed_assets.errors import FeedAssetsError
from feed_assets.feed_events.metadata import DATA_VERSION_TAG
from feed_assets.feed_events.triggers import BACKFILL_ID_TAG, BACKFILL_TAG, GOES_ON_TAG
from feed_assets.operations.failed_runs import failures
from feed_assets.partitions.time_windows import begun_on, times_of
from feed_assets.resources.event_log import keep_open
from feed_assets.sensors.liveness import alive, fail_dead_runs, first_tags
from feed_assets.sources.source_errors import SourceError

CONFIG = "dagster.yaml"

UNCAPTURED = {
    "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"},
}
"""Settings of an instance whose runs write to the terminal. Capturing their output takes four processes a run, and each
answers Ctrl-C with a stack trace."""


NOT_REPEATED = {"dagster/max_retries": "0"}
"""Tag of a run that Dagster does not try again: whoever ends a command wants its run to end, too."""


class NothingToMakeError(SourceError):
    """The definitions have no partitioned asset to compute."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The result of one run: success, updates (asset, name), and reasons of failure. Its partition begins on `day`.

    `failed` are the assets that were not made, or whose checks failed.
    """

    day: str
    partition: str
    assets: tuple[str, ...]
    run_id: str
    success: bool
    updates: tuple[tuple[str, str], ...]
    failures: tuple[str, ...]
    skipped: bool = False
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DayRun:
    """A run to be executed: some assets of a partition, which begins on `day`."""

    run_id: str
    day: str
    partition: str
    assets: tuple[str, ...]
    backfill: Mapping[str, str]
    """Tags that say of which backfill it is, what that covers, and whether it goes on."""


Starting = Callable[[str, Sequence[str]], None]
"""Gets the partition and the assets of each run before it begins."""
Execute = Callable[[Sequence[DayRun], Starting], Iterator[PartitionResult]]
"""Executes runs that do not depend on each other; yields their results as they end."""


class InstanceConfigError(FeedAssetsError):
    """The `dagster.yaml` of a Dagster home, or the database it configures, cannot be used; the message says why."""


@contextmanager
def instance_at(home: Path, overrides: Mapping[str, Any]) -> Iterator[dg.DagsterInstance]:
    """The instance of this DAGSTER_HOME, with some settings overridden. Raises InstanceConfigError."""
    try:
        with _alone_in(home):
            opened = dg.DagsterInstance.from_ref(_reference(home, overrides))
    except OSError as error:
        raise InstanceConfigError(unusable_database(home, error)) from error
    except Exception as error:
        cause = getattr(error, "orig", None)  # of SQLAlchemy's errors, which only two rooms know
        if cause is None:
            raise
        raise InstanceConfigError(unusable_database(home, cause)) from error
    with opened as instance:
        keep_open(instance)
        yield instance


def _reference(home: Path, overrides: Mapping[str, Any]) -> InstanceRef:
    try:
        return InstanceRef.from_dir(str(home), overrides=overrides)
    except (yaml.YAMLError, UnicodeDecodeError, CheckError, dg.DagsterError) as error:
        raise InstanceConfigError(
            f"{home / CONFIG} cannot be used: {error}\nCorrect it, or remove it to keep Dagster's defaults."
        ) from error


def unusable_database(home: object, cause: object) -> str:
    """The message about a database of Dagster that does not take or give data."""
    advice = (
        "Free space if its disk is full. If it belongs to another user, set DAGSTER_HOME to a directory of your own. "
        "Then run the same command again."
    )
    return f"The database of Dagster, which {home} configures, cannot be used: {cause}. {advice}"


@contextmanager
def _alone_in(home: Path) -> Iterator[None]:
    """Keep other commands from opening this Dagster home: two that make its tables at once break them."""
    folder = os.open(home, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


class SelectionError(FeedAssetsError):
    """The selection holds no asset to backfill; the message lists the possible assets."""


def stages(definitions: dg.Definitions, selection: str | None = None) -> list[list[dg.AssetKey]]:
    """The assets that can be computed here and whose partitions have a time, in the order of their dependencies.

    The assets of a stage have the same partitions. `selection` holds asset selections as in the Dagster UI, such as
    `clean_ads+` or `key:clean_*`, separated by commas; None selects all assets. Raises SelectionError if it is no valid
    selection, or selects no such asset.
    """
    graph = definitions.resolve_asset_graph()
    keys = graph.materializable_asset_keys
    if selection is not None:
        keys = keys & _selected(definitions, selection)
    found: list[list[dg.AssetKey]] = []
    for level in graph.toposorted_asset_keys_by_level:
        alike: dict[dg.PartitionsDefinition, list[dg.AssetKey]] = {}
        for key in sorted(set(level) & keys):
            definition = graph.get(key).partitions_def
            if definition is not None and times_of(definition) is not None:
                alike.setdefault(definition, []).append(key)
        found += alike.values()
    if selection is not None and not found:
        raise SelectionError(f"{selection!r} selects no asset that can be backfilled. {_choices(definitions)}")
    return found


def known_days(definitions: dg.Definitions, selection: str | None = None) -> tuple[date, date] | None:
    """The first and the last day on which a partition begins; None if no partition exists yet.

    Raises NothingToMakeError if no asset can be computed here.
    """
    levels = stages(definitions, selection)
    if not levels:
        raise NothingToMakeError(
            "There is nothing to compute: no source is described. Put a YAML file for each source into the directory "
            "that FEED_ASSETS_SOURCES names."
        )
    found = [times_of(_partitions_of(definitions, level)) for level in levels]
    windows = [(each.get_first_partition_window(), each.get_last_partition_window()) for each in found if each]
    days = [(first.start.date(), last.start.date()) for first, last in windows if first and last]
    return (min(first for first, _ in days), max(last for _, last in days)) if days else None


def count_partitions(definitions: dg.Definitions, levels: Sequence[Sequence[dg.AssetKey]], days: Sequence[str]) -> int:
    """The number of partitions of these stages for these days, of all assets together."""
    return sum(len(level) * len(_by_day(_partitions_of(definitions, level), days)) for level in levels)


def most_runs_of_a_stage(
    definitions: dg.Definitions, levels: Sequence[Sequence[dg.AssetKey]], days: Sequence[str]
) -> int:
    """The number of runs of the largest of these stages for these days."""
    return max((len(_by_day(_partitions_of(definitions, level), days)) for level in levels), default=0)


def _partitions_of(definitions: dg.Definitions, stage: Sequence[dg.AssetKey]) -> dg.PartitionsDefinition | None:
    return definitions.resolve_asset_graph().get(stage[0]).partitions_def


def _by_day(partitions: dg.PartitionsDefinition | None, days: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of a day and a partition that begins on it."""
    return [(day, key) for day in days for key in begun_on(partitions, date.fromisoformat(day))]


def _selected(definitions: dg.Definitions, selection: str) -> set[dg.AssetKey]:
    try:
        parts = [dg.AssetSelection.from_string(part.strip()) for part in selection.split(",")]
        return set().union(*(part.resolve(definitions.resolve_asset_graph()) for part in parts))
    except dg.DagsterError as error:
        raise SelectionError(f"{selection!r} is no valid selection of assets. {_choices(definitions)}") from error


def _choices(definitions: dg.Definitions) -> str:
    return f"Assets are: {', '.join(key.to_user_string() for level in stages(definitions) for key in level)}."


def backfill(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    days: Sequence[str],
    *,
    run_config: Mapping[str, Any],
    selection: str | None = None,
    starting: Starting = lambda *_: None,
    execute: Execute | None = None,
) -> Iterator[PartitionResult]:
    """Run every stage for every partition that begins on these days.

    Assets that depend on an asset that failed leave its day out; everything else goes on. `selection` is as for
    `stages`. The runs of a stage are executed one after the other in this process, unless `execute` is given. Raises
    KeyboardInterrupt if a run was interrupted: Dagster itself only records a failed run.
    """
    fail_dead_runs(instance)
    execute = execute or partial(one_after_the_other, definitions, instance, run_config)
    graph = definitions.resolve_asset_graph()
    failed: dict[str, set[dg.AssetKey]] = {day: set() for day in days}
    levels, command = stages(definitions, selection), str(uuid4())
    for level in levels:
        ancestors = {key: graph.get_ancestor_asset_keys(key) for key in level}
        partitions = _by_day(_partitions_of(definitions, level), days)
        covered = f"{partitions[0][1]}/{partitions[-1][1]}" if partitions else ""
        tags = {BACKFILL_ID_TAG: command, BACKFILL_TAG: covered, GOES_ON_TAG: "true"}
        runs, skipped = [], deque[PartitionResult]()
        for day, partition in partitions:
            behind = [key for key in level if ancestors[key] & failed[day]]
            if behind:
                names, reasons = _names(behind), ("an input of this day failed before",)
                what = day, partition, names, ""
                skipped.append(
                    PartitionResult(*what, success=False, updates=(), failures=reasons, skipped=True, failed=names)
                )
            if selected := [key for key in level if key not in behind]:
                runs.append(DayRun(str(uuid4()), day, partition, _names(selected), tags))
        if runs and level is levels[-1]:
            runs[-1] = replace(runs[-1], backfill={**tags, GOES_ON_TAG: "false"})
        for result in execute(runs, starting):
            failed[result.day].update(map(dg.AssetKey.from_user_string, result.failed))
            while skipped and skipped[0].partition <= result.partition:
                yield skipped.popleft()
            yield result
        yield from skipped


def one_after_the_other(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    run_config: Mapping[str, Any],
    runs: Iterable[DayRun],
    starting: Starting = lambda *_: None,
) -> Iterator[PartitionResult]:
    """Execute these runs in this process.

    The output of an asset goes to stderr, as stdout is for the results. Raises KeyboardInterrupt if a run was
    interrupted.
    """
    job = definitions.resolve_implicit_global_asset_job_def()
    for run in runs:
        starting(run.partition, run.assets)
        with alive(instance, run.run_id), redirect_stdout(sys.stderr):
            result = job.execute_in_process(
                instance=instance,
                asset_selection=list(map(dg.AssetKey.from_user_string, run.assets)),
                partition_key=run.partition,
                raise_on_error=False,
                run_config=run_config,
                run_id=run.run_id,
                tags={**run.backfill, **NOT_REPEATED, **first_tags(run.run_id)},
            )
        if _interrupted(result):
            raise KeyboardInterrupt
        yield _result(definitions, run, result)


def _names(keys: Sequence[dg.AssetKey]) -> tuple[str, ...]:
    return tuple(key.to_user_string() for key in keys)


def _interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether a signal ended the run, such as Ctrl-C."""
    reasons = [event.job_failure_data.failure_reason for event in result.all_events if event.is_run_failure]
    return any(reason is not None and reason.name == "UNEXPECTED_TERMINATION" for reason in reasons)


def _result(definitions: dg.Definitions, run: DayRun, result: dg.ExecuteInProcessResult) -> PartitionResult:
    graph = definitions.resolve_asset_graph()
    updates: dict[str, str] = {}
    for event in result.all_events:
        if event.is_step_materialization:
            materialization = event.step_materialization_data.materialization
            version = (materialization.tags or {}).get(DATA_VERSION_TAG, "")
            updates[materialization.asset_key.to_user_string()] = version
    passed = {
        each.asset_check_key
        for each in result.get_asset_check_evaluations()
        if each.passed or each.severity == dg.AssetCheckSeverity.WARN
    }
    failed = tuple(
        name
        for name in run.assets
        if name not in updates or not graph.get(dg.AssetKey.from_user_string(name)).check_keys <= passed
    )
    return PartitionResult(
        run.day,
        run.partition,
        run.assets,
        result.run_id,
        result.success,
        updates=tuple((asset, version) for asset, version in updates.items() if version),
        failures=tuple(failures(result.all_events)),
        failed=() if result.success else failed or run.assets,
    )
