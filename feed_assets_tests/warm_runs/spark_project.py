"""The worked example, the assets of killed runs, and assets that look at their Spark; for runs in workers.

A file `kill` beside the base says where the next run is killed: a point of `killed_runs`, and what is killed.
"""

import json
import os
import signal
import time
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from feed_assets.ads.definitions import build_definitions
from feed_assets.blackboard.location import open_blackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.resources.settings import Settings
from feed_assets.resources.storage import BlackboardResource
from feed_assets_tests.faults.killed_runs import IN_THE_AUDIT, Killing, Point, definitions
from feed_assets_tests.faults.processes import die

SPARK, PROCESS = "Spark", "the process"
SHUFFLED = "spark.sql.shuffle.partitions"

settings = Settings.from_environment()
plan = Path(settings.base).with_name("kill")


def plan_to_kill(victim: str, point: Point | str) -> None:
    """Let the next run be killed."""
    plan.write_text(json.dumps([victim, point if isinstance(point, str) else asdict(point)]))


def java() -> int:
    """The process of this process's Spark."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    return int(spark.sparkContext._gateway.proc.pid)


def kill(victim: str) -> None:
    """Kill this process or its Spark, once."""
    plan.unlink()
    if victim == PROCESS:
        die()
    os.kill(java(), signal.SIGKILL)
    time.sleep(60)


@cache
def board(planned: str) -> Blackboard:
    """The blackboard, which kills where it is planned."""
    inner = open_blackboard(settings.base)
    victim, point = json.loads(planned or "[null, null]")
    return Killing(inner, Point(**point), lambda: kill(victim)) if isinstance(point, dict) else inner


class MortalBlackboard(BlackboardResource):
    """A resource whose blackboard kills where it is planned."""

    @property
    def blackboard(self) -> Blackboard:
        return board(plan.read_text() if plan.exists() else "")


def judging() -> None:
    """Kill in the audit, if planned."""
    if plan.exists() and (found := json.loads(plan.read_text()))[1] == IN_THE_AUDIT:
        kill(found[0])


class Doing(dg.Config):
    """Where to write what is found, and the file that ends endless work."""

    finds: str
    waits_for: str = ""


@dg.asset(required_resource_keys={"spark"})
def kept(context: dg.AssetExecutionContext, config: Doing) -> None:
    """Write down what earlier runs left in Spark, and leave more."""
    spark = context.resources.spark.spark_session
    views = [each.name for each in spark.catalog.listTables("global_temp")]
    group = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    found = {"setting": spark.conf.get(SHUFFLED), "views": views, "cached": cached(spark), "group": group}
    found["java"] = java()
    Path(config.finds).write_text(json.dumps(found))
    spark.conf.set(SHUFFLED, "77")
    spark.range(10).createOrReplaceTempView("left_behind")
    spark.range(10).createOrReplaceGlobalTempView("left_to_all")
    spark.sparkContext.setJobGroup("left", "jobs of this run", interruptOnCancel=True)
    spark.range(10).cache().count()
    spark.range(10).localCheckpoint()


def cached(spark: Any) -> int:
    """How many frames are cached."""
    return int(spark._jsparkSession.sparkContext().getPersistentRDDs().size())


@dg.asset(required_resource_keys={"spark"})
def endless(context: dg.AssetExecutionContext, config: Doing) -> None:
    """A job without end; or short jobs until a file is there."""
    spark = context.resources.spark.spark_session
    Path(config.finds).write_text(json.dumps({"java": java()}))
    while config.waits_for and not Path(config.waits_for).exists():
        spark.range(1000).count()
    if not config.waits_for:
        spark.range(0, 10**15, 1, 2).selectExpr("sum(id * id % 7)").collect()


def both() -> dg.Definitions:
    """The definitions of the worked example with the assets of the faults."""
    example = build_definitions(settings, blackboard=MortalBlackboard(base=settings.base))
    faulty = definitions(settings, kept, endless, judging=judging)
    return dg.Definitions(
        assets=[*(example.assets or ()), *(faulty.assets or ())],
        asset_checks=[*(example.asset_checks or ()), *(faulty.asset_checks or ())],
        sensors=example.sensors,
        resources=example.resources,
        executor=dg.in_process_executor,
    )


defs = both()
