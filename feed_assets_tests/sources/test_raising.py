"""Functions of Spark that raise an error for some values: such a record is quarantined, and the others are not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest

from feed_assets.ads.schemas import CLEAN_ADS, KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.quality.judging import judge
from feed_assets.sources import raising
from feed_assets.sources.canonical import canonical
from feed_assets.sources.expressions import check_constants
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_source
from feed_assets.sources.placing import FUTURE, NO_TIME, UNFILTERED
from feed_assets.sources.raising import raising_functions, to_try
from feed_assets.sources.raw import raw_days, raw_frame
from feed_assets.sources.source_errors import LandingError
from feed_assets.sources.spec import SpecError
from feed_assets_tests.sources.test_landing import quarantined, records

NOW = datetime(2019, 12, 1, tzinfo=UTC)
DAY = date(2019, 11, 24)
GOOD_TIME = "2019-11-24 10:00:00"
DESCRIPTION = """\
name: partner
kind: ads
format: {type: jsonl, columns: [id, at, v, n]}
MORE
columns:
  event_time: TIME
  ad_id: AD
identity: [id]
growth_threshold_percent: 5
lookback_days: 7
"""


@pytest.fixture
def blackboard(tmp_path):
    return LocalBlackboard(tmp_path / "blackboard")


@pytest.fixture
def described(tmp_path):
    def load(*, time="to_timestamp(at)", ad="id", more="description: made up"):
        path = tmp_path / "partner.yaml"
        path.write_text(DESCRIPTION.replace("TIME", time).replace("AD", ad).replace("MORE", more), encoding="utf-8")
        return load_source(path, KINDS)

    return load


@pytest.fixture
def sent(tmp_path):
    """A file with a record for each of these values, each good in all other fields."""

    def write(*values, at=GOOD_TIME):
        lines = [
            json.dumps({"id": f"{number}", "at": at, "v": value, "n": f"{number}"})
            for number, value in enumerate(values, start=1)
        ]
        path = tmp_path / "sent.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


RAISING = {
    "timestamp_seconds(cast(v AS BIGINT))": ("1574589600", "9223372036854775807"),
    "timestamp_millis(cast(v AS BIGINT))": ("1574589600000", "9223372036854775807"),
    "timestamp_seconds(to_number(v, '9999999999'))": ("1574589600", "n/a"),
    "to_timestamp(url_decode(v))": ("2019-11-24%2010:00:00", "%ZZ"),
    "to_timestamp(str_to_map(v, '&', '=')['t'])": ("t=2019-11-24 10:00:00", "t=1&t=2"),
    "to_timestamp(decode(unbase64(v), 'utf-8'))": ("MjAxOS0xMS0yNCAxMDowMDowMA==", "!"),
    "to_timestamp(at) + make_interval(cast(v AS INT))": ("0", "2000000000"),
    "from_utc_timestamp(to_timestamp(at), v)": ("UTC", "Mars/Phobos"),
    "to_timestamp(at, v)": ("yyyy-MM-dd HH:mm:ss", "bbb"),
    "to_timestamp(regexp_extract(at, v, 0))": (".*", "("),
    "to_timestamp(regexp_replace(at, ' ', v))": (" ", "$9"),
    "cast(to_date(left(v, 14)) AS TIMESTAMP)": ("2019-11-24", "+5881580-07-11"),
    "to_timestamp(v) + INTERVAL 1 DAY": ("2019-11-24 10:00:00", "+294247-01-10 04:00:00"),
    "to_timestamp(element_at(array(at), cast(v AS INT)))": ("1", "0"),
    "to_timestamp(split_part(at, '|', cast(v AS INT)))": ("1", "0"),
    "to_timestamp(decode(encode(at, 'utf-8'), v))": ("utf-8", "klingon"),
    "if(v = 'ok', to_timestamp(at), raise_error(v))": ("ok", "no"),
    "convert_timezone(v, 'UTC', to_timestamp_ntz(at))": ("UTC", "Mars"),
}


@pytest.mark.parametrize(("expression", "values"), RAISING.items(), ids=RAISING)
def test_a_record_whose_time_raises_is_quarantined_and_the_others_of_the_file_land(
    spark, blackboard, described, sent, expression, values
):
    good, bad = values
    source = described(time=expression)

    landing = land(spark, blackboard, source, sent(good, bad, good), now=NOW)

    assert (landing.landed, landing.quarantined) == (2, {NO_TIME: 1})
    assert [(each["line"], each["reason"]) for each in quarantined(blackboard, landing)] == [(2, NO_TIME)]
    assert [record["id"] for _, record in records(spark, blackboard, source)] == ["1", "3"]


FILTERS = {
    "to_number(v, '999') > 1": ("5", "n/a"),
    "url_decode(v) = 'a b'": ("a%20b", "%ZZ"),
    "str_to_map(v, '&', '=')['a'] = '1'": ("a=1", "a=1&a=1"),
}


@pytest.mark.parametrize(("condition", "values"), FILTERS.items(), ids=FILTERS)
def test_a_record_that_the_filter_cannot_judge_is_quarantined_and_not_left_out(
    spark, blackboard, described, sent, condition, values
):
    good, bad = values
    source = described(more=f'filter: "{condition}"')

    landing = land(spark, blackboard, source, sent(bad, good, bad, good), now=NOW)

    assert (landing.landed, landing.filtered, landing.quarantined) == (2, 0, {UNFILTERED: 2})
    assert [each["line"] for each in quarantined(blackboard, landing)] == [1, 3]
    assert [record["v"] for _, record in records(spark, blackboard, source)] == [good, good]


MAPS = {
    "str_to_map(v, '&', '=')['a']": ("a=1&b=2", "b=3&b=4&a=5"),
    "map(v, n, 'b', n)['b']": ("a", "b"),
    "map_from_arrays(split(v, ','), split(v, ','))['b']": ("a,b", "c,b,b"),
    "map_concat(map(v, n), map('b', n))['b']": ("a", "b"),
    "transform_keys(map(v, n, 'b', n), (k, x) -> left(k, 1))['b']": ("a", "bb"),
}


@pytest.mark.parametrize(("expression", "values"), MAPS.items(), ids=MAPS)
def test_an_error_for_one_record_changes_no_other_record(spark, blackboard, described, sent, expression, values):
    good, bad = values
    source = described(ad=expression)
    land(spark, blackboard, source, sent(good, bad, good, bad, bad, good), now=NOW)

    found = ads(spark, blackboard, source)

    assert [each._line for each in found if each.ad_id is not None and each._reason is None] == [1, 3, 6]
    assert [each._line for each in found if each._reason == "unparsable ad_id"] == [2, 4, 5]


def ads(spark, blackboard, source):
    """The judged records of the day, in the order of the file."""
    raw = raw_days(blackboard, [source.key], DAY, DAY).values()
    judged = judge(canonical(raw_frame(spark, blackboard, source, *raw), source), CLEAN_ADS, [], day=DAY)
    return sorted(judged.collect(), key=lambda row: row._line)


@pytest.mark.parametrize(
    ("expression", "values"),
    {
        **FILTERS,
        "to_number(v, '999')": ("5", "n/a"),
        "upper(url_decode(v))": ("a%20b", "%ZZ"),
        "format_string(v, n)": ("%s", "%d"),
        "regexp_replace(v, 'x', v)": ("a", "x$9"),
        "decode(unhex('61'), v)": ("utf-8", "klingon"),
        "v rlike v": ("a", "("),
        "aes_decrypt(unbase64(v), '0000111122223333')": (None, "AAAA"),
        "xpath_string(v, 'a')": ("<a>1</a>", "<a>"),
        "variant_get(try_parse_json(v), '$.a', 'int')": ('{"a": 1}', '{"a": "x"}'),
        "sequence(1, 2, cast(v AS INT))[0]": ("1", "-1"),
        "bit_get(5, cast(v AS INT))": ("1", "99"),
        "r'a' || url_decode(v)": ("a", "%ZZ"),
        "/* it's */ url_decode(v)": ("a", "%ZZ"),
        "concat(`url_decode`(v), '')": ("a", "%ZZ"),
    }.items(),
)
def test_a_record_whose_expression_raises_is_quarantined_with_the_column_and_the_others_are_published(
    spark, blackboard, described, sent, expression, values
):
    good, bad = values
    source = described(ad=expression)
    landing = land(spark, blackboard, source, sent(good, bad, good), now=NOW)
    assert landing.landed == 3

    found = ads(spark, blackboard, source)

    quarantined = ("quarantined", "unparsable ad_id")
    assert [(each._verdict, each._reason) for each in found] == [("published", None), quarantined, ("published", None)]


def test_columns_that_share_what_raises_are_each_evaluated_by_themselves(spark, blackboard, described, sent):
    source = described(ad="url_decode(v)\n  user_id: concat(url_decode(v), 'x')\n  campaign_id: upper(url_decode(v))")
    land(spark, blackboard, source, sent("a%20b", "%ZZ"), now=NOW)

    good, bad = ads(spark, blackboard, source)

    assert (good.ad_id, good.user_id, good.campaign_id) == ("a b", "a bx", "A B")
    assert bad._verdict == "quarantined"


def test_a_table_beside_the_source_may_have_values_that_raise(spark, blackboard, described, sent, tmp_path):
    (tmp_path / "ads.csv").write_text("n,link\n1,a%20b\n2,%ZZ\n", encoding="utf-8")
    source = described(ad="url_decode(link)", more="lookups: {ads.csv: n}")
    land(spark, blackboard, source, sent("x", "x"), now=NOW)

    found = ads(spark, blackboard, source)

    assert [(each.ad_id, each._reason) for each in found] == [("a b", None), (None, "unparsable ad_id")]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_a_wall_time_at_the_end_of_what_spark_can_hold_stops_no_file(spark, blackboard, described, sent, zone):
    source = described(time="to_timestamp_ntz(v)", more=f"time_zone: {zone}")
    times = "+294247-01-10 04:00:54.775807", "-290308-12-21 19:59:05.224193", GOOD_TIME

    landing = land(spark, blackboard, source, sent(*times), now=NOW)

    assert (landing.landed, landing.quarantined) == (1, {NO_TIME: 1, FUTURE: 1})


TOO_LONG = "if(v rlike '^(a|b)*$', to_timestamp(at), NULL)"


def test_an_error_of_java_for_one_value_fails_the_file_with_its_name_and_leaves_spark_running(
    spark, blackboard, described, sent
):
    source, file = described(time=TOO_LONG), sent("ab" * 100_000, "ab")

    with pytest.raises(
        LandingError, match=r"sent\.jsonl cannot be landed: Spark fails with StackOverflowError.*event_time"
    ):
        land(spark, blackboard, source, file, now=NOW)

    assert land(spark, blackboard, source, sent("ab"), now=NOW).landed == 1


def test_an_error_that_would_change_later_records_fails_the_file_with_its_name(spark, blackboard, described, sent):
    entries = "map_from_entries(array(struct(v AS k, at AS t), struct('b' AS k, at AS t)))['b']"
    source = described(time=f"to_timestamp({entries})")

    with pytest.raises(LandingError, match=r"sent\.jsonl cannot be landed: .*Duplicate map key b"):
        land(spark, blackboard, source, sent("a", "b"), now=NOW)

    assert land(spark, blackboard, source, sent("a", "c"), now=NOW).landed == 2


def test_a_landing_fails_for_no_value_of_an_expression_that_is_taken_for_safe(
    spark, blackboard, described, sent, monkeypatch
):
    monkeypatch.setattr(raising, "_never_raises", lambda _: True)
    source = described(time="to_timestamp(url_decode(v))", more="filter: to_number(n, '9') < 3")

    landing = land(spark, blackboard, source, sent(GOOD_TIME, "%ZZ", GOOD_TIME), now=NOW)

    assert (landing.landed, landing.filtered, landing.quarantined) == (1, 1, {NO_TIME: 1})


USUAL = [
    "to_timestamp(at, 'yyyy-MM-dd HH:mm:ss')",
    "to_timestamp_ntz(concat(left(v, 14), '.', substr(v, 15)), 'yyyyMMddHHmmss.SSS')",
    "cast(v AS DECIMAL(18,6)) / 1000",
    "if(v IN ('a', 'b') OR v LIKE 'x%' AND NOT v RLIKE 'y+', at, from_json(v, 'a STRING').a)",
    "regexp_extract(v, '(a)(?:b)(c)', 2)",
    "coalesce(nullif(trim(v), '-'), split(v, '-')[0], element_at(split(v, ','), -1))",
    "timestamp_micros(try_multiply(cast(v AS BIGINT), 1000))",
]


@pytest.mark.parametrize("expression", USUAL)
def test_an_expression_of_usual_functions_is_evaluated_as_it_is(described, expression):
    assert to_try(described(), expression) is None


UNUSUAL = [
    "date(v)", "v::date", "cast(v AS DATE)", "to_timestamp(v) + INTERVAL 1 HOUR", "v RLIKE n", "v LIKE n",
    "to_timestamp(at, v)", "element_at(split(v, ','), 0)", "regexp_extract(v, 'a')", "regexp_replace(v, 'a', '$1')",
    "transform(split(v, ','), x -> url_decode(x))", "-cast(v AS DECIMAL(38, 18))", "some_new_function(v)",
    "concat('\\'', url_decode(v), '\\'')", "concat(`it's`, url_decode(v), `it's`)",
]  # fmt: skip


@pytest.mark.parametrize("expression", UNUSUAL)
def test_an_expression_that_can_raise_is_found_whatever_stands_beside_it(described, expression):
    assert to_try(described(), expression) == expression


def test_a_check_names_the_functions_that_can_raise_and_the_spelling_that_does_not(described):
    source = described(
        time="timestamp_seconds(to_number(v, '9'))",
        ad="concat(split_part(v, ',', 1), split_part(v, ',', n), map_from_entries(array(struct(v, n)))[n])",
        more="filter: try_url_decode(v) = 'a' AND url_decode(v) = 'a'",
    )

    found = [warning.split(": ", 1)[1] for warning in raising_functions(source)]

    said, quarantined = "raises an error for some values, and", "their records go to quarantine"
    seconds = "timestamp_micros(try_multiply(cast(x AS BIGINT), 1000000))"
    assert found == [
        f"columns.event_time: timestamp_seconds {said} {quarantined}; {seconds} raises none",
        f"columns.event_time: to_number {said} {quarantined}; try_to_number(...) raises none",
        f"columns.ad_id: split_part {said} a whole file or day fails; split(x, ',')[n - 1] raises none",
        f"columns.ad_id: map_from_entries {said} a whole file or day fails",
        f"filter: url_decode {said} {quarantined}; try_url_decode(...) raises none",
    ]


@pytest.mark.parametrize(
    ("time", "reason"),
    [
        ("to_timestamp(at, 'bbb')", "Unrecognized datetime pattern: 'bbb'"),
        ("to_timestamp(url_decode(date_format(at, 'bbb')))", "Unrecognized datetime pattern: 'bbb'"),
        ("to_timestamp(regexp_extract(at, '(', 1))", r"The value of parameter\(s\) `regexp`"),
    ],
)
def test_a_check_refuses_an_expression_that_fails_for_each_record(spark, described, time, reason):
    with pytest.raises(SpecError, match=rf"partner\.yaml:6: columns\.event_time: Spark fails with .*{reason}"):
        check_constants(spark, described(time=time))


@pytest.mark.parametrize("expression", [*RAISING, "to_timestamp(raise_error(v))", "to_timestamp(map(v, at)['a'])"])
def test_a_check_takes_an_expression_that_fails_for_some_values_only(spark, described, expression):
    check_constants(spark, described(time=expression))
