"""Writing the files of an update with Spark: what Spark calls it in its UI and in its logs."""

from __future__ import annotations

from uuid import uuid4

import pytest

from feed_assets.engine.update_files import LABELS, write_files


@pytest.fixture
def stages(spark):
    """The names of the stages that the test has let Spark run."""
    context, group = spark.sparkContext, uuid4().hex
    context.setJobGroup(group, "the test's own")
    tracker = context.statusTracker()

    def names():
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
        return [tracker.getStageInfo(stage).name for job in jobs for stage in job.stageIds]

    yield names
    for name in ("spark.jobGroup.id", *LABELS):
        context.setLocalProperty(name, None)


def test_spark_names_the_stages_of_a_write_after_the_place_that_is_written(spark, tmp_path, stages):
    place = (tmp_path / "rows").as_uri()
    write_files(spark.range(10), place)

    assert stages()
    assert all(place in name for name in stages())


def test_a_write_leaves_the_names_and_descriptions_of_other_jobs(spark, tmp_path, stages):
    write_files(spark.range(10), (tmp_path / "rows").as_uri())
    written = stages()
    spark.range(10).count()

    assert [name for name in stages() if name not in written]
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "the test's own"
