from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.types import LongType, StringType, StructField, StructType

from feed_assets.ads.schemas import ADS, CLEAN_ADS, CLEAN_CLICKS, CLICKS, KINDS
from feed_assets.engine.jvm import make_default
from feed_assets.file_feed import Column
from feed_assets.sources.canonical import SessionSettingsError, canonical
from feed_assets.sources.kinds import Kind
from feed_assets.sources.spec import Source, SpecError
from feed_assets_tests.ads.events import rows

FIELDS = ("id", "at", "ad", "price")
TIMED = (Column("event_time", "timestamp", nullable=False),)


def ads_source(*, columns: Mapping[str, str] | None = None, **more: Any) -> Source:
    description = {
        "name": "partner_ads",
        "kind": "ads",
        "format": {"type": "csv", "columns": list(FIELDS)},
        "columns": {"event_time": "to_timestamp(at)", "ad_id": "ad", "cost": "price"} | dict(columns or {}),
        "identity": ["id"],
        "growth_threshold_percent": 5,
        "lookback_days": 7,
    }
    return Source.of(description | more, KINDS)


def raw(spark: SparkSession, *records: Sequence[str | None], fields: Sequence[str] = FIELDS) -> DataFrame:
    columns = [*fields, "_file", "_malformed"]
    schema = StructType([StructField(name, StringType()) for name in columns])
    schema.add(StructField("_line", LongType()))
    return spark.createDataFrame(
        [(*record, "log.csv", None, line) for line, record in enumerate(records, start=1)], schema
    )


def test_a_record_comes_out_in_canonical_columns_with_what_the_partner_sent_beside_it(spark: SparkSession) -> None:
    (ad,) = rows(canonical(raw(spark, ("1", "2019-11-27 08:30:00.5", "shoes", "0.25")), ads_source()))

    assert ad.pop("impression_id")
    assert json.loads(ad.pop("_raw")) == {"id": "1", "at": "2019-11-27 08:30:00.5", "ad": "shoes", "price": "0.25"}
    assert ad == {
        "event_time": datetime(2019, 11, 27, 8, 30, 0, 500_000, UTC),
        "ad_id": "shoes",
        "campaign_id": None,
        "user_id": None,
        "placement_id": None,
        "cost": Decimal("0.25"),
        "source": "partner_ads",
        "_file": "log.csv",
        "_line": 1,
        "_malformed": None,
        "_unparsable": None,
    }


def test_a_field_of_a_struct_that_was_not_sent_is_unknown_and_not_unparsable(spark: SparkSession) -> None:
    records = raw(spark, ("1", "2019-11-27 08:30", "shoes", None), ("2", "2019-11-27 08:30", "shoes", "cheap"))
    nested = records.withColumn("price", expr("named_struct('net.of', price, 'currency', 'EUR')"))

    texts = dict.fromkeys(FIELDS, "STRING")
    source = ads_source(
        format={"type": "parquet", "columns": texts | {"price": "STRUCT<`net.of`: STRING, currency: STRING>"}},
        columns={"cost": "try_cast(price.`net.of` AS DECIMAL(18, 6))"},
    )

    assert [ad["_unparsable"] for ad in rows(canonical(nested, source))] == [None, ["cost"]]


@pytest.mark.parametrize(("kind", "schema"), [(ADS, CLEAN_ADS), (CLICKS, CLEAN_CLICKS)])
def test_the_columns_are_those_of_the_kind_with_their_types(
    spark: SparkSession, kind: Kind, schema: StructType
) -> None:
    description = ads_source().model_dump() | {"columns": {"event_time": "to_timestamp(at)", "ad_id": "ad"}}
    source = Source.of(description | {"kind": kind.name}, [kind])

    frame = canonical(raw(spark), source)

    assert [(field.name, field.dataType) for field in frame.schema][: len(schema)] == [
        (field.name, field.dataType) for field in schema
    ]


@pytest.mark.parametrize("price", ["free", "1e400", "9" * 13, "NaN", "1,5", ""])
def test_a_cost_that_is_no_such_number_is_null_and_reported_unparsable(spark: SparkSession, price: str) -> None:
    good, bad = rows(
        canonical(raw(spark, ("1", "2019-11-27", "a", "1.5"), ("2", "2019-11-27", "a", price)), ads_source())
    )

    assert (good["cost"], good["_unparsable"]) == (Decimal("1.5"), None)
    assert (bad["cost"], bad["_unparsable"]) == (None, ["cost"])


@pytest.mark.parametrize(
    "expression",
    ["price", "cast(price as decimal(18,6))", "cast(price as double) / 1000", "price * 2", "cast(price as int)"],
)
def test_no_usual_way_to_read_a_number_fails_the_day_for_one_bad_value(spark: SparkSession, expression: str) -> None:
    source = ads_source(columns={"cost": expression})

    (bad,) = rows(canonical(raw(spark, ("1", "2019-11-27", "a", "n/a")), source))

    assert bad["_unparsable"] == ["cost"]


def test_a_cost_that_was_not_sent_is_unknown_and_not_unparsable(spark: SparkSession) -> None:
    (ad,) = rows(canonical(raw(spark, ("1", "2019-11-27", "a", None)), ads_source()))

    assert (ad["cost"], ad["_unparsable"]) == (None, None)


def test_a_cost_made_of_several_fields_is_unparsable_only_if_all_of_them_were_sent(spark: SparkSession) -> None:
    source = ads_source(columns={"cost": "cast(price as double) * cast(ad as double)"})
    records = raw(spark, ("1", "2019-11-27", "x", "2"), ("2", "2019-11-27", "x", None))

    assert [ad["_unparsable"] for ad in rows(canonical(records, source))] == [["cost"], None]


def test_a_field_named_in_a_literal_or_like_a_function_is_no_part_of_the_expression(spark: SparkSession) -> None:
    fields = ("id", "at", "ad", "price", "round")
    format_ = {"type": "csv", "columns": list(fields)}
    source = ads_source(columns={"cost": "if(ad = 'round', round(price, 2), round(price))"}, format=format_)
    records = raw(spark, ("1", "2019-11-27", "a", "cheap", None), fields=fields)

    assert [ad["_unparsable"] for ad in rows(canonical(records, source))] == [["cost"]]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("to_timestamp(at)", "yesterday"),
        ("to_timestamp(at)", "2019-02-30 00:00:00"),
        ("to_timestamp(at, 'yyyy-MM-dd')", "2019-1-1"),
        ("to_timestamp(at, 'yyyyMMddHHmmssSSS')", "20131021192300738x"),
        ("cast(at as timestamp)", "27.11.2019"),
        ("timestamp_millis(cast(at as bigint))", "soon"),
        ("to_timestamp_ntz(at)", "24:61"),
    ],
)
def test_a_time_that_cannot_be_read_is_null_and_reported_unparsable(
    spark: SparkSession, expression: str, text: str
) -> None:
    source = ads_source(columns={"event_time": expression})

    (ad,) = rows(canonical(raw(spark, ("1", text, "a", "1")), source))

    assert (ad["event_time"], ad["_unparsable"]) == (None, ["event_time"])


@pytest.mark.parametrize("at", ["10:15", "T10:15", " 10:15:30.5", "10:15:30Z", "10:15 UTC", "10:15:30+05:30", "T10"])
def test_a_time_of_day_without_a_date_is_unparsable_and_not_of_today(spark: SparkSession, at: str) -> None:
    seen = Column("seen", "timestamp", nullable=True)
    kind = Kind("visits", (Column("visit_id", "string", nullable=True), *TIMED, seen), identifier="visit_id")
    description = ads_source().model_dump() | {"columns": {"event_time": "to_timestamp(at)", "seen": "price"}}
    source = Source.of(description | {"kind": "visits"}, [kind])

    (visit,) = rows(canonical(raw(spark, ("1", at, "shoes", at)), source))

    assert (visit["event_time"], visit["seen"], visit["_unparsable"]) == (None, None, ["event_time", "seen"])


@pytest.mark.parametrize("at", ["2026", "2026-11", " 2026-1 ", "+2026", "10:15"])
@pytest.mark.parametrize(
    "expression",
    [
        "to_timestamp(at)",
        "to_timestamp_ntz(at)",
        "at::timestamp",
        "CAST(at AS TIMESTAMP_NTZ)",
        "try_to_timestamp(at)",
        "to_timestamp(to_date(at))",
        "to_timestamp(coalesce(at, ad))",
        "to_timestamp(regexp_extract(concat('at=', at), 'at=(.*)', 1))",
        "to_timestamp(at)::timestamp_ntz",
    ],
)
def test_a_part_of_a_date_is_no_time(spark: SparkSession, expression: str, at: str) -> None:
    (ad,) = rows(canonical(raw(spark, ("1", at, "shoes", "1")), ads_source(columns={"event_time": expression})))

    assert (ad["event_time"], ad["_unparsable"]) == (None, ["event_time"])


def test_a_part_of_a_date_is_a_time_where_the_description_puts_the_rest_beside_it_or_has_a_format(
    spark: SparkSession,
) -> None:
    records = raw(spark, ("1", "2026", "1124", "0"), ("2", "2026-11", "", "0"))
    beside = "to_timestamp(concat(at, '-', left(ad, 2), '-', right(ad, 2)))"
    source = ads_source(columns={"event_time": f"coalesce({beside}, to_timestamp(at, 'yyyy-MM'))"})

    assert [ad["event_time"] for ad in rows(canonical(records, source))] == [
        datetime(2026, 11, 24, tzinfo=UTC),
        datetime(2026, 11, 1, tzinfo=UTC),
    ]


def test_a_time_of_day_beside_a_date_or_read_by_a_format_is_a_time(spark: SparkSession) -> None:
    records = raw(spark, ("1", "10:15", "2019-11-27", "0"), ("2", "10:15 27.11.2019", "", "0"))
    beside = "to_timestamp(concat(ad, ' ', at))"
    source = ads_source(columns={"event_time": f"coalesce({beside}, to_timestamp(at, 'HH:mm dd.MM.yyyy'))"})

    assert [ad["event_time"] for ad in rows(canonical(records, source))] == [
        datetime(2019, 11, 27, 10, 15, tzinfo=UTC)
    ] * 2


@pytest.mark.parametrize(
    ("sent", "type_", "kept"),
    [
        ("CAST(3000000000 AS BIGINT)", "int", None),
        ("CAST('NaN' AS DOUBLE)", "int", None),
        ("1e20D", "bigint", None),
        ("'12.7'", "int", None),
        ("' 12 '", "int", 12),
        ("12.0D", "int", 12),
        ("2.9D", "int", None),
        ("-0.5D", "BIGINT", None),
        ("2.90BD", "long", None),
        ("2.00BD", "smallint", 2),
        ("CAST('Infinity' AS FLOAT)", "int", None),
        ("'1.5'", "decimal(4,2)", Decimal("1.50")),
        ("12345.5D", "decimal(4,2)", None),
        ("'yes'", "boolean", True),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_no_other_value(
    spark: SparkSession, sent: str, type_: str, kept: object
) -> None:
    time = Column("event_time", "timestamp", nullable=False)
    kind = Kind("orders", (Column("order_id", "string"), time, Column("amount", type_)), identifier="order_id")
    columns = {"event_time": "to_timestamp(at)", "amount": "price"}
    types = {"id": "string", "at": "string", "ad": "string", "price": "string"}
    source = Source.of(
        ads_source().model_dump()
        | {"kind": "orders", "columns": columns, "format": {"type": "parquet", "columns": types}},
        [kind],
    )
    frame = raw(spark, ("1", "2019-11-27", "a", "x")).selectExpr("* EXCEPT (price)", f"{sent} AS price")

    (record,) = rows(canonical(frame, source))

    assert (record["amount"], record["_unparsable"]) == (kept, None if kept is not None else ["amount"])


def test_all_columns_that_cannot_be_read_are_named(spark: SparkSession) -> None:
    (ad,) = rows(canonical(raw(spark, ("1", "?", "a", "?")), ads_source()))

    assert ad["_unparsable"] == ["event_time", "cost"]


def test_millisecond_digits_run_together_are_read(spark: SparkSession) -> None:
    # Spark's pattern `yyyyMMddHHmmssSSS` reads nothing: where seconds end is not clear to Java.
    expression = "to_timestamp(concat(left(at, 14), '.', substr(at, 15)), 'yyyyMMddHHmmss.SSS')"
    source = ads_source(columns={"event_time": expression})

    (ad,) = rows(canonical(raw(spark, ("1", "20131021192300738", "a", "1")), source))

    assert ad["event_time"] == datetime(2013, 10, 21, 19, 23, 0, 738_000, UTC)


@pytest.mark.parametrize(
    ("wall", "instant"),
    [
        ("2019-07-01 12:00:00", datetime(2019, 7, 1, 16, 0, tzinfo=UTC)),
        ("2019-12-01 12:00:00", datetime(2019, 12, 1, 17, 0, tzinfo=UTC)),
        ("2019-11-27 23:30:00", datetime(2019, 11, 28, 4, 30, tzinfo=UTC)),
    ],
)
def test_wall_time_is_turned_into_utc_with_the_zone_s_summer_time(
    spark: SparkSession, wall: str, instant: datetime
) -> None:
    source = ads_source(columns={"event_time": "to_timestamp_ntz(at)"}, time_zone="America/New_York")

    (ad,) = rows(canonical(raw(spark, ("1", wall, "a", "1")), source))

    assert ad["event_time"] == instant


def test_an_instant_from_a_source_of_local_times_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SpecError, match="Asia/Tokyo"):
        canonical(raw(spark), ads_source(time_zone="Asia/Tokyo"))


def test_the_id_follows_from_source_and_identity_alone(spark: SparkSession) -> None:
    records = raw(
        spark,
        ("1", "2019-11-27", "a", "1"),
        ("1", "2019-11-28", "b", "2"),
        ("2", "2019-11-27", "a", "1"),
    )
    first, again, other = (ad["impression_id"] for ad in rows(canonical(records, ads_source())))
    (elsewhere, *_) = (ad["impression_id"] for ad in rows(canonical(records, ads_source(name="other_ads"))))

    assert first == again
    assert len({first, other, elsewhere}) == 3


def test_ids_of_several_fields_do_not_run_into_each_other_and_nulls_count(spark: SparkSession) -> None:
    source = ads_source(identity=["id", "ad"])
    sent = [("a", "bc"), ("ab", "c"), ("abc", None), (None, "abc"), (None, None), (None, None)]
    records = raw(spark, *[(identifier, "2019-11-27", ad, "1") for identifier, ad in sent])

    ids = [ad["impression_id"] for ad in rows(canonical(records, source))]

    assert ids[4:] == [None, None]
    assert len({*ids[:4]}) == 4


def test_partners_may_use_canonical_names_and_odd_ones_for_their_own_columns(spark: SparkSession) -> None:
    fields = ("event_time", "source", "user id", "a.b", "tick`", "cost")
    source = ads_source(
        columns={
            "event_time": "to_timestamp(event_time)",
            "ad_id": "concat(source, `user id`, `a.b`, `tick```)",
            "cost": "cost",
        },
        format={"type": "csv", "columns": list(fields)},
        identity=["a.b"],
    )
    (ad,) = rows(canonical(raw(spark, ("2019-11-27", "s", "u", "v", "w", "x"), fields=fields), source))

    assert (ad["ad_id"], ad["source"], ad["_unparsable"]) == ("suvw", "partner_ads", ["cost"])
    assert json.loads(ad["_raw"]) == dict(zip(fields, ("2019-11-27", "s", "u", "v", "w", "x"), strict=True))


def test_what_the_partner_did_not_send_is_shown_as_null(spark: SparkSession) -> None:
    (ad,) = rows(canonical(raw(spark, ("1", None, "a", None)), ads_source()))

    assert json.loads(ad["_raw"]) == {"id": "1", "at": None, "ad": "a", "price": None}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.ansi.enabled", "true"),
        ("spark.sql.legacy.timeParserPolicy", "EXCEPTION"),
        ("spark.sql.session.timeZone", "Asia/Tokyo"),
        ("spark.sql.parser.escapedStringLiterals", "true"),
        ("spark.sql.timestampType", "TIMESTAMP_NTZ"),
    ],
)
def test_a_session_in_which_a_value_would_fail_or_shift_or_a_text_would_differ_is_refused(
    spark: SparkSession, setting: str, value: str
) -> None:
    other = spark.newSession()
    other.conf.set(setting, value)

    try:
        with pytest.raises(SessionSettingsError, match=setting):
            canonical(raw(other), ads_source())
    finally:
        make_default(spark)  # else the session that made a frame last is that of the tests after this one
