"""What an asset is given to read: which files, of which partitions, and what happens where there is nothing."""

import csv
import gzip
import io
import re
from pathlib import Path

import dagster as dg
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructField, StructType

from feed_assets.ads.schemas import AD_CATALOG, CLEAN_ADS, KINDS
from feed_assets.assets.external import raw_logs
from feed_assets.engine.duckdb_sql import rows_of
from feed_assets.engine.queried_files import local_files
from feed_assets.engine.update_files import MissingColumnError, UnreadableFormatError, count_update, read_updates
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import publish_files
from feed_assets.partitions.days import hourly
from feed_assets.sources.loading import load_sources
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.harness import (
    ADS,
    ALL,
    BOTH_CLEAN,
    CATALOG,
    CLICKS,
    DAY,
    EFFECTIVENESS,
    NEXT_DAY,
    SHOP_ADS,
    SHOP_CLICKS,
    Installation,
    Interposed,
    ad,
    ads,
    click,
    messages,
    settings_below,
    using_board,
    write_sources,
)

RECORDS = f"{ADS}/.feed/records/{DAY}/"


def test_a_day_in_many_hours_is_read_whole(shop):
    shop.land([*ads(3), *(row | {"id": f"late-{row['id']}", "time": f"{DAY} 23:59:59"} for row in ads(2))])
    shop.land_clicks([click("k1")])

    assert shop.run(*ALL).success
    assert len(shop.rows(ADS)) == 5
    assert len(shop.rows(CLICKS)) == 1


def test_a_file_that_lands_during_a_run_is_not_counted_and_is_growth_afterwards(shop):
    shop.land(ads(10))
    landed = []

    def land_late(operation, key):
        if operation == "create" and key.startswith(f"{ADS}/.feed/records/") and not landed:
            landed.append(key)
            shop.land(ads(10, start=10), name="late")

    result = using_board(shop, Interposed(shop.board, land_late)).run("clean_ads")

    assert result.success
    assert landed
    assert len(shop.rows(ADS)) == 10
    assert [file.path for file in shop.record(ADS).facts.inputs[0].files] == ["12/x.parquet"]
    assert shop.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_an_hourly_asset_reads_the_raw_files_of_its_own_hour(shop):
    shop.land([*ads(3), ads(1, start=9)[0] | {"time": f"{DAY} 13:00:00"}])
    source = next(source for source in load_sources(shop.settings.sources_directory, KINDS) if source.kind == "ads")
    hours = hourly(shop.settings)
    raw = raw_logs(source, hours)

    @dg.asset(
        ins={"records": dg.AssetIn(raw.key, input_manager_key="file_feed")},
        partitions_def=hours,
        io_manager_key="file_feed",
        metadata=feed_metadata("ids/v1.0", StructType([StructField("id", StringType())])),
    )
    def ids(records):
        return records

    installation = shop.with_assets(raw, ids)
    result = installation.run("ids", day=f"{DAY}-12:00")

    assert result.success, messages(result)
    record = installation.record("ids/v1.0", f"{DAY}-12:00")
    assert [file.path for file in record.facts.inputs[0].files] == ["12/x.parquet"]
    assert record.facts.rows.published == 3


def test_the_update_of_the_day_and_that_of_the_day_before_are_looked_up_once_however_many_sources_there_are(
    shop, tmp_path
):
    names = ("shop_ads", "mall_ads", "park_ads")
    # Where a source may be empty, the record also says whether its files were read before, and deleted since.
    texts = [f"{SHOP_ADS.replace('shop_ads', name)}may_be_empty: true\n" for name in names]
    many = Installation(settings_below(shop.base, write_sources(tmp_path / "many", *texts, SHOP_CLICKS)), shop.instance)
    for name in names:
        many.land([ad(name)], f"ads/{name}")
    assert many.run("clean_ads").success
    for path in (shop.base / "raw/ads").rglob("*.parquet"):
        path.unlink()
    recorded = RecordingBlackboard(shop.board)

    assert using_board(many, recorded).run("clean_ads", day=NEXT_DAY, checks=False).success
    of_the_day_before = [each for each in recorded.requests if each.key.startswith((f"{ADS}/{DAY}/", RECORDS))]
    recorded.forget()
    assert using_board(many, recorded).run("clean_ads", checks=False).success
    of_the_day = [each for each in recorded.requests if each.operation == "read" and each.key.startswith(RECORDS)]

    # The latest update and its manifest, where its record lies, and the record.
    assert [each.operation for each in of_the_day_before] == ["page", "read", "page", "read"]
    assert len(of_the_day) == 1


def test_what_lies_beside_raw_files_is_not_read(shop):
    shop.land(ads(2))
    hour = shop.base / "raw/ads/shop_ads" / DAY / "12"
    for name in ("_temporary/part.parquet", ".hidden.parquet", "notes.txt", "deep/er.parquet"):
        stray = hour / name
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes((hour / "x.parquet").read_bytes())

    assert shop.run("clean_ads").success
    assert [file.path for file in shop.record(ADS).facts.inputs[0].files] == ["12/x.parquet"]
    assert shop.record(ADS).facts.rows.read == 2


def test_a_file_that_appears_in_an_update_while_it_is_read_is_not_read(shop):
    shop.land(ads(4))
    shop.land_clicks([click("k1")])
    assert shop.run(*BOTH_CLEAN).success
    part = next(shop.update_directory(ADS).glob("part-*"))

    def add_stray(operation, key):
        if operation == "page" and key.startswith(f"{CLICKS}/"):  # the ads were resolved before
            part.with_name("stray.parquet").write_bytes(part.read_bytes())

    using_board(shop, Interposed(shop.board, add_stray)).run("ad_effectiveness", checks=False)

    assert part.with_name("stray.parquet").exists()
    shop.check("ad_effectiveness")
    assert sum(row["impressions"] for row in shop.rows(EFFECTIVENESS)) == 4


def test_an_update_without_files_is_read_as_no_rows(shop, tmp_path):
    shop.land(ads(3))
    assert shop.run("clean_ads").success
    shop.publish(CLICKS, DAY, {}, tmp_path / "none")

    assert shop.run("ad_effectiveness").success
    assert sum(row["clicks"] for row in shop.rows(EFFECTIVENESS)) == 0


def test_a_missing_upstream_is_a_permanent_failure_that_names_feed_partition_and_command(shop):
    shop.land(ads(1))
    shop.run("clean_ads")

    with pytest.raises(dg.Failure) as failed:
        shop.run("ad_effectiveness", raise_on_error=True)

    assert failed.value.allow_retries is False
    assert failed.value.metadata["feed"].value == CLICKS
    assert failed.value.metadata["partition"].value == DAY
    assert failed.value.metadata["command"].value == (
        f"feed-assets feed ls {(shop.base / CLICKS).as_uri()} --partition {DAY}"
    )
    assert "materialize that partition first" in failed.value.description


def test_an_hour_fails_without_the_day_that_it_reads(shop):
    shop.land(ads(1))
    hours = dg.HourlyPartitionsDefinition(f"{DAY}-00:00", end_date=f"{NEXT_DAY}-00:00")
    schema = StructType([StructField("impression_id", StringType())])

    @dg.asset(
        ins={"clean_ads": dg.AssetIn(input_manager_key="file_feed")},
        partitions_def=hours,
        io_manager_key="file_feed",
        metadata=feed_metadata("hourly/v1.0", schema),
    )
    def of_hours(clean_ads: DataFrame) -> DataFrame:
        return clean_ads.select("impression_id")

    days = dg.DailyPartitionsDefinition(DAY)
    clean = dg.AssetSpec("clean_ads", partitions_def=days, metadata=feed_metadata(ADS, CLEAN_ADS))
    result = shop.with_assets(clean, of_hours).run("of_hours", day=f"{DAY}-12:00")

    assert f"{ADS} has no valid update of {DAY}" in " ".join(messages(result))


def test_a_staged_update_is_no_input(shop):
    shop.land(ads(1))
    shop.land_clicks([click("k1")])
    shop.run("clean_ads", checks=False)
    shop.run("clean_clicks")

    assert f"{ADS} has no valid update of {DAY}" in " ".join(messages(shop.run("ad_effectiveness")))


def test_the_next_day_is_read_where_it_is_there_and_recorded_where_it_is_not(shop):
    shop.land(ads(1))
    shop.land_clicks([click("k1")])
    assert shop.run(*ALL).success

    inputs = {(each.feed, each.partition): each for each in shop.record(EFFECTIVENESS).facts.inputs}

    assert inputs[CLICKS, NEXT_DAY].update is None
    assert inputs[CLICKS, NEXT_DAY].context is False
    assert inputs[ADS, NEXT_DAY].context is True
    assert inputs[ADS, DAY].context is False
    assert inputs[CATALOG, None].update is None


def test_a_feed_of_others_is_read_and_recorded(shop, tmp_path):
    shop.land(ads(1))
    assert shop.run("clean_ads").success
    shop.publish(CLICKS, DAY, {}, tmp_path / "none")
    update = shop.publish(CATALOG, None, {"catalog.csv": "ad_id,advertiser\na1,Ann\n"}, tmp_path / "catalog")

    result = shop.run("ad_effectiveness")

    assert result.success, messages(result)
    assert [row["advertiser"] for row in shop.rows(EFFECTIVENESS)] == ["Ann"]
    assert update.name in {getattr(each, "update", None) for each in shop.record(EFFECTIVENESS).facts.inputs}


@pytest.mark.parametrize(
    "content",
    [
        "ad_id,campaign_id,advertiser,landing_page\na1,c1,Ann,https://a.example\n",
        "landing_page,advertiser,ad_id,campaign_id\nhttps://a.example,Ann,a1,c1\n",
        "ad_id,advertiser\na1,Ann\n",
        "ad_id,advertiser,colour\na1,Ann,red\n",
    ],
    ids=["as declared", "in another order", "without some", "with others"],
)
def test_the_columns_of_a_csv_file_are_found_by_name(desk, spark, tmp_path, content):
    update = desk.publish(CATALOG, None, {"catalog.csv": content}, tmp_path / "catalog")

    frame = read_updates(spark, [update], AD_CATALOG)

    assert frame.columns == AD_CATALOG.names
    assert [(row["ad_id"], row["advertiser"]) for row in frame.collect()] == [("a1", "Ann")]


def test_files_of_a_csv_feed_may_have_their_columns_in_different_orders(desk, spark, tmp_path):
    files = {"one.csv": "ad_id,advertiser\na1,Ann\n", "two.csv": "advertiser,ad_id\nBob,a2\n"}
    update = desk.publish(CATALOG, None, files, tmp_path / "catalog")

    rows = read_updates(spark, [update], AD_CATALOG).collect()

    assert {row["ad_id"]: row["advertiser"] for row in rows} == {"a1": "Ann", "a2": "Bob"}


def test_a_value_that_is_not_of_the_declared_type_is_an_error_and_not_null(desk, spark, tmp_path):
    update = desk.publish(CATALOG, None, {"numbers.csv": "ad_id,clicks\na1,many\n"}, tmp_path / "numbers")
    schema = StructType([StructField("ad_id", StringType()), StructField("clicks", LongType())])

    with pytest.raises(Py4JJavaError, match=r"numbers\.csv"):
        read_updates(spark, [update], schema).collect()


@pytest.mark.parametrize(
    "value",
    ['Acme "Best" Shoes', '5", black', "C:\\ads, all\\", "two\nlines", '"all"'],
    ids=["quotes", "a quote and a separator", "backslashes", "a line break", "quoted"],
)
def test_a_csv_file_of_a_standard_writer_is_read_value_by_value_by_spark_and_duckdb(desk, spark, tmp_path, value):
    text = io.StringIO()
    csv.writer(text).writerows([["ad_id", "landing_page", "advertiser"], ["a1", value, "Ann"], ["a2", "x", value]])
    update = desk.publish(CATALOG, None, {"catalog.csv": text.getvalue()}, tmp_path / "catalog")

    rows = read_updates(spark, [update], AD_CATALOG).select("ad_id", "landing_page", "advertiser").collect()

    assert [tuple(row) for row in rows] == [("a1", value, "Ann"), ("a2", "x", value)]
    assert count_update(spark, update) == 2
    with local_files(update) as files, duckdb.connect() as database:
        relation = rows_of([Path(each) for each in files])
        assert database.execute(f"FROM {relation}").fetchall() == rows


@pytest.mark.parametrize("value", ['Acme "Best" Shoes', '5", black', "two\nlines", '"', "C:\\ads, all\\"])
def test_a_csv_file_of_spark_itself_is_read_value_by_value(desk, spark, tmp_path, value):
    columns = "ad_id STRING, landing_page STRING, advertiser STRING"
    frame = spark.createDataFrame([("a1", value, 'Ann "A" Lee'), ("a2", "x", value)], columns).coalesce(1)
    frame.write.option("header", "true").csv((tmp_path / "written").as_uri())
    (written,) = (tmp_path / "written").glob("part-*.csv")
    update = publish_files(desk.feed(CATALOG), None, [written], now=desk.now, owner="others")

    rows = read_updates(spark, [update], AD_CATALOG).select("ad_id", "landing_page", "advertiser").collect()

    assert sorted(map(tuple, rows)) == [("a1", value, 'Ann "A" Lee'), ("a2", "x", value)]


@pytest.mark.parametrize(
    "rows",
    ["a1,Ann\r\na2,Bob\r\n", 'a1,Ann\n\na2,"Bob"'],
    ids=["other line ends", "empty lines and no last line end"],
)
def test_no_line_of_a_csv_file_joins_another_one(desk, spark, tmp_path, rows):
    update = desk.publish(CATALOG, None, {"catalog.csv": f"ad_id,advertiser\n{rows}"}, tmp_path / "catalog")

    found = [(row["ad_id"], row["advertiser"]) for row in read_updates(spark, [update], AD_CATALOG).collect()]

    assert found == [("a1", "Ann"), ("a2", "Bob")]


@pytest.mark.parametrize(
    "files",
    [
        {"one.csv": "AD_ID,Advertiser\na1,Ann\n", "two.csv": "ad_id,ADVERTISER\na2,Bob\n"},
        {
            "one.json": '{"AD_ID": "a1", "Advertiser": "Ann"}\n',
            "two.json": '{"ad_id": "a2", "advertiser": "Bob", "ADVERTISER": "Eve"}\n',
            "empty.json": "",
        },
    ],
    ids=["csv", "json"],
)
def test_the_name_of_a_column_in_a_text_file_may_differ_in_case(desk, spark, tmp_path, files):
    update = desk.publish(CATALOG, None, files, tmp_path / "catalog")

    frame = read_updates(spark, [update], AD_CATALOG)

    assert frame.columns == AD_CATALOG.names
    assert {row["ad_id"]: row["advertiser"] for row in frame.collect()} == {"a1": "Ann", "a2": "Bob"}


@pytest.mark.parametrize(("name", "content"), [("c.csv", "ad,advertiser\na1,Ann\n"), ("c.json", '{"ad": "a1"}\n')])
def test_a_text_file_without_a_required_column_is_an_error_that_names_both(desk, spark, tmp_path, name, content):
    update = desk.publish(CATALOG, None, {name: content}, tmp_path / "catalog")

    with pytest.raises(MissingColumnError, match=rf"{name}: no column ad_id, which is declared as never NULL"):
        read_updates(spark, [update], AD_CATALOG)


def test_parquet_of_others_without_a_required_column_fails_the_run_and_publishes_nothing(shop, tmp_path):
    shop.land(ads(1))
    assert shop.run("clean_ads").success
    shop.publish(CLICKS, DAY, {}, tmp_path / "none")
    pq.write_table(pa.table({"ad": ["a1"], "advertiser": ["Ann"]}), tmp_path / "catalog.parquet")
    publish_files(shop.feed(CATALOG), None, [tmp_path / "catalog.parquet"], now=shop.now, owner="others")

    result = shop.run("ad_effectiveness")

    assert not result.success
    assert "catalog.parquet: no column ad_id, which is declared as never NULL" in messages(result)[-1]
    assert shop.latest(EFFECTIVENESS) is None


def test_of_many_updates_of_others_the_one_without_a_required_column_is_named(desk, spark, tmp_path):
    updates = []
    for number in range(20):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"ad_id" if number != 13 else "ad": ["a1"]}), path)
        updates.append(publish_files(desk.feed(CATALOG), None, [path], now=desk.now, owner="others"))

    with pytest.raises(MissingColumnError, match=r"13\.parquet: no column ad_id"):
        read_updates(spark, updates, AD_CATALOG, made_elsewhere=True)


def test_parquet_of_others_may_name_a_column_in_another_case(desk, spark, tmp_path):
    pq.write_table(pa.table({"AD_ID": ["a1"]}), tmp_path / "catalog.parquet")
    update = publish_files(desk.feed(CATALOG), None, [tmp_path / "catalog.parquet"], now=desk.now, owner="others")

    rows = read_updates(spark, [update], AD_CATALOG, made_elsewhere=True).collect()

    assert [(row["ad_id"], row["advertiser"]) for row in rows] == [("a1", None)]


@pytest.mark.parametrize("name", ["catalog.csv", "catalog.json"])
def test_a_column_of_a_text_file_may_have_any_name(desk, spark, tmp_path, name):
    text = "user.id\nu1\n" if name.endswith(".csv") else '{"user.id": "u1"}\n'
    update = desk.publish(CATALOG, None, {name: text}, tmp_path / "catalog")
    schema = StructType([StructField("user.id", StringType()), StructField("a`b", StringType())])

    assert [tuple(row) for row in read_updates(spark, [update], schema).collect()] == [("u1", None)]


@pytest.mark.parametrize("name", ["catalog.json", "catalog.jsonl", "catalog.ndjson", "catalog.json.gz"])
def test_json_lines_are_read_packed_or_not(desk, spark, tmp_path, name):
    (tmp_path / "files").mkdir()
    text = b'{"ad_id": "a1", "advertiser": "Ann"}\n'
    path = tmp_path / "files" / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    update = publish_files(desk.feed(CATALOG), None, [path], now=desk.now, owner="others")

    assert [row["advertiser"] for row in read_updates(spark, [update], AD_CATALOG).collect()] == ["Ann"]


@pytest.mark.parametrize("line", ['{"ad_id": "a2"} {"ad_id": "a3"}', '{"ad_id": "a2"} x', '{"ad_id": "a2"'])
def test_a_line_that_is_not_one_json_object_is_an_error_and_no_missing_row(desk, spark, tmp_path, line):
    update = desk.publish(CATALOG, None, {"catalog.json": f'{{"ad_id": "a1"}}\n{line}\n'}, tmp_path / "catalog")

    with pytest.raises(UnreadableFormatError, match=r"catalog\.json: a line is not one JSON object"):
        read_updates(spark, [update], AD_CATALOG)


@pytest.mark.parametrize("name", ["catalog.tsv", "catalog.tsv.gz"])
def test_values_between_tabs_are_read(desk, spark, tmp_path, name):
    (tmp_path / "files").mkdir()
    text = b'ad_id\tadvertiser\n#1\t"Ann, ""A"""\n'
    path = tmp_path / "files" / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    update = publish_files(desk.feed(CATALOG), None, [path], now=desk.now, owner="others")

    rows = read_updates(spark, [update], AD_CATALOG).collect()

    assert [(row["ad_id"], row["advertiser"]) for row in rows] == [("#1", 'Ann, "A"')]


def test_a_file_of_an_unknown_kind_is_named(desk, spark, tmp_path):
    update = desk.publish(CATALOG, None, {"catalog.xlsx": "?"}, tmp_path / "catalog")

    with pytest.raises(UnreadableFormatError, match=r"catalog\.xlsx has a format that cannot be read here"):
        read_updates(spark, [update], AD_CATALOG)


@pytest.mark.parametrize("name", ["_rows.json", ".rows.json", "cut.parquet"])
def test_a_file_that_spark_would_skip_is_an_error_and_not_missing_rows(desk, spark, tmp_path, name):
    rows = {"rows.json": '{"ad_id": "a1"}\n', name: "" if name == "cut.parquet" else '{"ad_id": "a2"}\n'}
    update = desk.publish(CATALOG, None, rows, tmp_path / "catalog")

    with pytest.raises(UnreadableFormatError, match=rf"{re.escape(name)} .*would be missing without a word"):
        read_updates(spark, [update], AD_CATALOG)
