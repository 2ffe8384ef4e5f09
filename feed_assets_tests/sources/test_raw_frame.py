"""Reading raw files: exactly the listed ones, whoever wrote them and whatever columns they have."""

from datetime import date
from pathlib import Path

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.engine.sql import text_literal
from feed_assets.sources.formats import ParquetFormat
from feed_assets.sources.loading import load_source
from feed_assets.sources.raw import RECORD_COLUMNS, raw_frame, read_set

SOURCE = load_source(Path(__file__).parent / "partners" / "portal_clicks.yaml", KINDS)
DAY = date(2019, 11, 24)


@pytest.fixture
def blackboard(tmp_path):
    return LocalBlackboard(tmp_path / "blackboard")


@pytest.fixture
def received(spark, blackboard, tmp_path):
    """A raw file of another receiver, made by a query."""

    def write(name, query, hour="05"):
        out = tmp_path / name
        spark.sql(query).coalesce(1).write.parquet(str(out))
        (part,) = out.glob("*.parquet")
        blackboard.upload(f"raw/{SOURCE.key}/{DAY}/{hour}/{name}", part)

    return write


def read(spark, blackboard):
    return raw_frame(spark, blackboard, SOURCE, read_set(blackboard, SOURCE.key, DAY))


def test_a_day_without_files_is_an_empty_frame_with_the_declared_columns(spark, blackboard):
    frame = read(spark, blackboard)

    assert frame.count() == 0
    assert dict(frame.dtypes) == dict.fromkeys(["click", "time", "impression", "ad", "user"], "string") | RECORD_COLUMNS


def test_files_of_other_receivers_are_read_and_say_where_each_record_came_from(spark, blackboard, received):
    received(
        "a.parquet", "SELECT * FROM VALUES ('1', '2019-11-24 05:00:00', 'x'), ('2', 'y', 'z') AS (click, time, ad)"
    )

    rows = read(spark, blackboard).orderBy("_line").collect()

    assert [(row.click, row.impression, row._file, row._line, row._malformed) for row in rows] == [
        ("1", None, "a.parquet", 1, None),
        ("2", None, "a.parquet", 2, None),
    ]


def test_columns_that_only_some_files_have_are_null_in_the_others(spark, blackboard, received):
    received("a.parquet", "SELECT '1' AS click, 'first' AS _file, 7L AS _line")
    received("b.parquet", "SELECT '2' AS click, 'u' AS user, 'more' AS unknown")

    rows = read(spark, blackboard).orderBy("click").collect()

    assert [(row.click, row.user, row._file, row._line) for row in rows] == [
        ("1", None, "first", 7),
        ("2", "u", "b.parquet", 1),
    ]


def test_null_tokens_are_null_in_the_partners_columns_only(spark, blackboard, received):
    received("a.parquet", "SELECT 'Na' AS click, '' AS time, ' null' AS ad, 'null' AS user, 'Na' AS _file, 1L AS _line")

    (row,) = read(spark, blackboard).collect()

    assert (row.click, row.time, row.ad, row.user, row._file) == (None, None, " null", None, "Na")


def test_null_tokens_may_have_any_characters(spark, blackboard, received):
    tokens = "\\N", "n'a", '"', "`"
    values = ", ".join(f"({text_literal(text)})" for text in (*tokens, "N", "na", "\\\\N"))
    received("a.parquet", f"SELECT * FROM VALUES {values} AS (ad)")
    source = SOURCE.model_copy(update={"null_tokens": tokens})

    frame = raw_frame(spark, blackboard, source, read_set(blackboard, SOURCE.key, DAY))

    assert [row.ad for row in frame.orderBy("_line").collect()] == [None] * len(tokens) + ["N", "na", "\\\\N"]


def test_only_the_listed_files_are_read(spark, blackboard, received):
    received("a.parquet", "SELECT '1' AS click")
    listed = read_set(blackboard, SOURCE.key, DAY)
    received("b.parquet", "SELECT '2' AS click")

    assert [row.click for row in raw_frame(spark, blackboard, SOURCE, listed).collect()] == ["1"]


def test_a_name_with_characters_of_a_pattern_is_read_literally(spark, blackboard, received):
    received("a[1]{x,y}.parquet", "SELECT '1' AS click")
    received("a1x.parquet", "SELECT '2' AS click")

    assert sorted(row.click for row in read(spark, blackboard).collect()) == ["1", "2"]


def test_a_declared_text_of_limited_length_is_read_as_text(spark, blackboard, received):
    received("a.parquet", "SELECT '1' AS click, 'a7' AS ad, CAST(7 AS BIGINT) AS _line")
    columns = dict.fromkeys(["click", "time", "impression", "user"], "string") | {"ad": "varchar(5)"}
    declaring = SOURCE.model_copy(update={"format": ParquetFormat(type="parquet", columns=columns)})

    (row,) = raw_frame(spark, blackboard, declaring, read_set(blackboard, SOURCE.key, DAY)).collect()

    assert (row.click, row.ad) == ("1", "a7")
