"""Spark reads exactly the files of a list, whatever their names, and fails where it cannot."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from feed_assets.blackboard.location import open_blackboard
from feed_assets.engine.listed_files import read_listed
from feed_assets.engine.session import new_session
from feed_assets.resources.spark import SparkResource
from feed_assets.steps.transient import is_transient

NAMES = ["a b.parquet", "%20.parquet", "[x]*{y},z.parquet", "ä+#&.parquet",
         "id=7/part.parquet", "not/listed.parquet"]  # fmt: skip

SCHEMA = StructType([StructField("id", LongType(), nullable=False)])


@pytest.fixture(params=["disk", "bucket"])
def base(request, spark, tmp_path):
    del spark
    yield str(tmp_path / "base") if request.param == "disk" else f"{request.getfixturevalue('bucket')}/ba se"
    _ = SparkResource.on("local[2]").spark_session


def test_every_file_of_the_list_is_read_and_no_other(base):
    session = SparkResource.on("local[2]", base).spark_session
    board, sizes = open_blackboard(base), {}
    for number, name in enumerate(NAMES):
        content = io.BytesIO()
        pq.write_table(pa.table({"id": [number]}), content)
        entry = board.create(f"files/{name}", content.getvalue())
        sizes[board.uri(entry.key)] = entry.size
    del sizes[board.uri("files/not/listed.parquet")]

    frame = read_listed(session.read, "parquet", sizes, SCHEMA)

    assert sorted(row.id for row in frame.collect()) == list(range(len(NAMES) - 1))
    assert read_listed(session.read, "parquet", sizes).columns == ["id"]


def test_a_null_is_seen_also_in_a_column_that_is_declared_without(spark, tmp_path):
    path = tmp_path / "nulls.parquet"
    pq.write_table(pa.table({"id": pa.array([1, None], pa.int64())}), path)

    frame = read_listed(spark.read, "parquet", {path.as_uri(): path.stat().st_size}, SCHEMA)

    assert frame.where("id IS NULL").count() == 1


def test_a_file_of_the_list_that_is_gone_is_an_error_after_which_a_step_resolves_again(spark, tmp_path):
    frame = read_listed(spark.read, "parquet", {(tmp_path / "gone.parquet").as_uri(): 100}, SCHEMA)

    with pytest.raises(Exception, match=r"gone\.parquet") as raised:
        frame.collect()
    assert is_transient(raised.value)


def test_a_spark_that_ignores_the_list_fails_instead_of_finding_no_rows(spark, tmp_path):
    ignoring = new_session(spark, {"spark.sql.streaming.fileStreamSink.ignoreMetadata": "true"})

    with pytest.raises(Exception, match="ignored"):
        read_listed(ignoring.read, "parquet", {(tmp_path / "x.parquet").as_uri(): 100}, SCHEMA).collect()
