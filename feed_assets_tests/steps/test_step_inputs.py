"""How Spark reads an input of a step: one scan and one job, however many partitions, updates, hours and files."""

from __future__ import annotations

import logging
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

from feed_assets.ads.schemas import KINDS
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.file_feed import Column, publish_files
from feed_assets.sources.loading import load_sources
from feed_assets.steps.run import Output, Run
from feed_assets.steps.step import MissingUpdateError, Step
from feed_assets_tests.harness import AS_OF, ads

LOCATION = "counts/v1.0"
OLD = (Column("id", "bigint"),)
NEW = (*OLD, Column("name", "string"), Column("cost", "decimal(18,6)"))
DAYS = [f"2019-11-{day:02}" for day in range(1, 31)]


@pytest.fixture
def run(desk, spark):
    return Run("run", "run", desk.board, lambda: spark, lambda: AS_OF, logging.getLogger(__name__))


@pytest.fixture
def jobs(spark):
    """The number of Spark jobs that a function takes, and what it returns."""
    context = spark.sparkContext

    def counted(work):
        group = uuid4().hex
        context.setJobGroup(group, group)
        try:
            return work(), len(context.statusTracker().getJobIdsForGroup(group))
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)

    return counted


@pytest.fixture
def published(desk, tmp_path):
    """A month of days with three files each; the first half of it from before two columns were added."""
    for number, day in enumerate(DAYS):
        columns = {"id": pa.array([number], pa.int64())}
        if number >= 15:
            # As another writer may have it: in another order, with a column that nobody declares.
            columns = {"more": pa.array([1]), "name": pa.array([day]), **columns}
        files = [tmp_path / f"{number}-{part}.parquet" for part in range(3)]
        for file in files:
            pq.write_table(pa.table(columns), file)
        publish_files(desk.feed(LOCATION), day, files, now=AS_OF, owner="others")


def scans(frame, capsys):
    capsys.readouterr()
    frame.explain()
    return capsys.readouterr().out.count("FileScan")


def test_thirty_partitions_are_one_scan_and_one_job_whatever_the_schema_was_then(published, run, jobs, capsys):
    step = Step.begin(run, [])
    reading, before = jobs(
        lambda: step.read_feed(FeedDeclaration(LOCATION, NEW), [*DAYS, "2019-12-01"], optional={"2019-12-01"})
    )
    frame = reading.frame()
    rows, collecting = jobs(frame.collect)

    assert (scans(frame, capsys), before, collecting) == (1, 0, 1)
    assert len(frame.inputFiles()) == 90
    assert sorted({(row.id, row.name, row.cost) for row in rows}) == [
        (number, day if number >= 15 else None, None) for number, day in enumerate(DAYS)
    ]
    assert [(name, type_) for name, type_ in frame.dtypes] == [(column.name, column.type) for column in NEW]
    assert len(step.inputs) == 31


def test_partitions_apart_are_read_each_from_its_own_files(published, run, capsys):
    frames = Step.begin(run, []).read_feed(FeedDeclaration(LOCATION, NEW), DAYS[:3]).frames()

    assert [(day, scans(frame, capsys), len(frame.inputFiles())) for day, frame in frames.items()] == [
        (day, 1, 3) for day in DAYS[:3]
    ]


def test_an_input_of_no_partitions_is_a_frame_without_rows(run):
    frame = Step.begin(run, []).read_feed(FeedDeclaration(LOCATION, NEW), []).frame()

    assert (frame.columns, frame.count()) == ([column.name for column in NEW], 0)


def test_a_file_that_vanishes_fails_the_read_and_the_next_attempt_resolves_again(published, run, desk, tmp_path):
    declared = FeedDeclaration(LOCATION, NEW)
    frame = Step.begin(run, []).read_feed(declared, DAYS).frame()
    (directory,) = (desk.base / LOCATION / DAYS[20]).iterdir()
    (directory / "20-1.parquet").unlink()

    with pytest.raises(Py4JJavaError, match=r"20-1\.parquet"):
        frame.collect()
    with pytest.raises(MissingUpdateError, match=DAYS[20]):
        Step.begin(run, []).read_feed(declared, DAYS)
    publish_files(desk.feed(LOCATION), DAYS[20], [tmp_path / "3-0.parquet"], now=AS_OF, owner="others")
    assert Step.begin(run, []).read_feed(declared, DAYS).frame().count() == 88


def test_raw_hours_of_several_days_are_counted_as_one_hour_is_and_read_in_one_scan(run, desk, jobs, capsys):
    for day in DAYS[:3]:
        desk.land([row | {"time": f"{day} {hour:02}:00:00"} for hour in range(24) for row in ads(2)])
    source = next(each for each in load_sources(desk.settings.sources_directory, KINDS) if each.kind == "ads")
    step = Step.begin(run, [Output(FeedDeclaration(LOCATION, OLD), "2019-11")])
    hours = [f"{day}-{hour:02}:00" for day in DAYS[:3] for hour in range(24)]

    _, of_one_hour = jobs(lambda: Step.begin(run, []).read_raw(source, hours[:1]))
    reading, counting = jobs(lambda: step.read_raw(source, hours))
    frame = reading.frame()
    rows, collecting = jobs(frame.collect)

    assert (counting, collecting, scans(frame, capsys)) == (of_one_hour, 1, 1)
    assert len(rows) == step.raw.records_read(None) == 3 * 24 * 2
    assert [each.count for each in step.inputs] == [24, 24, 24]
    assert set(reading.parts) == set(DAYS[:3])
