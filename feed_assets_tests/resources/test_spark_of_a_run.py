"""A run may change some of Spark's properties in its configuration."""

from __future__ import annotations

import dagster as dg

from feed_assets.resources.spark import SparkResource


def test_a_run_that_changes_one_property_of_spark_keeps_all_others():
    @dg.op
    def used(spark: SparkResource) -> tuple[str, dict[str, str]]:
        return spark.base, spark.properties

    @dg.job(resource_defs={"spark": SparkResource.on("local[7]", "s3://bucket/prefix")})
    def run() -> None:
        used()

    changed = {"spark.sql.shuffle.partitions": "3"}
    before = run.execute_in_process().output_for_node("used")
    after = run.execute_in_process({"resources": {"spark": {"config": {"spark_config": changed}}}})
    assert before[0] == "s3://bucket/prefix"
    assert before[1]["spark.master"] == "local[7]"
    assert after.output_for_node("used") == (before[0], before[1] | changed)
