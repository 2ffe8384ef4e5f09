"""The expectations that come with the project: what each finds, and the sentence it says it in."""

import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import dagster as dg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

from feed_assets import checks
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.quality import subject
from feed_assets_tests.harness import DAY, between, failed_checks, messages

SCHEMA = StructType(
    [
        StructField("id", StringType()),
        StructField("place name", StringType()),
        StructField("price", DecimalType(10, 2)),
        StructField("clicks", LongType()),
        StructField("at", TimestampType()),
    ]
)
NOON = datetime(2019, 11, 24, 12, tzinfo=UTC)
GOOD = [("a", "it's", 1, 0, NOON), ("b", "top", 2, 5, NOON + timedelta(hours=11)), ("c", None, None, None, NOON)]
BAD = [
    ("a", "bottom", 1, 0, NOON),
    ("a", "it's", 99, -1, NOON - timedelta(hours=30)),
    (None, "low", 3, 1, NOON - timedelta(days=2)),
    ("z", "top", 3, 1, NOON),
]
AT_OUTSIDE = (
    "at goes from 2019-11-22 12:00:00 to 2019-11-24 12:00:00, the partition from 2019-11-25 00:00:00 to "
    "2019-11-26 00:00:00."
)
CATALOG = StructType([StructField("name", StringType())])
DAYS = dg.DailyPartitionsDefinition(DAY, end_date="2019-11-26")

EXPECTATIONS = [
    checks.schema_as_declared(),
    checks.not_empty(),
    checks.unique("id"),
    checks.not_null("id", "price", blocking=False),
    checks.accepted_values("place name", "it's", "top"),
    checks.in_range("price", at_least=0, at_most=10.5),
    checks.in_range("clicks", at_least=0, blocking=False),
    checks.in_range("at", at_least=date(2019, 11, 23), name="not_before_the_campaign"),
    checks.fresh("at", within=timedelta(hours=2)),
    checks.times_inside("at"),
    checks.row_count_near_median(factor=3),
    checks.references("id", feed="names/v1.0", to=("name",), partitioned=False),
]


def sample(shop, rows_by_day, expectations=EXPECTATIONS):
    """An audited feed with these rows of each day, and the unpartitioned feed that they refer to."""

    @dg.asset(io_manager_key="file_feed", metadata=feed_metadata("names/v1.0", CATALOG))
    def names():
        return SparkSession.active().sql("SELECT explode(array('a', 'b', 'c')) AS name")

    @dg.asset(
        partitions_def=DAYS,
        io_manager_key="file_feed",
        metadata=feed_metadata("sample/v1.0", SCHEMA, identity=["id"], audited=True),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def sample(context: dg.AssetExecutionContext):
        frames = {
            day: SparkSession.active()
            .createDataFrame(
                rows,
                "id string, `place name` string, price int, clicks long, at timestamp",
            )
            .selectExpr("id", "`place name`", "cast(price AS decimal(10,2)) AS price", "clicks", "at")
            for day, rows in rows_by_day.items()
        }
        return frames if len(frames) > 1 else frames[context.partition_key]

    return shop.with_assets(names, sample, checks=[checks.audit(sample, expectations)])


@pytest.mark.parametrize("few", [subject.FEW, 0], ids=["small", "large"])
def test_each_expectation_says_what_it_found_against_its_limit(shop, monkeypatch, few):
    monkeypatch.setattr(subject, "FEW", few)
    installation = sample(shop, {DAY: GOOD, "2019-11-25": BAD})
    assert installation.run("names", day=None).success

    result = installation.run("sample", day=None, tags=between(DAY, "2019-11-25"))

    of_days = {DAY: {}, "2019-11-25": {}}
    for each in result.get_asset_check_evaluations():
        if each.partition:
            of_days[each.partition][each.check_name] = (each.passed, each.description)
    good, bad = of_days.values()
    assert [name for name, (passed, _) in good.items() if not passed] == ["not_null_id_price"], messages(result)
    assert good["not_null_id_price"] == (False, "NULL: 1 in price, limit 0.")
    assert good["fresh_at"] == (
        True,
        "The newest at is 2019-11-24 23:00:00, 60 min before 2019-11-25 00:00:00, limit 2 h.",
    )
    assert bad == {
        "schema_as_declared": (True, "All 5 columns are as declared."),
        "not_empty": (True, "4 rows, at least 1 expected."),
        "unique_id": (False, "2 of 4 rows repeat id, limit 0."),
        "not_null_id_price": (False, "NULL: 1 in id, limit 0."),
        "accepted_values_place_name": (
            False,
            "2 of 4 rows have another place name than the 2 accepted (for example bottom), limit 0.",
        ),
        "in_range_price": (
            False,
            "1 of 4 rows have price not at least 0 and at most 10.5 (for example 99.00), limit 0.",
        ),
        "in_range_clicks": (False, "1 of 4 rows have clicks not at least 0 (for example -1), limit 0."),
        "not_before_the_campaign": (
            False,
            "1 of 4 rows have at not at least 2019-11-23 (for example 2019-11-22 12:00:00), limit 0.",
        ),
        "fresh_at": (
            False,
            "The newest at is 2019-11-24 12:00:00, 36 h before 2019-11-26 00:00:00, limit 2 h.",
        ),
        "times_inside_at": (
            False,
            AT_OUTSIDE,
        ),
        "row_count_near_median": (True, "4 rows, the median of the 1 before is 3, limit a factor of 3."),
        "references_id": (False, "1 of 4 rows have values of id that names/v1.0 (name) lacks, limit 0."),
    }
    assert installation.latest("sample/v1.0") is not None
    assert installation.latest("sample/v1.0", "2019-11-25") is None


@pytest.mark.parametrize("group", [subject.GROUP, 1], ids=["groups in memory", "more groups than memory keeps"])
def test_a_repeated_identity_is_found_among_many(shop, monkeypatch, group):
    monkeypatch.setattr(subject, "FEW", 0)
    monkeypatch.setattr(subject, "GROUP", group)
    rows = [(f"id-{min(number, 298)}", "top", 1, 0, NOON) for number in range(300)]

    result = sample(shop, {DAY: [*rows, (None, "top", 1, 0, NOON)]}, [checks.unique("id")]).run("sample")

    (found,) = result.get_asset_check_evaluations()
    assert found.description == "2 of 301 rows repeat id, limit 0.", messages(result)


def test_a_reference_to_a_feed_without_an_update_keeps_a_staged_update_from_being_published(shop):
    installation = sample(shop, {DAY: GOOD})

    result = installation.run("sample")

    assert "references_id" in failed_checks(result)
    (description,) = [
        each.description for each in result.get_asset_check_evaluations() if each.check_name == "references_id"
    ]
    assert description == "names/v1.0 has no valid update to compare with."
    assert installation.latest("sample/v1.0") is None


def test_a_reference_names_the_partition_of_which_the_other_feed_has_no_update(shop):
    by_day = checks.references("id", feed="names/v1.0", to=("name",))

    result = sample(shop, {DAY: GOOD}, [by_day]).run("sample")

    (found,) = result.get_asset_check_evaluations()
    assert found.description == f"names/v1.0 has no valid update of {DAY} to compare with."


def outcomes(shop, rows, expectations, schema=None):
    """The results of expectations on an update with the rows of this SQL, beside a feed `others`."""
    others = "SELECT 1d AS x, 'u1' AS `user.id`"
    spark = SparkSession.active()

    @dg.asset(io_manager_key="file_feed", metadata=feed_metadata("others/v1.0", spark.sql(others).schema))
    def others_of_it():
        return spark.sql(others)

    metadata = feed_metadata("odd/v1.0", schema or spark.sql(rows).schema, audited=True)

    @dg.asset(io_manager_key="file_feed", metadata=metadata, deps=[others_of_it])
    def odd():
        return spark.sql(rows)

    installation = shop.with_assets(others_of_it, odd, checks=[checks.audit(odd, expectations)])
    result = installation.run("others_of_it", "odd", day=None)
    found = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert list(found) == [each.name for each in expectations], messages(result)
    return found


def test_nan_is_in_no_range_and_is_a_value_that_another_feed_may_lack(shop):
    rows = "SELECT double('nan') AS x UNION ALL SELECT 1d UNION ALL SELECT NULL"
    other = {"feed": "others/v1.0", "partitioned": False}
    found = outcomes(
        shop,
        rows,
        [
            checks.in_range("x", at_least=0.0, name="at_least_a_float"),
            checks.in_range("x", at_least=0, name="at_least_an_int"),
            checks.in_range("x", at_most=5, name="at_most"),
            checks.references("x", **other),
        ],
    )

    assert [each.passed for each in found.values()] == [False] * 4
    assert found["at_least_a_float"].description == "1 of 3 rows have x not at least 0.0 (for example NaN), limit 0."
    assert found["references_x"].description == "1 of 3 rows have values of x that others/v1.0 lacks, limit 0."


def test_a_long_value_is_an_example_by_its_beginning(shop):
    found = outcomes(shop, "SELECT repeat('x', 1000000) AS x", [checks.accepted_values("x", "y")])["accepted_values_x"]

    example = f"{'x' * 100}..."
    sentence = f"1 of 1 row have another x than the 1 accepted (for example {example}), limit 0."
    assert found.description == sentence
    assert found.metadata["for example"].value == example


def test_a_check_that_cannot_count_names_the_columns_that_are_not_as_declared(shop):
    declared = StructType([StructField("id", StringType()), StructField("n", LongType())])

    found = outcomes(shop, "SELECT 'a' AS id, '1' AS n", [checks.not_null("id")], declared)

    said = found["not_null_id"].description
    assert said == "Not counted: the files are not as declared (n: declared bigint, found string)."


@pytest.mark.parametrize(
    ("judge", "count", "said"),
    [
        (lambda _, counted: counted["rows"] > 9, "count(1)", "many returned False: let it return a Judgement."),
        (lambda _, counted: counted["row"], "count(1)", "Correct the function of the expectation many."),
        (lambda _, counted: counted["rows"], "count(nmae)", "Correct the counts of the expectation many."),
        (lambda _, counted: counted["rows"], "count(", "Correct the counts of the expectation many."),
        (lambda _, counted: counted["rows"], "name", "Correct the counts of the expectation many."),
    ],
    ids=["no Judgement", "an error", "a misspelt column", "no SQL", "no aggregate"],
)
def test_an_expectation_with_a_mistake_is_named(shop, judge, count, said):
    @dg.asset(io_manager_key="file_feed", metadata=feed_metadata("odd/v1.0", CATALOG, audited=True))
    def odd():
        return SparkSession.active().sql("SELECT 'a' AS name")

    many = checks.Expectation("many", "There are many.", judge, {"rows": count})
    result = shop.with_assets(odd, checks=[checks.audit(odd, [checks.not_empty(), many])]).run("odd", day=None)

    assert said in "".join(messages(result))


def test_a_text_that_is_no_number_is_in_no_range(shop):
    rows = "SELECT 'DE7' AS x UNION ALL SELECT '12' UNION ALL SELECT NULL"

    found = outcomes(shop, rows, [checks.in_range("x", at_least=1), checks.in_range("x", at_most=20, name="at_most")])

    assert [each.passed for each in found.values()] == [False, False]
    assert found["at_most"].description == "1 of 3 rows have x not at most 20 (for example DE7), limit 0."


def test_a_text_is_compared_with_a_whole_number_as_the_number_that_it_says(shop):
    found = outcomes(
        shop,
        "SELECT '10.5' AS x, '3000000000' AS big, 9223372036854775807 AS n, '7' AS digit",
        [
            checks.in_range("x", at_most=10),
            checks.in_range("big", at_least=1),
            checks.in_range("n", at_most=2**63 - 1, name="of_a_bigint"),
            checks.in_range("n", at_most=2**63 - 2, name="beyond_a_bigint"),
            checks.accepted_values("digit", 7),
        ],
    )

    assert [each.passed for each in found.values()] == [False, True, True, False, True]


def test_a_number_is_compared_with_a_float_column_as_a_float(shop):
    rows = "SELECT float('0.1') AS x, 0.1BD AS d UNION ALL SELECT float('0.2'), 0.2BD"
    found = outcomes(
        shop,
        rows,
        [
            checks.in_range("x", at_least=0.1, at_most=Decimal("0.2"), name="inside"),
            checks.accepted_values("x", 0.1, 0.2),
            checks.in_range("x", at_most=1e300, name="beyond_its_type"),
            checks.in_range("x", at_most=0.15, name="outside"),
            checks.in_range("d", at_least=0.1, at_most=Decimal("0.2"), name="of_a_decimal"),
        ],
    )

    assert [each.passed for each in found.values()] == [True, True, True, False, True]


def test_any_year_of_spark_and_of_python_can_be_compared(shop):
    rows = "SELECT timestamp'+12345-01-01 00:00:00Z' AS late, timestamp'-0044-03-15 12:00:00Z' AS early"
    found = outcomes(
        shop,
        rows,
        [
            checks.fresh("late", within=timedelta(days=1)),
            checks.fresh("early", within=timedelta(days=1)),
            checks.in_range("late", at_least=datetime(50, 1, 1, tzinfo=UTC)),
            checks.in_range("early", at_least=datetime(50, 1, 1, tzinfo=UTC)),
        ],
    )

    assert [each.passed for each in found.values()] == [True, False, True, False]
    assert found["fresh_late"].description.startswith("The newest late is +12345-01-01 00:00:00, ")
    assert found["fresh_early"].description.startswith("The newest early is -0044-03-15 12:00:00, ")


def test_a_reference_takes_columns_with_any_name_in_any_case(shop):
    other = {"feed": "others/v1.0", "partitioned": False}
    found = outcomes(
        shop,
        "SELECT 'u1' AS `user.id`, 1d AS x, 2 AS y UNION ALL SELECT 'u2', 1d, 2",
        [
            checks.references("user.id", **other),
            checks.references("X", to=("x",), name="case", **other),
            checks.references("user.id", "x", **other),
        ],
    )

    assert [each.passed for each in found.values()] == [False, True, False]
    assert found["references_user_id"].description.startswith("1 of 2 rows have values of user.id")


def test_texts_of_limited_length_and_fields_of_any_name_are_as_declared(shop):
    headers = StructType([StructField("content-type", StringType())])
    schema = StructType([StructField("code", VarcharType(10)), StructField("headers", headers)])
    found = outcomes(
        shop,
        "SELECT 'a1' AS code, named_struct('content-type', 'text/csv') AS headers",
        [checks.schema_as_declared(), checks.not_null("code", "headers"), checks.accepted_values("code", "a1")],
        schema,
    )

    assert all(each.passed for each in found.values()), [each.description for each in found.values()]


@pytest.mark.parametrize("name", ["xsi:type", "a,b", "a<b", "a`b", ""])
def test_a_field_whose_name_would_hide_in_the_text_of_its_type_is_refused(name):
    fields = StructType([StructField(name, StringType())])

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="Spark could not read the field"):
        feed_metadata("a/v1.0", StructType([StructField("h", ArrayType(fields))]))


def test_a_time_without_a_zone_is_in_utc_on_any_machine(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        naive, aware = (checks.in_range("at", at_least=datetime(2019, 11, 24, tzinfo=zone)) for zone in (None, UTC))
    finally:
        monkeypatch.undo()
        time.tzset()

    assert naive.counts == aware.counts


def test_the_description_of_a_check_says_its_limit():
    described = {each.name: each.description for each in EXPECTATIONS}

    assert described["in_range_price"] == "price is at least 0 and at most 10.5."
    assert described["fresh_at"] == "The newest at is at most 2 h before the end of the partition, or before now."
    assert described["references_id"] == "Every id is in the latest update of names/v1.0 (name)."
    assert checks.quarantined_share(limit=0.1).description == "At most 10 % of the records read are quarantined."


def test_two_expectations_of_one_name_and_a_range_without_a_bound_are_refused():
    asset = dg.asset(name="a", metadata=feed_metadata("a/v1.0", SCHEMA, audited=True))(lambda: None)

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="in_range_price: give one another `name`"):
        checks.audit(asset, [checks.in_range("price", at_least=0), checks.in_range("price", at_most=1)])
    with pytest.raises(ValueError, match="has no bound"):
        checks.in_range("price")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: checks.accepted_values("price"), "accepts no value"),
        (checks.not_null, "not_null.. has no column"),
        (checks.unique, "unique.. has no column"),
        (lambda: checks.references(feed="names/v1.0"), "name columns"),
        (lambda: checks.references("id", feed="names/v1.0", to=("a", "b")), "as many in `to`"),
    ],
    ids=["accepted values", "not null", "unique", "references", "references to more"],
)
def test_an_expectation_of_nothing_is_refused_when_it_is_declared(declare, message):
    with pytest.raises(ValueError, match=message):
        declare()
