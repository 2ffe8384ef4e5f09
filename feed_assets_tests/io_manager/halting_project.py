"""A project whose second asset fails in the middle of its rows. Not here: any test."""

from collections.abc import Callable
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

import feed_assets as fa

MODULE = __name__
NUMBERS, HALTED = "numbers/v1.0", "halted/v1.0"
SCHEMA = StructType([StructField("number", LongType())])
ROWS, PARTS = 1000, 5


def definitions(
    settings: fa.Settings, meanwhile: Callable[[DataFrame], object] = lambda _: None, bad: int = 7, **resources: Any
) -> dg.Definitions:
    """`numbers`, and `halted`, which reads it, calls `meanwhile`, and fails in the task with the `bad` number."""
    project = fa.Project(settings, ())

    @dg.asset(
        partitions_def=project.days,
        io_manager_key="file_feed",
        required_resource_keys={"spark"},
        metadata=fa.feed_metadata(NUMBERS, SCHEMA),
    )
    def numbers(context: dg.AssetExecutionContext) -> DataFrame:
        """A thousand numbers."""
        rows: DataFrame = context.resources.spark.spark_session.range(0, ROWS, 1, 1).toDF("number")
        return rows

    @dg.asset(
        partitions_def=project.days,
        ins={"numbers": dg.AssetIn()},
        io_manager_key="file_feed",
        metadata=fa.feed_metadata(HALTED, SCHEMA),
    )
    def halted(numbers: DataFrame) -> DataFrame:
        """The numbers; one may be an error."""
        meanwhile(numbers)
        # Spark would look for the number before it divides the rows, if this did not depend on the part.
        return numbers.repartition(PARTS).where(f"assert_true(number <> {bad} OR spark_partition_id() < 0) IS NULL")

    return project.definitions(assets=[numbers, halted], resources=resources)


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions with the settings of the environment."""
    return definitions(fa.Settings.from_environment())
