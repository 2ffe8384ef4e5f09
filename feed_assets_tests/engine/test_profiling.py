"""The digest and the profile of rows, taken while they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession

from feed_assets.engine.profiling import digest_counts, digest_found, profile_counts, profile_found
from feed_assets.engine.update_files import write_files

Digest = Callable[[str], str]


def seen(frame: DataFrame, counts: list[Any], place: Any) -> dict[str, Any]:
    observation = Observation()
    write_files(frame.observe(observation, *counts), str(place.as_uri()))
    return dict(observation.get)


@pytest.fixture
def digest(spark: SparkSession, tmp_path: Any) -> Digest:
    """The digest of the rows of a query."""

    def of(query: str, *, tasks: int = 1) -> str:
        frame = spark.sql(query).repartition(tasks)
        counts = digest_counts(frame.schema)
        if not counts:
            return digest_found(frame.schema, {})
        place = tmp_path / f"update-{len(list(tmp_path.iterdir()))}"
        return digest_found(frame.schema, seen(frame, counts, place))

    return of


def values(*rows: str, names: str = "a, b") -> str:
    return f"SELECT * FROM VALUES {', '.join(rows)} AS t({names})"


def test_equal_rows_in_any_order_and_of_any_number_of_tasks_have_equal_digests(digest: Any):
    one = digest(values("(1, 'x')", "(2, NULL)", "(3, 'z')"))
    assert one == digest(values("(3, 'z')", "(1, 'x')", "(2, NULL)"), tasks=3) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (values("(1, 2)"), values("(2, 1)")),
        (values("(1, CAST(NULL AS INT))", "(2, 3)"), values("(CAST(NULL AS INT), 1)", "(2, 3)")),
        (values("(1, 2)"), values("(1, 2)", "(1, 2)")),
        (values("(1, 2)"), values("(1, 2)", names="a, c")),
        (values("(1, 2)"), values("(1L, 2)")),
        (values("(array(1, NULL), 1)"), values("(array(NULL, 1), 1)")),
        (values("(array(array(1), array(2)), 1)"), values("(array(array(1, 2), array()), 1)")),
        (values("(map('k', 1), 1)"), values("(map('k', 2), 1)")),
        (
            values("(named_struct('x', 1, 'y', CAST(NULL AS INT)), 1)"),
            values("(named_struct('x', CAST(NULL AS INT), 'y', 1), 1)"),
        ),
        (
            values("(array(timestamp'2019-11-24 00:00:00.000001Z'), 1)"),
            values("(array(timestamp'2019-11-24 00:00:00.000002Z'), 1)"),
        ),
    ],
)
def test_other_rows_have_another_digest(digest: Any, one: str, other: str):
    assert digest(one) != digest(other)


def test_not_a_number_maps_and_nested_values_have_a_digest(digest: Any):
    row = "(double('NaN'), -0.0F, map('k', array(1.5D, double('NaN'))), named_struct('t', date'2019-11-24'), X'00')"
    assert digest(values(row, names="a, b, c, d, e")) == digest(values(row, names="a, b, c, d, e")) != ""


def test_rows_that_spark_cannot_hash_have_none(digest: Any):
    assert digest("SELECT parse_json('1') AS a") == ""


def test_no_rows_have_a_digest_of_their_own(digest: Any):
    nothing = digest(values("(1, 2)") + " WHERE a > 1")
    assert nothing == digest(values("(5, 6)") + " WHERE false") != digest(values("(1, 2)"))


def test_d33_a_profile_has_rows_nulls_distinct_values_and_the_range_of_numbers_and_times(
    spark: SparkSession, tmp_path: Any
):
    frame = spark.sql(
        "SELECT id AS n, IF(id < 2, NULL, CAST(id AS DECIMAL(9, 2)) / 2) AS d, IF(id = 3, double('NaN'), id) AS f, "
        "concat('u', id % 4) AS u, timestamp'2019-11-24 00:00:00Z' + make_dt_interval(0, 0, 0, id) AS t, "
        "date'1970-01-02' AS day, array(id) AS listed FROM range(10)"
    )
    profile = profile_found(frame.schema, seen(frame, profile_counts(frame.schema), tmp_path / "update"))
    begin = 1574553600
    assert profile == {
        "rows": 10,
        "columns": {
            "n": [0, 10, 0, 9],
            "d": [2, 8, 1, 4.5],
            "f": [0, 10, 0.0, 9.0],
            "u": [0, 4, None, None],
            "t": [0, 10, begin, begin + 9],
            "day": [0, 1, 86400, 86400],
            "listed": [0, 0, None, None],
        },
        "times": ["t", "day"],
    }
