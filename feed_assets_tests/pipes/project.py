"""A project for tests of jobs: feeds that count the rows of a feed of others. Its jobs load it as Dagster does."""

import os
from datetime import date
from pathlib import Path

import dagster as dg
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import LongType, StringType, StructField, StructType

from feed_assets import checks
from feed_assets.feed_events.declarations import CONTEXT, feed_metadata
from feed_assets.pipes.launched import launched
from feed_assets.pipes.launchers import Launcher, SparkSubmit
from feed_assets.project.assembly import Project

SHOWN = StructType([StructField("user_id", StringType())])
COUNTS = StructType([StructField("user_id", StringType()), StructField("ads", LongType())])
MOST = 2


def counted(name: str, project: Project, *, audited: bool) -> dg.AssetsDefinition:
    """The ads that each user has seen on a day."""

    @dg.asset(
        name=name,
        ins={"shown": dg.AssetIn(input_manager_key="file_feed", metadata={CONTEXT: True})},
        partitions_def=project.days,
        io_manager_key="file_feed",
        metadata=feed_metadata(f"{name}/v1.0", COUNTS, identity=["user_id"], audited=audited),
        backfill_policy=dg.BackfillPolicy.single_run(),
        config_schema={"least": dg.Field(int, default_value=0)},
        code_version="7",
        owners=["team:ads"],
        kinds={"pyspark"},
    )
    def count(context: dg.AssetExecutionContext, shown: dict[str, DataFrame]) -> dict[str, DataFrame]:
        context.add_output_metadata({"most": MOST, "page": dg.MetadataValue.url("https://ads.test/")})
        least = context.op_execution_context.op_config["least"]
        ads = functions.count("*").alias("ads")
        return {day: rows.groupBy("user_id").agg(ads).where(f"ads >= {least}") for day, rows in shown.items()}

    return count


def definitions(environment: dict[str, str]) -> dg.Definitions:
    """The project without jobs."""
    project = Project.of(sources=Path(__file__).parent, first_day=date(2019, 11, 20), environment=environment)
    shown = dg.AssetSpec("shown", partitions_def=project.days, metadata=feed_metadata("shown/v1.0", SHOWN))
    counts, audited_counts = (counted(name, project, audited=name != "counts") for name in ("counts", "audited_counts"))
    few = checks.in_range("ads", at_most=MOST)
    audit = checks.audit(audited_counts, [few, checks.unique("user_id"), checks.row_count_near_median(blocking=False)])
    return project.definitions(assets=[shown, counts, audited_counts], asset_checks=[audit])


def with_jobs(environment: dict[str, str], launcher: Launcher) -> dg.Definitions:
    """The same project, whose feeds are computed by jobs."""
    return launched(definitions(environment), launcher, module=__name__)


defs = with_jobs(dict(os.environ), SparkSubmit(master="local[2]"))
