"""The Spark job of a step: give this file to `spark-submit`, with the option `--module shop.definitions`.

Here: running the assets and checks that Dagster asks for by Pipes, on the Spark of `spark-submit`, and reporting their
metadata and results. Not here: starting the job (`launchers`); what a run does, which is the same everywhere.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

import dagster as dg
from dagster_pipes import (
    PipesContext,
    PipesDefaultMessageWriter,
    PipesEnvVarParamsLoader,
    PipesS3MessageWriter,
    open_dagster_pipes,
)

from feed_assets.engine.session import submitted_session
from feed_assets.errors import exit_code
from feed_assets.feed_events.failures import errors
from feed_assets.feed_events.metadata import DATA_VERSION_TAG, UPDATE
from feed_assets.io_manager.run_attempts import ROOT_RUN
from feed_assets.pipes.jobs import DESCRIPTION, FAILURE, PARTITION, TRANSIENT
from feed_assets.pipes.messages import INTERVAL_SECONDS, pipes_metadata
from feed_assets.project.loading import load_project
from feed_assets.resources.storage import s3_client

RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
"""Tags of a run over several partitions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the environment describes. Returns 0 if it has results, also if an update was rejected."""
    parser = argparse.ArgumentParser(description="The job that a step of Dagster starts. It takes its work from Pipes.")
    parser.add_argument("--module", required=True, help="the module with the definitions, such as shop.definitions")
    module = parser.parse_args(arguments).module
    parameters = PipesEnvVarParamsLoader()  # type: ignore[no-untyped-call] # its constructor has no annotations
    if not parameters.is_dagster_pipes_process():
        parser.error("no Dagster Pipes in the environment: a step of an asset that is `launched` starts this job")
    in_bucket = "bucket" in parameters.load_messages_params()
    writer = PipesS3MessageWriter(s3_client(), interval=INTERVAL_SECONDS) if in_bucket else PipesDefaultMessageWriter()
    with open_dagster_pipes(params_loader=parameters, message_writer=writer) as pipes:
        failure, transient = _run(pipes, module)
        pipes.report_custom_message({FAILURE: failure, TRANSIENT: transient})
    return 1 if failure else 0


def _run(pipes: PipesContext, module: str) -> tuple[str, bool]:
    """Run the selected assets and checks, and report them.

    Returns why there are no results ("" if there are), and whether another job can have some.
    """
    os.environ.update(pipes.get_extra("environment"))
    try:
        os.environ["FEED_ASSETS_SPARK_MASTER"] = str(submitted_session().sparkContext.master)
        _, definitions = load_project(module)
        result = _execute(pipes, definitions)
    except Exception as error:
        if exit_code(error) is None:
            raise
        return str(error), False
    if reasons := errors(result.all_events):
        return "\n".join(reasons), any(event.is_step_up_for_retry for event in result.all_events)
    _report(pipes, result)
    return "", False


def _execute(pipes: PipesContext, definitions: dg.Definitions) -> dg.ExecuteInProcessResult:
    """A run with the id of Dagster's, whose log goes to Dagster."""

    @dg.logger
    def forwarded(_: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.getLogger("feed_assets.job")
        logger.setLevel(logging.INFO)
        logger.handlers, logger.propagate = [_Forwarding(pipes.log)], False
        return logger

    assets = {dg.AssetKey.from_escaped_user_string(each) for each in pipes.asset_keys}
    checks = {
        dg.AssetCheckKey(dg.AssetKey.from_escaped_user_string(key), name) for key, name in pipes.get_extra("checks")
    }
    everything = dg.Definitions.merge(definitions, dg.Definitions(loggers={"pipes": forwarded}))
    job = everything.resolve_implicit_global_asset_job_def()
    partitions = pipes.get_extra("partitions")
    several = {RANGE_START: partitions[0], RANGE_END: partitions[-1]} if len(partitions) > 1 else {}
    with dg.DagsterInstance.ephemeral() as instance:
        return job.get_subset(asset_selection=assets, asset_check_selection=checks).execute_in_process(
            instance=instance,
            run_id=pipes.run_id,
            partition_key=partitions[0] if len(partitions) == 1 else None,
            tags={ROOT_RUN: pipes.get_extra("root_run_id"), **several},
            run_config={**pipes.get_extra("run_config"), "loggers": {"pipes": {}}},
            raise_on_error=False,
        )


class _Forwarding(logging.Handler):
    """Sends what a run logs to Dagster, without the names of run and step, which Dagster adds again."""

    def __init__(self, target: logging.Logger) -> None:
        super().__init__()
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        """Send one message."""
        about = getattr(record, "dagster_meta", {})
        self._target.log(record.levelno, "%s", about.get("orig_message") or record.getMessage())


def _report(pipes: PipesContext, result: dg.ExecuteInProcessResult) -> None:
    """Report the assets, each with what its partitions have in common, and the checks of each partition."""
    steps = [
        event.step_materialization_data.materialization for event in result.all_events if event.is_step_materialization
    ]
    for key in pipes.asset_keys:
        # The first is the step's own. The audit logs others, which Dagster's side makes from its own history.
        made = {each.partition: each for each in reversed(steps) if each.asset_key.to_escaped_user_string() == key}
        first, *others = made.values()
        # Not the update's name, even if all have the same: else this would seem to describe each partition.
        common = {
            name: value
            for name, value in first.metadata.items()
            if name != UPDATE and all(other.metadata.get(name) == value for other in others)
        }
        version = (first.tags or {}).get(DATA_VERSION_TAG)
        pipes.report_asset_materialization(pipes_metadata(common if others else first.metadata), version, key)
    partitions = pipes.get_extra("partitions")
    for each in result.get_asset_check_evaluations():
        partition = partitions[0] if len(partitions) == 1 else each.partition
        if partitions and partition is None:
            continue  # it sums up those of the partitions
        where = {PARTITION: partition} if partition else {}
        pipes.report_asset_check(
            each.check_name,
            each.passed,
            each.severity.value,
            {**pipes_metadata(each.metadata), **where, DESCRIPTION: each.description or ""},
            each.asset_key.to_escaped_user_string(),
        )


if __name__ == "__main__":
    sys.exit(main())
