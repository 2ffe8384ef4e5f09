"""What Spark makes of a source's expressions."""

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from feed_assets.ads.partners import partners_directory
from feed_assets.ads.schemas import KINDS
from feed_assets.sources.dropped_zones import zones_dropped
from feed_assets.sources.expressions import check_expressions, event_time, needed_columns
from feed_assets.sources.loading import load_source, load_sources
from feed_assets.sources.partner_columns import columns_named
from feed_assets.sources.spec import Source, SpecError

TEST_PARTNERS = Path(__file__).parent / "partners"
ALL = (*load_sources(partners_directory(), KINDS), *load_sources(TEST_PARTNERS, KINDS))

DESCRIPTION = """\
name: partner
kind: ads
format: {type: csv, header: true, columns: [a, b]}
MORE
columns:
  event_time: to_timestamp(a)
  ad_id: b
identity: [a]
growth_threshold_percent: 5
lookback_days: 7
"""


@pytest.fixture
def described(tmp_path):
    def load(more="filter: a IS NOT NULL", *changes):
        text = DESCRIPTION.replace("MORE", more)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "partner.yaml"
        path.write_text(text)
        return load_source(path, KINDS)

    return load


@pytest.mark.parametrize("source", ALL, ids=lambda source: source.key)
def test_spark_takes_every_expression_of_the_sources_that_come_with_the_project(spark, source):
    check_expressions(spark, source)


def test_the_columns_an_expression_needs_are_found_without_being_declared(spark, described):
    source = described(
        "filter: upper(`odd name`) = 'X' AND c IS NULL",
        (", columns: [a, b]", ""),
        ("ad_id: b", "ad_id: concat(B, get_json_object(d, '$.b'))"),
    )

    assert sorted(needed_columns(spark, source)) == ["B", "a", "c", "d", "odd name"]
    check_expressions(spark, source)


SPARKS_OWN = [
    "user", "current_user", "session_user", "current_catalog", "current_database", "current_schema", "current_role",
    "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "grouping__id", "default",
    "_metadata", "session", "system",
]  # fmt: skip
"""Names that Spark 4.3, or another version, takes for values of its own where there is no column of the name."""


@pytest.mark.parametrize("name", SPARKS_OWN)
def test_a_name_is_a_column_also_where_spark_has_a_value_of_that_name(spark, name):
    for spelled in (name, f"`{name}`", name.upper(), f"upper({name})", f"{name}.field", f"transform(a, x -> {name})"):
        named = [column for column in columns_named(spark, spelled) if column != "a"]
        assert [column.lower() for column in named] == [name]


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("concat(a, A, `b.c`, d.e, 'f', \"g\", `h``i`)", ["a", "b.c", "d", "h`i"]),
        ("transform(a, x -> x + y + x.z)", ["a", "y"]),
        ("upper(a COLLATE UTF8_LCASE)", ["a"]),
        ("aggregate(a, 0, (sum, each) -> sum + each + sums, sum -> sum * b)", ["a", "sums", "b"]),
        ("transform(a, x -> filter(x, y -> y > x AND y < z))", ["a", "z"]),
        ("CASE WHEN a THEN date'2019-11-24' ELSE CAST(b AS date) + INTERVAL 1 DAY END", ["a", "b"]),
        ("timestampadd(HOUR, n, extract(hour FROM t)[k])", ["n", "t", "k"]),
        ("1 + pi()", []),
    ],
)
def test_the_columns_of_an_expression_are_those_that_its_parser_reads(spark, expression, columns):
    assert list(columns_named(spark, expression)) == columns


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("current_path", r"Spark reads current_path\(\) here, not a column; put the column's name into backticks"),
        ("concat(*)", r"`\*` is not taken; name the columns"),
        ("(SELECT max(user))", "a subquery is not taken"),
        ("a IN (SELECT b)", "a subquery is not taken"),
        ("IDENTIFIER('user')", r"IDENTIFIER\(...\) is not taken; write the name itself"),
        ("concat(a, :user)", "a parameter is not taken; write its value"),
    ],
)
def test_what_uses_columns_without_naming_them_is_refused(spark, described, expression, message):
    source = described("filter: a IS NOT NULL", ("ad_id: b", f"ad_id: {json.dumps(expression)}"))

    with pytest.raises(SpecError, match=rf"partner\.yaml:7: columns.ad_id: .*{message}"):
        check_expressions(spark, source)


@pytest.mark.parametrize(
    "mistake",
    [
        ("to_timestamp(a)", "to_timestamp(stamp)", "partner.yaml:6: columns.event_time: there is no column 'stamp'"),
        ("ad_id: b", "ad_id: user", "partner.yaml:7: columns.ad_id: there is no column 'user'; there are a, b"),
        ("ad_id: b", "ad_id: b\n  cost: ad_id", "partner.yaml:8: columns.cost: there is no column 'ad_id'"),
        ("ad_id: b", "ad_id: _file", "partner.yaml:7: columns.ad_id: '_file' is a name of the raw files' own"),
        ("[a, b]", "[a, bb]", "partner.yaml:7: columns.ad_id: there is no column 'b'; did you mean 'bb'?"),
        (
            "type: csv, header: true, columns: [a, b]",
            "type: parquet, columns: {a: strin, b: int}",
            "partner.yaml:3: format.columns.a: 'strin' is no type of Spark's",
        ),
        ("to_timestamp(a)", "to_date(a)", "partner.yaml:6: columns.event_time: is a date, not a time"),
        ("to_timestamp(a)", "a", "partner.yaml:6: columns.event_time: is a string, not a time"),
        ("ad_id: b", "ad_id: concat(b", "partner.yaml:7: columns.ad_id: Spark does not take 'concat(b'"),
        ("ad_id: b", "ad_id: max(b)", "partner.yaml:7: columns.ad_id: Spark does not take 'max(b)'"),
        ("ad_id: b", "ad_id: explode(array(b))", "partner.yaml:7: columns.ad_id: Spark does not take 'explode"),
        ("ad_id: b", "ad_id: row_number() OVER (ORDER BY b)", "partner.yaml:7: columns.ad_id: Spark does not take"),
        ("ad_id: b", "ad_id: concta(b)", "partner.yaml:7: columns.ad_id: Spark does not take 'concta(b)'"),
        ("ad_id: b", "ad_id: b\n  cost: array(b)", "partner.yaml:8: columns.cost: Spark does not take 'array(b)'"),
        ("a IS NOT NULL", "a + 1", "partner.yaml:4: filter: Spark does not take 'a + 1'"),
    ],
)
def test_an_expression_that_spark_does_not_take_is_named_where_it_is(spark, described, caplog, mistake):
    old, new, message = mistake
    source = described("filter: a IS NOT NULL", (old, new))

    with pytest.raises(SpecError) as caught:
        check_expressions(spark, source)

    assert message in str(caught.value)
    assert caplog.records == []


def test_a_column_of_the_identity_that_the_identifiers_own_expression_leaves_out_is_refused(spark, described):
    two = ("identity: [a]", "identity: [a, b]")
    check_expressions(spark, described("null_tokens: []", two, ("ad_id: b", "ad_id: b\n  impression_id: concat(B, a)")))

    with pytest.raises(SpecError, match=r"partner\.yaml:9: identity\[0\]: does not .* for impression_id without it"):
        check_expressions(spark, described("null_tokens: []", two, ("ad_id: b", "ad_id: b\n  impression_id: upper(B)")))


def test_all_expressions_that_spark_does_not_take_are_named_at_once(spark, described):
    source = described("filter: nothing", ("to_timestamp(a)", "never(a)"), ("ad_id: b", "ad_id: c"))

    with pytest.raises(SpecError) as caught:
        check_expressions(spark, source)

    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == [
        "columns.event_time",
        "columns.ad_id",
        "filter",
    ]


def test_an_instant_and_wall_time_elsewhere_contradict_each_other(spark, described):
    source = described("time_zone: Asia/Tokyo")

    with pytest.raises(SpecError, match=r"partner\.yaml:6: columns\.event_time: is a TIMESTAMP, an instant"):
        check_expressions(spark, source)


@pytest.mark.parametrize(
    ("zone", "wall", "utc"),
    [
        ("Asia/Tokyo", "2019-11-24 08:59:59.5", "2019-11-23 23:59:59.5"),
        ("UTC", "2019-11-24 08:59:59.5", "2019-11-24 08:59:59.5"),
        ("Europe/Berlin", "2019-07-01 12:00:00", "2019-07-01 10:00:00"),
        # The clock was set back from 3 to 2: of the two instants the first is taken.
        ("Europe/Berlin", "2019-10-27 02:30:00", "2019-10-27 00:30:00"),
        # It was set forward from 2 to 3: this time never was.
        ("Europe/Berlin", "2019-03-31 02:30:00", "2019-03-31 01:30:00"),
    ],
)
def test_wall_time_becomes_utc(spark, described, zone, wall, utc):
    source = described(f"time_zone: {zone}", ("to_timestamp(a)", "to_timestamp_ntz(a)"))
    frame = spark.sql(f"SELECT '{wall}' AS a, 'x' AS b")

    (row,) = frame.select(event_time(frame, source).cast("string").alias("time")).collect()

    assert row.time == utc


def identifiers(spark, source, rows):
    frame = spark.createDataFrame(rows, "a string, b string").selectExpr(source.expressions["impression_id"])
    return [row[0] for row in frame.collect()]


def test_an_event_is_identified_by_its_source_and_all_columns_of_its_identity(spark, described):
    source = described("null_tokens: []", ("identity: [a]", "identity: [a, b]"))
    rows = [("1", "23"), ("12", "3"), ("123", None), (None, "123"), ("1:2", "3"), ("", "123"), ("123", "")]

    found = identifiers(spark, source, rows)

    assert len(set(found)) == len(rows)
    assert identifiers(spark, source, rows) == found
    assert identifiers(spark, Source.of({**source.model_dump(), "name": "other"}, KINDS), rows)[0] != found[0]


def test_an_event_of_which_nothing_is_known_has_no_identifier(spark, described):
    source = described("null_tokens: []", ("identity: [a]", "identity: [a, b]"))

    assert identifiers(spark, source, [(None, None)]) == [None]


def test_pyspark_can_still_log_its_own_errors_after_an_expression_was_refused(spark, described):
    refused = described("filter: no_such_column = 'x'")

    with pytest.raises(SpecError):
        check_expressions(spark, refused)

    with pytest.raises(AnalysisException):
        spark.range(1).select("no_such_column")


def test_threads_that_analyse_at_once_leave_the_loggers_of_others_alone(spark, described):
    loggers, refused = logging.getLoggerClass(), described("filter: no_such_column = 'x'")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def analysed(_: int) -> None:
        with pytest.raises(SpecError):
            check_expressions(spark, refused)

    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(analysed, range(80)))
    finally:
        sys.setswitchinterval(interval)
        left, _ = logging.getLoggerClass(), logging.setLoggerClass(loggers)

    assert left is loggers
    assert not logging.getLogger("SQLQueryContextLogger").disabled


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("to_timestamp_ntz(a)", "to_timestamp_ntz(a)"),
        ("to_timestamp_ntz(a, 'yyyy-MM-dd HH:mmXXX')", "to_timestamp_ntz(a, "),
        ("to_timestamp_ntz(a, concat('yyyy-MM-dd', b))", "to_timestamp_ntz(a, "),
        ("CAST(trim(a) AS TIMESTAMP_NTZ)", "CAST(trim(a) AS TIMESTAMP_NTZ)"),
        ("CAST(a AS TIMESTAMP WITHOUT TIME ZONE)", "CAST(a AS TIMESTAMP_NTZ)"),
        ("a::timestamp_ntz", "CAST(a AS TIMESTAMP_NTZ)"),
        ("try_cast(a AS timestamp_ntz)", "CAST(a AS TIMESTAMP_NTZ)"),
        ("convert_timezone('Asia/Tokyo', 'UTC', a)", "CAST(a AS TIMESTAMP_NTZ)"),
        ("from_json(a, 'at timestamp_ntz').at", "from_json(a)"),
        ("CAST(array(a) AS array<timestamp_ntz>)[0]", "array(a)"),
        ("if(b = 'x', to_timestamp(a), TIMESTAMP_NTZ '2019-11-24 10:00:00+02:00')", "TIMESTAMP_NTZ '2019"),
        ("to_timestamp_ntz(a, \"yyyy-MM-dd'T'HH:mm\")", None),
        ("to_timestamp_ntz(a, \"yyyy-MM-dd'Z'HH:mm\")", None),
        ("CAST(to_timestamp(a) AS TIMESTAMP_NTZ)", None),
        ("to_timestamp_ntz(to_timestamp(a))", None),
        ("make_timestamp_ntz(2019, 11, 24, 10, 15, 0)", None),
        ("if(b = 'x', to_timestamp(a), TIMESTAMP_NTZ '2019-11-24 10:00:00')", None),
        ("to_timestamp(a)", None),
    ],
)
def test_an_expression_that_drops_the_zone_of_a_text_is_found(spark, described, expression, part):
    source = described("null_tokens: []", ("to_timestamp(a)", json.dumps(expression)))
    check_expressions(spark, source)

    found = zones_dropped(spark, source)

    assert list(found) == ([("columns", "event_time")] if part else [])
    assert part is None or part in found["columns", "event_time"]


def test_a_filter_that_compares_a_text_with_a_time_without_a_zone_drops_the_zone(spark, described):
    source = described("filter: a < TIMESTAMP_NTZ '2019-11-24 10:00:00'")

    assert zones_dropped(spark, source) == {("filter",): "CAST(a AS TIMESTAMP_NTZ)"}
