"""Many partitions in one process: one Spark, one Dagster run a partition and stage.

Here: the order of the runs, and what became of each. Not here: the command line around it. A day's result may read
the neighbouring days of its inputs, so all days of the inputs come before the first day of what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import yaml
from dagster._check import CheckError  # what Dagster raises for a file that holds no mapping has no public name
from dagster._core.instance.ref import InstanceRef  # Dagster has no public way to open an instance with other settings

from feed_assets.io_manager.metadata import DATA_VERSION_TAG
from feed_assets.operations.failed_runs import failures
from feed_assets.sensors.busy import BACKFILL_TAG
from feed_assets.sensors.liveness import alive, fail_dead_runs, first_tags
from feed_assets.sources import SourceError

CONFIG = "dagster.yaml"

UNCAPTURED = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    },
}
"""Settings of an instance whose runs write to the terminal. Capturing what they write takes four processes a run, which
answer Ctrl-C with stack traces."""


class NothingToMakeError(SourceError):
    """The definitions have no partitioned asset that is made here."""


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What became of one run: whether it succeeded, the updates it made, and why it failed."""

    partition: str
    assets: tuple[str, ...]
    run_id: str
    success: bool
    updates: tuple[tuple[str, str], ...]
    failures: tuple[str, ...]
    skipped: bool = False


class InstanceConfigError(Exception):
    """The `dagster.yaml` of a Dagster home cannot be used; the message names it and says why."""


@contextmanager
def instance_at(home: Path, overrides: Mapping[str, Any]) -> Iterator[dg.DagsterInstance]:
    """The instance of this DAGSTER_HOME, with these settings instead of its own.

    Raises InstanceConfigError where its `dagster.yaml` cannot be used.
    """
    try:
        ref = InstanceRef.from_dir(str(home), overrides=overrides)
    except (yaml.YAMLError, UnicodeDecodeError, CheckError, dg.DagsterError) as error:
        message = f"{home / CONFIG} cannot be used: {error}\nCorrect it, or remove it to keep Dagster's defaults."
        raise InstanceConfigError(message) from error
    with dg.DagsterInstance.from_ref(ref) as instance:
        yield instance


class SelectionError(Exception):
    """A selection of assets that cannot be backfilled; the message says why, and what can be."""


def stages(definitions: dg.Definitions, selection: str | None = None) -> list[list[dg.AssetKey]]:
    """The partitioned assets that are made here, in the order in which they can be made.

    `selection` is asset selections as in the Dagster UI, such as `clean_ads+` or `key:clean_*`, with commas between
    them; all assets, if left out. Raises SelectionError where it is none, or selects nothing that can be made or assets
    of different partitions.
    """
    graph = definitions.resolve_asset_graph()
    made = graph.materializable_asset_keys
    if selection is not None:
        made = made & _selected(definitions, selection)
    levels = [
        sorted(key for key in level if key in made and graph.get(key).is_partitioned)
        for level in graph.toposorted_asset_keys_by_level
    ]
    found = [level for level in levels if level]
    if selection is not None and len({graph.get(key).partitions_def for level in found for key in level}) != 1:
        can = ", ".join(key.to_user_string() for level in stages(definitions) for key in level)
        what = "assets of different partitions" if found else "no asset that can be backfilled"
        message = f"{selection!r} selects {what}. There are: {can}."
        raise SelectionError(message)
    return found


def known_partitions(definitions: dg.Definitions, selection: str | None = None) -> list[str]:
    """The partitions of the assets that are made here, ascending. Raises NothingToMakeError where there is none."""
    graph = definitions.resolve_asset_graph()
    levels = stages(definitions, selection)
    if not levels:
        raise NothingToMakeError(
            "There is nothing to make: no source is described. Put a YAML file for each source into the directory that "
            "FEED_ASSETS_SOURCES names."
        )
    partitions = graph.get(levels[0][0]).partitions_def
    return list(partitions.get_partition_keys()) if partitions else []


def _selected(definitions: dg.Definitions, selection: str) -> set[dg.AssetKey]:
    try:
        parts = [dg.AssetSelection.from_string(part.strip()) for part in selection.split(",")]
        return set().union(*(part.resolve(definitions.resolve_asset_graph()) for part in parts))
    except dg.DagsterError as error:
        can = ", ".join(key.to_user_string() for level in stages(definitions) for key in level)
        message = f"{selection!r} is no selection of assets; it takes names or expressions: {can}."
        raise SelectionError(message) from error


def backfill(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    partitions: Sequence[str],
    *,
    run_config: Mapping[str, Any],
    selection: str | None = None,
    starting: Callable[[str, Sequence[str]], None] | None = None,
) -> Iterator[PartitionResult]:
    """Run every stage for every partition; one that failed is left out of the stages after, the others go on.

    `selection` as for `stages`. `starting` gets the partition and the assets of each run before it begins.
    Raises KeyboardInterrupt when a run was interrupted: Dagster only records that as one more failed run.
    """
    fail_dead_runs(instance)
    job = definitions.resolve_implicit_global_asset_job_def()
    failed: set[str] = set()
    for level in stages(definitions, selection):
        names = tuple(key.to_user_string() for key in level)
        for partition in partitions:
            if partition in failed:
                reason = "an input of this day failed before"
                yield PartitionResult(partition, names, "", success=False, updates=(), failures=(reason,), skipped=True)
                continue
            if starting is not None:
                starting(partition, names)
            run_id = str(uuid4())
            with alive(instance, run_id):
                result = job.execute_in_process(
                    instance=instance,
                    asset_selection=level,
                    partition_key=partition,
                    raise_on_error=False,
                    run_config=run_config,
                    run_id=run_id,
                    tags={BACKFILL_TAG: f"{partitions[0]}/{partitions[-1]}", **first_tags(run_id)},
                )
            if _interrupted(result):
                raise KeyboardInterrupt
            if not result.success:
                failed.add(partition)
            yield _result(partition, names, result)


def _interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether the run ended by a signal, Ctrl-C or the system's request to stop."""
    reasons = [event.job_failure_data.failure_reason for event in result.all_events if event.is_run_failure]
    return any(reason is not None and reason.name == "UNEXPECTED_TERMINATION" for reason in reasons)


def _result(partition: str, names: tuple[str, ...], result: dg.ExecuteInProcessResult) -> PartitionResult:
    updates: dict[str, str] = {}
    for event in result.all_events:
        if event.is_step_materialization:
            materialization = event.step_materialization_data.materialization
            version = (materialization.tags or {}).get(DATA_VERSION_TAG, "")
            updates[materialization.asset_key.to_user_string()] = version
    reasons = tuple(failures(result.all_events))
    made = tuple((asset, version) for asset, version in updates.items() if version)
    return PartitionResult(partition, names, result.run_id, result.success, made, reasons)
