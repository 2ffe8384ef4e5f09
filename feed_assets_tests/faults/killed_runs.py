"""Runs in processes of their own that kill themselves at a named point, with SIGKILL.

Here: the assets, the points, and the process. Not here: any test. A process takes no Java of its own: it uses the JVM
of the tests, which survives it, as a cluster does.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from pyspark.conf import SparkConf
from pyspark.core.context import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import LongType, StructField, StructType

from feed_assets import checks
from feed_assets.blackboard.location import open_blackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import history
from feed_assets.io_manager.live_steps import live_steps
from feed_assets.project.assembly import Project
from feed_assets.quality.expectation import Expectation, Judgement
from feed_assets.resources.settings import Settings
from feed_assets.run_history.live import LiveStep
from feed_assets.run_history.tables import live_steps as kept_steps
from feed_assets.state.store import Store
from feed_assets_tests.faults.processes import die, run_until_killed
from feed_assets_tests.harness import REGISTERED, Installation, SwitchedBlackboardResource
from feed_assets_tests.waiting import until

MADE, COPIED = "made/v1.0", "copied/v1.0"
SCHEMA = StructType([StructField("number", LongType())])
ROWS = 10

IN_THE_AUDIT = "in the audit"
WHEN_SEEN = "in the audit, when its figures are kept"


@dataclass(frozen=True, slots=True)
class Point:
    """The `number`th operation of this kind on a key that starts with `prefix`: before it, or right after it."""

    operation: str
    prefix: str
    number: int = 1
    after: bool = False


class Killing:
    """A blackboard that kills its process at a point."""

    def __init__(self, inner: Blackboard, point: Point, kill: Callable[[], object]) -> None:
        self._inner, self._point, self._kill = inner, point, kill
        self._left = point.number

    def __getattr__(self, operation: str) -> Any:
        answer = getattr(self._inner, operation)
        if operation != self._point.operation:
            return answer

        def asked(key: str, *arguments: Any, **more: Any) -> Any:
            hit = key.startswith(self._point.prefix)
            self._left -= hit
            if hit and not self._left and not self._point.after:
                self._kill()
            answered = answer(key, *arguments, **more)
            if hit and not self._left:
                self._kill()
            return answered

        return asked


def definitions(
    settings: Settings,
    *more: dg.AssetsDefinition,
    judging: Callable[[], object] = lambda: None,
    **resources: Any,
) -> dg.Definitions:
    """`made`, which is audited, and `copied`, which reads it and is published at once; `judging` is in the audit."""
    project = Project(settings, ())

    @dg.asset(
        partitions_def=project.days,
        io_manager_key="file_feed",
        required_resource_keys={"spark"},
        metadata=feed_metadata(MADE, SCHEMA, audited=True),
    )
    def made(context: dg.AssetExecutionContext) -> DataFrame:
        numbers: DataFrame = context.resources.spark.spark_session.range(ROWS)
        return numbers.select(functions.col("id").alias("number"))

    @dg.asset(
        partitions_def=project.days,
        ins={"made": dg.AssetIn()},
        io_manager_key="file_feed",
        metadata=feed_metadata(COPIED, SCHEMA),
    )
    def copied(made: DataFrame) -> DataFrame:
        return made

    def judge(*_: Any) -> Judgement:
        judging()
        return Judgement(passed=True, observed={})

    audit = checks.audit(made, [checks.not_empty(), Expectation("judged", "It holds.", judge)])
    return project.definitions(assets=[made, copied, *more], asset_checks=[audit], resources=resources)


def published_once(made: Installation, day: str) -> None:
    """Both assets have one valid update of the day, reported once, and sensors find nothing to do about it."""
    for location, name in ((MADE, "made"), (COPIED, "copied")):
        (update,) = [each for each in history(made.feed(location), day, now=made.now) if each.state == "valid"]
        events = made.instance.fetch_materializations(
            dg.AssetRecordsFilter(dg.AssetKey(name), asset_partitions=[day]), limit=10
        )
        shown = [each.asset_materialization.metadata for each in events.records if each.asset_materialization]
        # The event of a staged update has no path.
        reported = [each["update"].value for each in shown if "path" in each]
        assert reported == [update.name]
        assert len(made.rows(location, day)) == ROWS
        assert made.record(location, day).state == "published"
    later = made.tick("new_manifests")
    assert (later.requests, later.events) == ((), ())


def run_in_a_process_that_is_killed(
    settings: Settings, instance: dg.DagsterInstance, spark: SparkSession, day: str, point: Point | str
) -> dg.DagsterRun:
    """A run of both assets, which a SIGKILL ends; Dagster has stored that it started, and no more."""
    gateway = spark.sparkContext._gateway
    address = {
        "PYSPARK_GATEWAY_PORT": str(gateway.gateway_parameters.port),
        "PYSPARK_GATEWAY_SECRET": str(gateway.gateway_parameters.auth_token),
    }
    before = {run.run_id for run in instance.get_runs()}
    run_until_killed(_run, settings, instance.get_ref(), address, day, point)
    (run,) = [run for run in instance.get_runs() if run.run_id not in before]
    assert run.status == dg.DagsterRunStatus.STARTED
    return run


def _run(settings: Settings, ref: Any, address: dict[str, str], day: str, point: Point | str) -> None:
    os.environ.update(address)
    gateway = launch_gateway()
    machine = gateway.jvm
    running = machine.org.apache.spark.SparkContext.getOrCreate()
    java_context = machine.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(running)
    SparkSession(SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jconf=running.conf())))
    resources: dict[str, Any] = {}
    if isinstance(point, Point):
        REGISTERED[settings.base] = Killing(open_blackboard(settings.base), point, die)
        resources["blackboard"] = SwitchedBlackboardResource(base=settings.base)
    judging: Callable[[], object] = die if point == IN_THE_AUDIT else lambda: None
    if point == WHEN_SEEN:
        resources["live_steps"], judging = live_steps(timedelta(milliseconds=50)), lambda: _die_when_seen(settings)
    there = definitions(settings, judging=judging, **resources)
    with dg.DagsterInstance.from_ref(ref) as instance:
        job = there.resolve_implicit_global_asset_job_def()
        selection = frozenset({dg.AssetKey("made"), dg.AssetKey("copied")})
        subset = job.get_subset(asset_selection=selection)
        run = instance.create_run_for_job(subset, tags={"dagster/partition": day}, asset_selection=selection)
        execute_run(InMemoryJob(subset), run, instance)


def _die_when_seen(settings: Settings) -> None:
    base = open_blackboard(settings.base).uri("")

    def is_seen(step: LiveStep) -> bool:
        return (
            step.step == "made_audit"
            and step.progress is not None
            and 0 < step.progress.tasks_done == step.progress.tasks
        )

    until(lambda: any(map(is_seen, kept_steps(Store(settings.state), base))))
    die()
