"""A project with a daily asset that has a deadline, for the command line. Not here: any test."""

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

import feed_assets as fa

MODULE = __name__


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions with the settings of the environment."""
    project = fa.Project(fa.Settings.from_environment(), ())
    schema = StructType([StructField("name", StringType())])

    @dg.asset(
        partitions_def=project.days,
        io_manager_key="file_feed",
        required_resource_keys={"spark"},
        metadata=fa.feed_metadata("prices/v1.0", schema, deadline="06:00"),
    )
    def prices(context: dg.AssetExecutionContext) -> DataFrame:
        """The name of each day."""
        spark = context.resources.spark.spark_session
        return spark.createDataFrame([(context.partition_key,)], schema)

    prices_job = dg.define_asset_job("prices_job", [prices])
    return project.definitions(
        assets=[prices],
        jobs=[prices_job],
        schedules=[
            dg.ScheduleDefinition(name="each_minute", job=prices_job, cron_schedule="* * * * *"),
        ],
    )
