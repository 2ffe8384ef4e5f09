"""Landing: which records come to lie where, what is refused, and that it happens wholly or not at all."""

import csv
import gzip
import io
import json
import lzma
import os
import re
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from feed_assets.ads.demo.logs import LOG
from feed_assets.ads.partners import partners_directory
from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.sources import partner_file
from feed_assets.sources import records as text_records
from feed_assets.sources.canonical import canonical
from feed_assets.sources.growth import decide
from feed_assets.sources.landing import LANDING_SETTINGS, land, land_files
from feed_assets.sources.ledger import current_landings
from feed_assets.sources.loading import load_source, load_sources
from feed_assets.sources.partner_file import SPLIT_BYTES, inspect
from feed_assets.sources.placing import FUTURE, MALFORMED, NO_TIME
from feed_assets.sources.raw import raw_days, raw_frame, read_set
from feed_assets.sources.source_errors import LandingError, SourceError
from feed_assets_tests.blackboard.shown import keys
from feed_assets_tests.open_bandit import TOTALS
from feed_assets_tests.sources.described import simple

NOW = datetime(2019, 12, 1, tzinfo=UTC)
DAY = date(2019, 11, 24)
PARTNERS = Path(__file__).parent / "partners"


@pytest.fixture
def blackboard(tmp_path):
    return LocalBlackboard(tmp_path / "blackboard")


@pytest.fixture
def described(tmp_path):
    """A source whose records have an id, a time and an ad, in the format given as YAML."""

    def load(text="type: csv, header: true, columns: [id, time, ad]", more="description: made up"):
        path = tmp_path / "partner.yaml"
        path.write_text(simple(text, more))
        return load_source(path, KINDS)

    return load


@pytest.fixture
def sent(tmp_path):
    """A file as a partner sends it."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def days_of(blackboard, source):
    found = raw_days(blackboard, [source.key], date.min, date.max)
    return {day: raw for (_, day), raw in found.items()}


def records(spark, blackboard, source):
    """All records of a source: the hour they lie in, and their columns."""
    found = []
    for raw in days_of(blackboard, source).values():
        for file in raw.files:
            one = type(raw)(raw.source, raw.partition, (file,))
            found += [
                (f"{raw.partition}/{file.path[:2]}", row.asDict())
                for row in raw_frame(spark, blackboard, source, one).collect()
            ]
    return sorted(found, key=lambda record: record[1]["_line"])


def quarantined(blackboard, landing):
    lines = blackboard.read(landing.quarantine_key).data.decode().splitlines()
    return [json.loads(line) for line in lines]


def test_the_open_bandit_log_lands_as_impressions_and_as_clicks_with_its_known_totals(spark, blackboard):
    ads, clicks = load_sources(partners_directory(), KINDS)

    shown = land(spark, blackboard, ads, LOG, now=NOW)
    clicked = land(spark, blackboard, clicks, LOG, now=NOW)

    assert (shown.read, shown.landed, shown.filtered, shown.quarantined) == (30_000, 30_000, 0, {})
    assert (clicked.read, clicked.landed, clicked.filtered, clicked.quarantined) == (30_000, 157, 29_843, {})
    assert len(shown.partitions) == 7 * 24
    assert (min(shown.partitions), max(shown.partitions)) == ("2019-11-24/00", "2019-11-30/23")
    rows = {str(day): raw_frame(spark, blackboard, ads, raw).count() for day, raw in days_of(blackboard, ads).items()}
    assert rows == {day: impressions for day, (impressions, _) in TOTALS.items()}
    assert keys(blackboard, "raw/.staging/") == []


def test_a_record_lies_in_the_hour_of_its_time_whatever_its_place_in_the_file_and_its_age(
    spark, blackboard, described, sent
):
    source = described()
    file = sent(
        "log.csv",
        "id,time,ad\n"
        "1,2019-11-24 23:59:59.999,a\n"
        "2,2018-10-20 00:00:00,a\n"
        "3,2019-11-25T00:00:00Z,a\n"
        "4,2019-11-24 23:00:00+09:00,a\n",
    )

    landing = land(spark, blackboard, source, file, now=NOW)

    assert [(hour, row["id"], row["_line"]) for hour, row in records(spark, blackboard, source)] == [
        ("2019-11-24/23", "1", 2),
        ("2018-10-20/00", "2", 3),
        ("2019-11-25/00", "3", 4),
        ("2019-11-24/14", "4", 5),
    ]
    assert landing.partitions == ("2018-10-20/00", "2019-11-24/14", "2019-11-24/23", "2019-11-25/00")


def test_each_record_is_kept_as_it_was_sent_quarantined_or_counted(spark, blackboard, described, sent):
    source = described()
    lines = [
        b"\xef\xbb\xbfid,time,ad",
        b"1,2019-11-24 05:00:00,a\r",
        b"",
        b'2,2019-11-24 05:00:00,"a, ""b"""',
        b"3,2019-11-24 05:00:00",  # too few fields, but a time
        b"4,2019-11-24 05:00:00,a,b",  # too many
        b"5,yesterday,a",
        b"6",  # too few for a time
        b"7,null,a",
        b'8,2019-11-24 05:00:00,"a',  # a quote that is not closed
        b"9,2019-11-24 05:00:00,\xff",  # no UTF-8
        b"10,2019-11-24 05:00:00,Na",
        b"11,+051870-01-01 00:00:00,a",  # milliseconds taken for seconds
        b"   \r",
        b"12,2019-11-24 05:00:00,",
    ]
    landing = land(spark, blackboard, source, sent("dirty.csv", b"\n".join(lines)), now=NOW)

    found = {row["id"]: row for _, row in records(spark, blackboard, source)}
    assert {key: (row["ad"], row["_line"], row["_malformed"]) for key, row in found.items()} == {
        "1": ("a", 2, None),
        "2": ('a, "b"', 4, None),
        "3": (None, 5, "3,2019-11-24 05:00:00"),
        "4": ("a", 6, "4,2019-11-24 05:00:00,a,b"),
        "8": ("a", 10, '8,2019-11-24 05:00:00,"a'),
        "9": ("\ufffd", 11, "9,2019-11-24 05:00:00,\ufffd"),
        "10": (None, 12, None),
        "12": (None, 15, None),
    }
    assert {row["_file"] for row in found.values()} == {"dirty.csv"}
    assert (landing.read, landing.landed, landing.malformed, landing.filtered) == (12, 8, 4, 0)
    assert landing.quarantined == {MALFORMED: 1, NO_TIME: 2, FUTURE: 1}
    assert quarantined(blackboard, landing) == [
        {"file": "dirty.csv", "line": 7, "reason": NO_TIME, "record": "5,yesterday,a"},
        {"file": "dirty.csv", "line": 8, "reason": MALFORMED, "record": "6"},
        {"file": "dirty.csv", "line": 9, "reason": NO_TIME, "record": "7,null,a"},
        {"file": "dirty.csv", "line": 13, "reason": FUTURE, "record": "11,+051870-01-01 00:00:00,a"},
    ]


def test_raw_files_keep_null_tokens_as_they_were_sent(spark, blackboard, described, sent):
    source = described()
    land(spark, blackboard, source, sent("log.csv", "id,time,ad\n1,2019-11-24 05:00:00,Na\n"), now=NOW)
    raw = read_set(blackboard, source.key, DAY)

    rows = spark.read.parquet(blackboard.uri(f"raw/{source.key}/2019-11-24/{raw.files[0].path}")).collect()

    assert [(row.id, row.ad, row._line) for row in rows] == [("1", "Na", 2)]


def test_columns_that_the_source_does_not_declare_are_kept_too(spark, blackboard, described, sent):
    source = described()
    land(spark, blackboard, source, sent("log.csv", "extra,ad,id,time\nmore,a,1,2019-11-24 05:00:00\n"), now=NOW)
    raw = read_set(blackboard, source.key, DAY)

    (row,) = spark.read.parquet(blackboard.uri(f"raw/{source.key}/2019-11-24/{raw.files[0].path}")).collect()

    assert (row.extra, row.id, row.ad) == ("more", "1", "a")
    assert "extra" not in raw_frame(spark, blackboard, source, raw).columns


def test_of_a_shared_log_a_source_takes_what_passes_its_filter_and_every_record_it_cannot_tell(
    spark, blackboard, described, sent
):
    source = described(more="filter: ad = 'mine'")
    file = sent(
        "log.csv",
        "id,time,ad\n"
        "1,2019-11-24 05:00:00,mine\n"
        "2,2019-11-24 05:00:00,other\n"
        "3,2019-11-24 05:00:00,null\n"
        "4,2019-11-24 05:00:00\n"
        "5,2019-11-24 05:00:00,other,extra\n"
        "6,never,other\n"
        "7,never,mine\n",
    )

    landing = land(spark, blackboard, source, file, now=NOW)

    assert [row["id"] for _, row in records(spark, blackboard, source)] == ["1", "4"]
    assert (landing.read, landing.landed, landing.filtered, landing.quarantined) == (7, 2, 4, {NO_TIME: 1})


def test_a_file_that_landed_adds_nothing_under_another_name_or_packed_otherwise(spark, blackboard, described, sent):
    source = described()
    content = b"id,time,ad\n1,2019-11-24 05:00:00,a\n1,never,a\n"
    first = land(spark, blackboard, source, sent("log.csv", content), now=NOW)
    before = keys(blackboard)

    again = [
        land(spark, blackboard, source, sent(name, data), now=NOW)
        for name, data in (
            ("log.csv", content),
            ("other.txt", content),
            ("packed.csv.gz", gzip.compress(content)),
            ("PACKED.CSV.GZ", gzip.compress(content)),
            ("secretly_packed.csv", gzip.compress(content)),
        )
    ]

    assert keys(blackboard) == before
    assert not first.already_landed
    assert {(one.already_landed, one.file, one.landed) for one in again} == {(True, "log.csv", 1)}


def test_the_same_content_lands_for_each_source_on_its_own(spark, blackboard, sent):
    ads, clicks = (
        load_source(PARTNERS / "exchange_ads.yaml", KINDS),
        load_source(PARTNERS / "exchange_clicks.yaml", KINDS),
    )
    stamp = "20131021192300738"
    file = sent(
        "log.tsv",
        f"1\t{stamp}\timp\tA\t2\tadv\tbanner\t1.2.3.4\tfox\t1234.5\n"
        f"2\t{stamp}\tclk\tA\t2\tadv\tbanner\t1.2.3.4\tfox\t-\n",
    )

    shown, clicked = (land(spark, blackboard, source, file, now=NOW) for source in (ads, clicks))

    assert (shown.landed, shown.filtered, clicked.landed, clicked.filtered) == (1, 1, 1, 1)
    assert shown.partitions == clicked.partitions == ("2013-10-21/19",)


def test_local_time_lands_in_the_hour_of_utc(spark, blackboard, sent):
    source = load_source(PARTNERS / "mobile_ads.yaml", KINDS)
    file = sent("log.jsonl", '{"id": 1, "at": "2019-11-25T08:59:59.5", "ad": {"id": "a"}}\n')

    land(spark, blackboard, source, file, now=NOW)

    assert [hour for hour, _ in records(spark, blackboard, source)] == ["2019-11-24/23"]


def test_a_line_of_json_is_one_whole_object_and_keeps_every_digit(spark, blackboard, described, sent):
    source = described("type: jsonl, columns: [id, time, ad]")
    time = '"time": "2019-11-24 05:00:00"'
    lines = [
        f'{{"id": 123456789012.123456, {time}, "ad": {{"x": [1, null]}}, "more": 1}}',
        f'  {{"id": "2", {time}}} \r',
        f'{{"id": "3", {time}, "ad": "never',
        f'{{"id": "4", {time}}} {{"id": "5", {time}}}',
        f'{{"id": "6", {time}}},{{"id": "7", {time}}}',
        f'{{"id": "8", {time}}}]',
        f'[{{"id": "9", {time}}}]',
        '"10"',
        "null",
        f'{{"id": true, {time}, "ad": "null"}}',
        f'\t{{"id": "11", {time}}}',
    ]
    landing = land(spark, blackboard, source, sent("log.jsonl", "\n".join(lines)), now=NOW)

    assert [(row["id"], row["ad"], row["_line"]) for _, row in records(spark, blackboard, source)] == [
        ("123456789012.123456", '{"x":[1,null]}', 1),
        ("2", None, 2),
        ("true", None, 10),
        ("11", None, 11),
    ]
    assert landing.quarantined == {MALFORMED: 7}
    assert [record["record"] for record in quarantined(blackboard, landing)] == lines[2:9]
    raw = read_set(blackboard, source.key, DAY)
    kept = spark.read.parquet(blackboard.uri(f"raw/{source.key}/2019-11-24/{raw.files[0].path}"))
    assert kept.orderBy("_line").first()._record == lines[0]


def test_a_json_number_of_more_digits_than_spark_keeps_is_quarantined_and_not_changed(
    spark, blackboard, described, sent
):
    source = described("type: jsonl, columns: [id, time, ad]")
    digits = "1234567890123456789012345678901234567"
    kept = [f"{digits}8", f'"{digits}890"', f'"\\": {digits}890"', f"0.{digits}890", "[1, -2]"]
    lost = [f"{digits}89", f"-{digits}89", f"[1,{digits}89]", f'{{"n":\t{digits}890}}']
    lines = [f'{{"time": "2019-11-24 05:00:00", "id": {number}, "ad": "\\\\"}}' for number in (*kept, *lost)]

    landing = land(spark, blackboard, source, sent("log.jsonl", "\n".join(lines)), now=NOW)

    assert landing.quarantined == {MALFORMED: len(lost)}
    assert [record["record"] for record in quarantined(blackboard, landing)] == lines[len(kept) :]
    landed = [row["id"] for _, row in records(spark, blackboard, source)]
    assert landed[:3] == [f"{digits}8", f"{digits}890", f'": {digits}890']


def test_a_long_json_number_is_found_wherever_the_file_is_read_in_two(described, sent):
    source = described("type: jsonl, columns: [id, time, ad]")
    record = '{"id":' + "9" * 39 + "}"
    before = 2**20 - len(record)
    texts = ["".join((" " * (before + shift), record)) for shift in range(len(record) + 1)]

    assert all(inspect(sent("log.jsonl", text), source, Path()).long_numbers for text in texts)
    assert not inspect(sent("log.jsonl", texts[9].replace(":", ':"')), source, Path()).long_numbers


def test_json_objects_without_a_line_break_between_them_are_refused_with_what_to_do(described, sent):
    source = described("type: jsonl, columns: [id, time, ad]")
    with pytest.raises(LandingError, match=r"has all JSON objects in one line, .* jq -c '\.' > NEW`"):
        inspect(sent("log.json", '{"id": "}"}{"id": 2}'), source, Path())
    for text in ('{"id": 1}', '{"id": 1}{"id": 2}\n{"id": 3}\n', '{"id": "}{"}\n', '{"id": 1', ""):
        inspect(sent("log.json", text), source, Path())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.json", '[{"id": 1},{"id": 2}]', r"log\.json is a JSON array, .* `cat FILE \| jq -c '\.\[\]' > NEW`"),
        ("log.json", '\ufeff[\r\n  {"id": 1}\r\n]', "is a JSON array"),
        ("log.jsonl", "[]", "is a JSON array"),
        ("log.json.gz", gzip.compress(b'[{"id": 1}]', mtime=0), r"is a JSON array, .* `zcat FILE \| jq"),
        ("log.json", '{\n  "id": 1\n}\n{\n  "id": 2\n}', r"has JSON objects of several lines, .* jq -c '\.' > NEW`"),
    ],
)
def test_json_that_has_not_one_object_a_line_is_refused(spark, blackboard, described, sent, name, content, message):
    source = described("type: jsonl, columns: [id, time, ad]")

    with pytest.raises(LandingError, match=message):
        land(spark, blackboard, source, sent(name, content), now=NOW)

    assert keys(blackboard) == []


@pytest.mark.parametrize("line", ["sep=;", "\ufeffSEP=;", '"sep=;"'])
def test_a_line_above_the_header_that_names_the_separator_for_excel_is_passed_over(
    spark, blackboard, described, sent, line
):
    source = described("type: csv, header: true, columns: [id, time, ad], separator: ';'")

    landing = land(
        spark, blackboard, source, sent("log.csv", f"{line}\r\nid;time;ad\r\n1;2019-11-24 05:00:00;a\r\n"), now=NOW
    )

    assert (landing.read, landing.landed, landing.malformed) == (1, 1, 0)
    assert [row["_line"] for _, row in records(spark, blackboard, source)] == [3]


def test_parquet_keeps_its_types_and_counts_its_records(spark, blackboard, described, tmp_path):
    source = described("type: parquet, columns: {id: int, time: timestamp, ad: string}")
    rows = spark.sql(
        "SELECT CAST(id AS INT) AS id, timestamp_seconds(1574571600 + id * 3600) AS time, 'a' AS ad, 1.5D AS more "
        "FROM range(3) UNION ALL SELECT 9, NULL, 'b', NULL"
    )
    rows.coalesce(1).write.parquet(str(tmp_path / "out"))
    (part,) = (tmp_path / "out").glob("*.parquet")
    file = part.rename(tmp_path / "log.parquet")

    landing = land(spark, blackboard, source, file, now=NOW)

    assert [(hour, row["id"], row["_line"]) for hour, row in records(spark, blackboard, source)] == [
        ("2019-11-24/05", 0, 1),
        ("2019-11-24/06", 1, 2),
        ("2019-11-24/07", 2, 3),
    ]
    assert [json.loads(record["record"]) for record in quarantined(blackboard, landing)] == [{"id": 9, "ad": "b"}]
    changed = described("type: parquet, columns: {id: smallint, time: timestamp, ad: string, other: string}")
    another = LocalBlackboard(tmp_path / "another")
    with pytest.raises(LandingError, match="has id as int, not as smallint"):
        land(spark, another, changed, file, now=NOW)
    assert keys(another) == []


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_parquet_may_have_narrower_types_than_the_source_declares(spark, blackboard, described, tmp_path, vectorized):
    source = described(
        "type: parquet, columns: {id: bigint, time: timestamp, ad: string, small: int, price: 'decimal(10, 3)', "
        "ratio: double}"
    )
    moments = [datetime(2019, 11, 24, 5, tzinfo=UTC)] * 2
    for name, whole, price, ratio in (
        ("narrow.parquet", pa.int8(), pa.decimal128(4, 2), pa.float32()),
        ("wide.parquet", pa.int32(), pa.decimal128(10, 3), pa.float64()),
    ):
        columns = {
            "id": pa.array([-128, 127], whole),
            "time": pa.array(moments, pa.timestamp("us", "UTC")),
            "ad": pa.array([name, None]),
            "small": pa.array([1, None], whole),
            "price": pa.array([Decimal("12.34"), Decimal("-0.01")], price),
            "ratio": pa.array([0.5, None], ratio),
        }
        pq.write_table(pa.table(columns), tmp_path / name)
        land(spark, blackboard, source, tmp_path / name, now=NOW)

    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    try:
        found = [record for _, record in records(spark, blackboard, source)]
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")

    wanted = [(-128, 1, Decimal("12.340"), 0.5), (127, None, Decimal("-0.010"), None)]
    assert sorted((each["id"], each["small"], each["price"], each["ratio"]) for each in found) == sorted(2 * wanted)


def test_a_column_of_parquets_null_type_has_no_value_whatever_the_source_declares(
    spark, blackboard, described, tmp_path
):
    source = described("type: parquet, columns: {id: bigint, time: timestamp, ad: string, tags: 'map<string, string>'}")
    moment = pa.array([datetime(2019, 11, 24, 5, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    sent = {"id": [1], "time": moment, "ad": pa.nulls(1), "tags": pa.nulls(1), "other": pa.nulls(1)}
    pq.write_table(pa.table(sent), tmp_path / "as-pandas-writes.parquet")

    land(spark, blackboard, source, tmp_path / "as-pandas-writes.parquet", now=NOW)

    ((_, record),) = records(spark, blackboard, source)
    assert (record["id"], record["ad"], record["tags"]) == (1, None, None)


@pytest.mark.parametrize(
    ("sent", "declared"),
    [
        (pa.int64(), "int"),
        (pa.float64(), "float"),
        (pa.decimal128(10, 3), "'decimal(10, 2)'"),
        (pa.decimal128(10, 2), "'decimal(10, 3)'"),
        (pa.int32(), "double"),
        (pa.string(), "int"),
    ],
    ids=str,
)
def test_parquet_of_a_type_whose_values_the_declared_one_may_not_hold_is_refused(
    spark, blackboard, described, tmp_path, sent, declared
):
    source = described(f"type: parquet, columns: {{id: {declared}, time: timestamp, ad: string}}")
    columns = {
        "id": pa.array([None], sent),
        "time": pa.array([NOW], pa.timestamp("us", "UTC")),
        "ad": pa.array(["a"]),
    }
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")

    with pytest.raises(LandingError, match=rf"log.parquet has id as .*, not as {re.escape(declared.strip(chr(39)))}"):
        land(spark, blackboard, source, tmp_path / "log.parquet", now=NOW)
    assert keys(blackboard) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("doubled", {"time": pa.array(["t"]), "Time": pa.array(["t"])}, "cannot be read as Parquet: .*already exists"),
        ("ours", {"_line": pa.array([1])}, "raw files use the name '_line' themselves; rename it"),
        ("other", {"id": pa.array([1])}, "lacks the column time"),
        ("cut", b"PAR1 and no more", "is Parquet that was cut off; have it sent again"),
        ("spoiled", b"PAR1 and PAR1", "cannot be read as Parquet: "),
        ("encrypted", b"PARE and PARE", "is encrypted Parquet, .* sent without encryption"),
    ],
)
def test_parquet_that_spark_does_not_read_is_refused_with_the_reason(
    spark, blackboard, described, tmp_path, name, content, message
):
    source = described("type: parquet, columns: {id: bigint, time: timestamp, ad: string}")
    file = tmp_path / f"{name}.parquet"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        pq.write_table(pa.table(content), file)

    with pytest.raises(LandingError, match=rf"{name}\.parquet.*{message}"):
        land(spark, blackboard, source, file, now=NOW)

    assert keys(blackboard) == []


def test_parquet_that_lost_bytes_in_its_middle_is_refused_although_spark_reads_the_rest(
    spark, blackboard, described, tmp_path
):
    source = described("type: parquet, columns: {id: bigint, time: timestamp, ad: string}")
    ids = range(10_000)
    times = pa.array([datetime(2019, 11, 24, 5, tzinfo=UTC)] * len(ids), pa.timestamp("us", "UTC"))
    table = pa.table({"id": ids, "time": times, "ad": map(str, ids)})
    file = tmp_path / "log.parquet"
    pq.write_table(table, file, row_group_size=2_500, use_dictionary=False)
    second = pq.read_metadata(file).row_group(1).column(0).data_page_offset
    whole = file.read_bytes()
    footer = 8 + int.from_bytes(whole[-8:-4], "little")
    file.write_bytes(whole[:second] + whole[-footer:])

    with pytest.raises(LandingError, match=r"log\.parquet states 10,000 rows, and Spark reads 2,500: .*sent again"):
        land(spark, blackboard, source, file, now=NOW)

    assert keys(blackboard) == []


def test_a_file_that_spark_fails_to_read_is_refused_with_the_reason_and_the_others_land(
    spark, blackboard, described, sent
):
    # Python and the program gzip read over zeros behind the packed bytes.
    padded = gzip.compress(b"id,time,ad\n1,2019-11-24 05:00:00,a\n") + bytes(512)
    files = [sent("padded.csv.gz", padded), sent("other.csv", "id,time,ad\n2,2019-11-24 05:00:00,a\n")]

    refused, other = land_files(spark, blackboard, described(), files, now=NOW)

    assert isinstance(refused, LandingError)
    assert re.search(
        r"^\S+padded\.csv\.gz cannot be read to its end: .* not gzip follow .* gzip -d padded\.", str(refused)
    )
    assert other.landed == 1


def test_parquet_packed_as_spark_cannot_unpack_is_refused_with_the_name_of_the_packing(
    spark, blackboard, described, tmp_path
):
    source = described("type: parquet, columns: {id: bigint, time: timestamp, ad: string}")
    columns = {"id": [1], "time": pa.array([NOW], pa.timestamp("us", "UTC")), "ad": ["a"]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", compression="brotli")

    with pytest.raises(
        LandingError, match=r"log\.parquet cannot be .*: it is packed with Brotli, .* Snappy or Zstandard"
    ):
        land(spark, blackboard, source, tmp_path / "log.parquet", now=NOW)

    assert keys(blackboard) == []


def test_a_decimal_of_more_digits_than_spark_has_matters_only_if_the_source_declares_it(
    spark, blackboard, described, tmp_path
):
    columns = {"id": [1], "time": pa.array([NOW], pa.timestamp("us", "UTC")), "ad": ["a"]}
    long = pa.array([Decimal(10**50)], pa.decimal256(60, 0))
    pq.write_table(pa.table({**columns, "cost": long}), tmp_path / "log.parquet")
    declaring = described("type: parquet, columns: {id: bigint, time: timestamp, ad: string, cost: 'decimal(38, 0)'}")
    source = described("type: parquet, columns: {id: bigint, time: timestamp, ad: string}")

    with pytest.raises(
        LandingError, match=r"Spark cannot read: cost \(Decimal precision 60 exceeds .*\)\. Have them sent"
    ):
        land(spark, blackboard, declaring, tmp_path / "log.parquet", now=NOW)
    assert land(spark, blackboard, source, tmp_path / "log.parquet", now=NOW).landed == 1


UNREADABLE = {"uuid": "uuid()", "time": "TIME '10:11:12'", "interval": "INTERVAL 3 DAY", "list": "[uuid()]"}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_a_parquet_column_that_spark_cannot_read_matters_only_if_the_source_declares_it(
    spark, blackboard, described, tmp_path, monkeypatch, value
):
    monkeypatch.chdir(tmp_path)
    file = Path("a [log] of 100%.parquet")
    times = "TIMESTAMPTZ '2019-11-24 05:00:00+00' AS time, 1.5::DOUBLE AS more"
    duckdb.sql(f"COPY (SELECT 1::BIGINT AS id, {times}, 'a' AS ad, {value} AS Extra) TO '{file}'")
    columns = "id: bigint, time: timestamp, ad: string"
    declaring = described(f"type: parquet, columns: {{{columns}, extra: string}}")

    with pytest.raises(LandingError, match=r"parquet has columns .* Extra \(.*another type.* source ads/partner"):
        land(spark, blackboard, declaring, file, now=NOW)
    assert keys(blackboard) == []

    source = described(f"type: parquet, columns: {{{columns}}}")
    landing = land(spark, blackboard, source, file, now=NOW)
    (raw,) = days_of(blackboard, source).values()
    kept = spark.read.parquet(blackboard.uri(f"raw/{source.key}/{raw.partition}/{raw.files[0].path}"))
    assert (landing.landed, [row["id"] for _, row in records(spark, blackboard, source)]) == (1, [1])
    assert kept.columns == ["id", "time", "more", "ad", "_file", "_line", "_malformed"]
    (sent,) = (key for key in keys(blackboard) if key.startswith("raw/.sent/"))
    assert blackboard.read(sent).data == file.read_bytes()


@pytest.mark.parametrize("header", [True, False], ids=["header", "no header"])
def test_a_csv_file_of_spark_itself_is_read_value_by_value_with_its_escape(
    spark, blackboard, described, sent, tmp_path, header
):
    values = [
        'say "hi"',
        '"hi"',
        "C:\\",
        'C:\\, "x"',
        'a\\"b',
        '\\"',
        "5'",
        ', "',
        '",',
        "plain",
        "a,b",
        '"',
        '""',
        "\\",
    ]
    rows = [(str(number), "2019-11-24 05:00:00", value) for number, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "id string, time string, ad string").coalesce(1)
    frame.write.csv(str(tmp_path / "written"), header=header)
    (part,) = (tmp_path / "written").glob("part-*.csv")
    source = described(
        f"type: csv, header: {str(header).lower()}, columns: [id, time, ad], escape: '\\', line_breaks: true"
    )

    landing = land(spark, blackboard, source, sent("log.csv", part.read_bytes()), now=NOW)

    assert (landing.landed, landing.malformed) == (len(values), 0)
    assert {row["id"]: row["ad"] for _, row in records(spark, blackboard, source)} == {
        number: value for number, _, value in rows
    }


@pytest.mark.parametrize(
    ("escape", "field"),
    [
        ("", '"say \\"hi\\" to"'),
        ("", '"x"y'),
        ("", '"a \\", \\"b\\""'),
        (r", escape: '\'", '"say ""hi"""'),
        (r", escape: '\'", '"never closed\\"'),
    ],
)
def test_a_field_whose_quotes_are_of_another_kind_than_the_source_says_is_malformed_and_no_value(
    spark, blackboard, described, sent, escape, field
):
    source = described(f"type: csv, columns: [id, time, ad, more]{escape}")
    lines = f'1,2019-11-24 05:00:00,{field},x\n2,2019-11-24 05:00:00,5" x 6",x\n'

    landing = land(spark, blackboard, source, sent("log.csv", lines.encode()), now=NOW)

    assert (landing.read, landing.landed, landing.malformed) == (2, 2, 1)
    found = {row["id"]: (row["ad"], row["_malformed"]) for _, row in records(spark, blackboard, source)}
    assert found["1"][1] == lines.splitlines()[0]
    assert found["2"] == ('5" x 6"', None)


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16", "utf-8-sig"])
def test_a_file_in_another_encoding_is_read_in_it(spark, blackboard, described, sent, encoding):
    source = described(f"type: csv, header: true, encoding: {encoding}, columns: [id, time, ad]")
    file = sent("log.csv", "id,time,ad\r\n1,2019-11-24 05:00:00,Ünï\r\n".encode(encoding))

    land(spark, blackboard, source, file, now=NOW)

    assert [row["ad"] for _, row in records(spark, blackboard, source)] == ["Ünï"]


@pytest.mark.parametrize(("encoding", "name"), [("utf-8", "log.csv"), ("utf-16", "log.csv"), ("utf-8", "log.csv.gz")])
def test_line_breaks_in_quotes_belong_to_the_record_if_the_source_says_so(
    spark, blackboard, described, sent, encoding, name
):
    source = described(f"type: csv, header: true, line_breaks: true, encoding: {encoding}")
    text = (
        'id,time,ad,"a\nnote"\r\n1,2019-11-24 05:00:00,"one\r\n\ntwo, ""three""",x\r\n\r\n'
        '2,2019-11-24 05:00:00,"never closed,x\r\n3,2019-11-24 05:00:00,three,"y\n"\r\n4,2019-11-24 05:00:00,"a\nb"\n'
    ).encode(encoding)
    file = sent(name, gzip.compress(text) if name.endswith(".gz") else text)

    landing = land(spark, blackboard, source, file, now=NOW)

    assert (landing.read, landing.landed, landing.malformed) == (4, 4, 2)
    assert [
        (row["_line"], row["id"], row["ad"], row["_malformed"]) for _, row in records(spark, blackboard, source)
    ] == [
        (3, "1", 'one\r\n\ntwo, "three"', None),
        (7, "2", "never closed,x", '2,2019-11-24 05:00:00,"never closed,x'),
        (8, "3", "three", None),
        (10, "4", "a\nb", '4,2019-11-24 05:00:00,"a\nb"'),
    ]


@pytest.fixture
def split(monkeypatch):
    """The bytes of a split, where it is so small that a file of some MB has several."""
    size = SPLIT_BYTES // 32
    for module in (partner_file, text_records):
        monkeypatch.setattr(module, "SPLIT_BYTES", size)
    for setting in ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"):
        assert LANDING_SETTINGS[setting] == str(SPLIT_BYTES)
        monkeypatch.setitem(LANDING_SETTINGS, setting, str(size))
    return size


@pytest.mark.parametrize("encoding", ["utf-8", "windows-1252"])
def test_lines_of_a_file_too_large_for_one_split_have_their_true_numbers(
    spark, blackboard, described, sent, split, encoding
):
    source = described(f"type: csv, header: true, encoding: {encoding}, columns: [id, time, ad]")
    # The first split ends within a line, the second one at the end of a line.
    row, header = 2 * 1024 - 1, b"id,time,ad\n"
    lines = [
        f"{number},2019-11-24 {number % 24:02}:00:00,{'é' * 99}".encode(encoding).ljust(row, b"x") + b"\n"
        for number in range(2, 2500)
    ]
    content = header + b"".join(lines)
    aligned = content[: 2 * split - 1].rindex(b"\n") + 1
    padding = b"y" * (2 * split - aligned)
    at = content[:aligned].rindex(b"x") + 1
    file = sent("large.csv", content[:at] + padding + content[at:])

    spark.sparkContext.setJobGroup(encoding, "a landing in splits")
    landing = land(spark, blackboard, source, file, now=NOW)

    status = spark.sparkContext.statusTracker()
    stages = [stage for job in status.getJobIdsForGroup(encoding) for stage in status.getJobInfo(job).stageIds]
    assert 3 in {status.getStageInfo(stage).numTasks for stage in stages}, "a task for each split"
    frame = raw_frame(spark, blackboard, source, read_set(blackboard, source.key, DAY))
    assert file.read_bytes()[2 * split - 1 : 2 * split] == b"\n"
    assert landing.landed == frame.where("_line = id").count() == len(lines)


def test_a_landing_takes_two_spark_jobs_and_no_more_for_its_quarantine(spark, blackboard, described, sent):
    context = spark.sparkContext
    header = "id,time,ad\n"
    hours = "".join(f"{hour},2019-11-24 {hour:02}:00:00,a\n" for hour in range(24))
    jobs = []
    for group, content in (("clean", header + hours), ("dirty", header + hours + "24,never,a\n25\n")):
        context.setJobGroup(group, "a landing")
        land(spark, blackboard, described(), sent(f"{group}.csv", content), now=NOW)
        jobs.append(len(context.statusTracker().getJobIdsForGroup(group)))

    assert jobs[0] <= 2
    assert jobs[1] <= jobs[0] + 1


def workbook():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("[Content_Types].xml", "<Types/>")
    return content.getvalue()


@pytest.mark.parametrize(
    "refused",
    [
        ("log.csv", b"id,ad\n1,a\n", r"log\.csv:1: the header lacks time, which ads/partner needs; it has id, ad"),
        ("log.csv", b"\n\nfoo\n", r"log\.csv:3: the header lacks id, time, ad"),
        ("log.csv", b"id,time,ad,ID\n", r"log\.csv:1: the header names 'ID' twice"),
        ("log.csv", b"id,,time,ad\n", r"log\.csv:1: column 2 of the header has no name"),
        ("log.csv", b"id,time,ad,_line\n", r"raw files use the name '_line' themselves"),
        ("log.csv", b"", r"log\.csv is empty"),
        ("log.csv", b"\n\n \n", r"log\.csv is empty"),
        ("log.csv", b'id,"time\n",ad\n', r"log\.csv:1: this is no header: unexpected .*`line_breaks: true`"),
        ("log.csv", b"x" * 5_000_000, r"log\.csv:1: a line of more than 1,048,576 bytes is no header"),
        ("log.csv", b"id,time,ad," + b"x" * 200_000, r"log\.csv:1: this is no header: field larger than field limit"),
        (
            "log.csv",
            b"id,time,ad\r1,2019-11-24 05:00:00,a\r",
            r"log\.csv: its lines end in CR alone; .*`cat FILE \| tr",
        ),
        ("log.csv.gz", gzip.compress(b"id,time,ad\r1,2,a\r"), r"log\.csv\.gz: its lines end in CR alone; .*`zcat FILE"),
        (
            "log.csv",
            b"id,tme,ad\n",
            r"log\.csv:1: the header lacks time, .*did you mean 'tme'\?.*partner\.yaml:7: columns\.ev",
        ),
        (
            "log.csv",
            "id,time,ad\n".encode("utf-16"),
            r"log\.csv is UTF-16, not utf-8; write `encoding: utf-16` .*yaml:4",
        ),
        ("log.csv", "id,time,ad\n".encode("utf-16-le"), "may be UTF-16-LE: then write `encoding: utf-16-le` .*yaml:4"),
        ("log.csv", "id,time,ad\n".encode("utf-16-be"), "may be UTF-16-BE: then write `encoding: utf-16-be`"),
        ("log.csv", "番号,時間,広告の名前です\n".encode("utf-16-le"), "may be UTF-16-LE: then write"),
        ("log.csv", "番号,時間,広告の名前です\n".encode("utf-16-be"), "may be UTF-16-BE: then write"),
        ("log.csv", "番号,時間,広告の名前です\n".encode("utf-32-le"), "may be UTF-32-LE: then write"),
        ("log.csv", "id,time,ad\n".encode("utf-32-be"), "may be UTF-32-BE: then write"),
        ("log.csv", workbook(), r"log\.csv is a ZIP archive or an Excel workbook, not a text; have text sent"),
        ("log.csv", lzma.compress(b"id,time,ad\n" * 9), r"log\.csv is packed with xz, not text"),
        ("log.csv", b"\0\1" * 9, "has NUL bytes in all lines, .* else have it sent again without NUL bytes"),
        ("log.csv", "id,time,ad\n".encode("utf-32"), "is UTF-32, not utf-8; write `encoding: utf-32`"),
        ("log.csv.gz", gzip.compress("id,time,ad\n".encode("utf-16")), "is UTF-16, not utf-8"),
        ("log.csv.gz", gzip.compress(b"id,time,ad\n" * 9999)[:-20], r"log\.csv\.gz cannot be unpacked to its end"),
        ("log.csv.gz", gzip.compress(b"id,time,ad\n") + b"rest", r"log\.csv\.gz cannot be unpacked to its end"),
        (
            "log.csv.gz",
            gzip.compress(b"id,time,ad\n1,2," + b"a" * 2**26 + b"\n3,4,a\n", compresslevel=1),
            r"log\.csv\.gz: a line has more than 67,108,864 bytes; .* with one record a line",
        ),
        ("log.csv.gz", b"id,time,ad\n", r"log\.csv\.gz is not gzip, although its name says so"),
        ("LOG.CSV.GZ", b"id,time,ad\n", r"LOG\.CSV\.GZ is not gzip, although its name says so"),
        ("log.zip", b"PK", r"log\.zip is not ZIP, although its name says so"),
        ("log.xz", b"", r"log\.xz ends in '\.xz', and ads/partner takes csv files, which end in \.csv, \.txt"),
    ],
)
def test_a_file_that_cannot_land_is_refused_and_leaves_nothing(spark, blackboard, described, sent, refused):
    name, content, message = refused
    with pytest.raises(LandingError, match=message):
        land(spark, blackboard, described(), sent(name, content), now=NOW)

    assert keys(blackboard) == []


class StillBeingSent(LocalBlackboard):
    """A blackboard to which a file is uploaded while its partner still writes to it."""

    def upload(self, key, source):
        with source.open("a") as file:
            file.write("2,2019-11-24 06:00:00,a\n")
        return super().upload(key, source)


def test_a_file_that_is_still_being_written_is_refused_and_lands_once_it_is_complete(
    spark, blackboard, described, sent, tmp_path
):
    source = described()
    file = sent("log.csv", "id,time,ad\n1,2019-11-24 05:00:00,a\n")

    with pytest.raises(LandingError, match=r"log\.csv changed while it was read"):
        land(spark, StillBeingSent(tmp_path / "blackboard"), source, file, now=NOW)

    assert days_of(blackboard, source) == {}
    assert land(spark, blackboard, source, file, now=NOW).landed == 2


def test_what_is_no_file_is_refused(spark, blackboard, described, tmp_path):
    with pytest.raises(LandingError, match="is a directory; land the files in it"):
        land(spark, blackboard, described(), tmp_path, now=NOW)
    with pytest.raises(LandingError, match="is not a file; check its name"):
        land(spark, blackboard, described(), tmp_path / "nowhere.csv", now=NOW)


def test_a_file_whose_name_is_not_in_utf8_is_refused(spark, blackboard, described, tmp_path):
    file = tmp_path / os.fsdecode("für.csv".encode("latin-1"))
    file.write_text("id,time,ad\n1,2019-11-24 05:00:00,a\n")

    with pytest.raises(LandingError, match=r"f\\udcfcr\.csv': its name is not in UTF-8; rename it"):
        land(spark, blackboard, described(), file, now=NOW)

    assert keys(blackboard) == []


@pytest.mark.parametrize(
    "refused",
    [
        ("filter: colour = 'red'", r"partner\.yaml:3: filter: there is no column 'colour'; there are id, time, ad"),
        ("filter: nofunction(ad)", r"partner\.yaml:\d+: filter: Spark does not take 'nofunction"),
        ("time_zone: Asia/Tokyo", r"partner\.yaml:\d+: columns\.event_time: is a TIMESTAMP"),
    ],
)
def test_a_source_that_spark_does_not_take_is_refused_with_its_line(spark, blackboard, described, sent, refused):
    more, message = refused
    source = described("type: tsv, columns: [id, time, ad]", more)

    with pytest.raises(SourceError, match=message):
        land(spark, blackboard, source, sent("log.tsv", "1\t2019-11-24 05:00:00\ta\n"), now=NOW)

    assert keys(blackboard) == []


@pytest.mark.parametrize("content", ["", "\n \n", "1\t2019-11-24 05:00:00\tother\n"])
def test_a_file_without_a_record_for_the_source_lands_once_and_touches_no_hour(
    spark, blackboard, described, sent, content
):
    source = described("type: tsv, columns: [id, time, ad]", "filter: ad = 'mine'")
    file = sent("log.tsv", content)

    first, again = (land(spark, blackboard, source, file, now=NOW) for _ in range(2))

    assert first.read == first.filtered == len(content.split()) // 4
    assert (first.landed, first.partitions, first.quarantined) == (0, (), {})
    assert (first.already_landed, again.already_landed) == (False, True)
    assert {key.split("/")[1] for key in keys(blackboard)} == {".landed", ".sent"}


NAMED_LIKE_SPARKS_OWN = """\
name: partner
kind: clicks
format: FORMAT
columns:
  event_time: to_timestamp(`current_timestamp`)
  ad_id: concat(localtime, `current_date`, current_catalog)
  user_id: user
  impression_id: "`current_user`"
filter: session_user = 'mine'
identity: [user, current_time]
growth_threshold_percent: 5
lookback_days: 7
"""
NAMES = [
    "current_timestamp", "localtime", "current_date", "current_catalog", "user", "current_user", "session_user",
    "current_time",
]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["{type: csv, header: true}", "{type: tsv, header: true}", "{type: jsonl, columns: COLUMNS}", "PARQUET"]
)
def test_columns_named_like_values_of_sparks_own_are_the_partners(spark, blackboard, tmp_path, text):
    form = text.replace("COLUMNS", str(NAMES)).replace(
        "PARQUET", f"{{type: parquet, columns: {{{', '.join(f'{name}: string' for name in NAMES)}}}}}"
    )
    path = tmp_path / "partner.yaml"
    path.write_text(NAMED_LIKE_SPARKS_OWN.replace("FORMAT", form))
    source = load_source(path, KINDS)
    rows = [
        dict(zip(NAMES, ["2019-11-24 05:00:00", "l", "d", "c", user, f"i{user}", whose, "7"], strict=True))
        for user, whose in (("ann", "mine"), ("bob", "mine"), ("eve", "yours"))
    ]
    file = tmp_path / f"log.{source.format.type}"
    if source.format.type == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    elif source.format.type == "jsonl":
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        with file.open("w", newline="") as out:
            writer = csv.DictWriter(out, NAMES, delimiter=source.format.field_separator)
            writer.writeheader()
            writer.writerows(rows)

    landing = land(spark, blackboard, source, file, now=NOW)

    frame = canonical(raw_frame(spark, blackboard, source, read_set(blackboard, source.key, DAY)), source)
    found = frame.orderBy("user_id").collect()
    assert (landing.landed, landing.filtered) == (2, 1)
    assert [(row.user_id, row.impression_id, row.ad_id, row._unparsable) for row in found] == [
        ("ann", "iann", "ldc", None),
        ("bob", "ibob", "ldc", None),
    ]
    assert len({row.click_id for row in found}) == 2


def test_a_time_more_than_a_day_ahead_of_the_clock_goes_to_quarantine_as_one_of_the_future(
    spark, blackboard, described, sent
):
    file = sent(
        "log.csv",
        "id,time,ad\n"
        "1,2019-12-01 00:00:00,now\n"
        "2,2019-12-02 00:00:00,a day ahead\n"
        "3,2019-12-02 00:00:01,more\n"
        "4,9999-12-31 23:00:00,for ever\n"
        "5,1970-01-01 00:00:00,long ago\n"
        "6,1969-12-31 23:59:59,too long ago\n",
    )
    source = described()

    landing = land(spark, blackboard, source, file, now=NOW)

    assert landing.partitions == ("1970-01-01/00", "2019-12-01/00", "2019-12-02/00")
    assert [(record["line"], record["reason"]) for record in quarantined(blackboard, landing)] == [
        (4, FUTURE),
        (5, FUTURE),
        (7, NO_TIME),
    ]

    # The clock was wrong: once it is right, the file can be landed again although its source says the same.
    again = land(spark, blackboard, source, file, now=NOW + timedelta(days=2), again=True)

    assert (again.generation, again.landed, again.quarantined) == (2, 4, {FUTURE: 1, NO_TIME: 1})

    # The time in the year 9999 does not come: nothing would be another.
    later = land(spark, blackboard, source, file, now=NOW + timedelta(days=300), again=True)

    assert (later.already_landed, later.generation) == (True, 2)
    assert later.future_until == datetime(9999, 12, 30, 23, tzinfo=UTC)
    assert landing.future_until == NOW + timedelta(seconds=1)


def test_what_landed_by_a_wrong_description_is_replaced_from_the_file_or_from_what_was_kept(
    spark, blackboard, described, sent, tmp_path
):
    wrong = described().model_copy(
        update={"columns": {"event_time": "to_timestamp(time, 'dd/MM/yyyy')", "ad_id": "ad"}}
    )
    right = described()
    content = "id,time,ad\n1,2019-11-24 05:00:00,a\n2,2019-11-25 05:00:00,a\n"
    file = sent("log.csv", content)
    first = land(spark, blackboard, wrong, file, now=NOW)
    assert (first.landed, first.quarantined) == (0, {NO_TIME: 2})

    same = land(spark, blackboard, right, file, now=NOW)
    assert (same.already_landed, same.landed, same.description == right.landing_digest) == (True, 0, False)

    file.unlink()
    (kept,) = current_landings(blackboard, right.key)
    again = land(spark, blackboard, right, kept, now=NOW)

    assert (again.file, again.landed, again.generation, again.already_landed) == ("log.csv", 2, 2, False)
    assert [hour for hour, _ in records(spark, blackboard, right)] == ["2019-11-24/05", "2019-11-25/05"]
    assert keys(blackboard, "quarantine/") == []
    assert [each.generation for each in current_landings(blackboard, right.key)] == [2]
    packed = sent("packed.csv.gz", gzip.compress(content.encode()))
    twice = land(spark, blackboard, right, packed, now=NOW, again=True)
    assert (twice.already_landed, twice.generation) == (True, 2)
    for key in keys(blackboard, "raw/.sent/"):
        blackboard.delete(key)
    with pytest.raises(LandingError, match=r"log\.csv was not kept .* name the file itself"):
        land(spark, blackboard, wrong, again, now=NOW)


def test_every_day_that_either_landing_touched_is_processed_again(spark, blackboard, described, sent):
    file = sent("log.csv", "id,time,ad\n1,2019-11-24 05:00:00,a\n2,2019-11-25 12:00:00,a\n")
    right = described(more="time_zone: Asia/Tokyo").model_copy(
        update={"columns": {"event_time": "to_timestamp_ntz(time)", "ad_id": "ad"}}
    )
    landing = land(spark, blackboard, described(), file, now=NOW)
    before = days_of(blackboard, right)

    again = land(spark, blackboard, right, file, now=NOW, again=True)

    after = days_of(blackboard, right)
    decisions = {str(day): decide(before.get(day), after.get(day), Decimal(1000)) for day in (*before, *after)}
    assert (landing.partitions, again.partitions, again.withdrawn) == (
        ("2019-11-24/05", "2019-11-25/12"),
        ("2019-11-23/20", "2019-11-25/03"),
        ("2019-11-24/05",),
    )
    assert {day: decision.reprocess for day, decision in decisions.items()} == {
        "2019-11-23": True,
        "2019-11-24": True,
        "2019-11-25": True,
    }
    # Landed once more, the day without records still has its empty file: no run may have seen it yet.
    twice = land(spark, blackboard, described(), file, now=NOW, again=True)
    assert (twice.withdrawn, sorted(map(str, days_of(blackboard, right)))) == (("2019-11-23/20",), sorted(decisions))


def test_the_description_that_counts_is_of_what_lands_where(described):
    def digest(text="type: csv, header: true, columns: [id, time, ad]", more="description: made up", **update):
        return described(text, more).model_copy(update=update).landing_digest

    before = digest()

    assert before == digest(more="description: another")
    assert before == digest("type: csv, header: true, columns: [ad, id, time], separator: ',', encoding: UTF8")
    assert before == digest(growth_threshold_percent=1, lookback_days=3, identity=("ad",))
    assert before == digest(columns={"event_time": "to_timestamp(time)", "ad_id": "upper(ad)"})
    assert before == digest(null_tokens=("Na", "null", ""))
    others = [
        digest("type: csv, columns: [id, time, ad]"),
        digest("type: csv, columns: [time, id, ad]"),
        digest("type: csv, header: true, separator: ';'"),
        digest("type: csv, header: true, line_breaks: true"),
        digest("type: csv, header: true, encoding: latin1"),
        digest("type: jsonl, columns: [id, time, ad]"),
        digest(more="filter: ad = 'a'"),
        digest(more="time_zone: Asia/Tokyo"),
        digest(null_tokens=()),
        digest(columns={"event_time": "to_timestamp(ad)", "ad_id": "ad"}),
    ]
    assert len({before, *others}) == 11


@pytest.mark.parametrize(
    ("text", "digests"),
    [
        ("type: csv, header: true, columns: [id, time, ad]", ("73ce2d24d6db2136", "4e35ce57d583b0a9")),
        ("type: jsonl, columns: [id, time, ad]", ("9e0eef98166a46a8", "d46a5b05f2fbf329")),
        (
            "type: parquet, columns: {id: string, time: string, ad: string}",
            ("55749c42fda85d29", "788bb27cda2242b2"),
        ),
    ],
)
def test_a_description_has_the_digests_of_earlier_versions_so_that_an_upgrade_lands_and_processes_nothing_again(
    described, text, digests
):
    source = described(text)

    assert (source.digest, source.landing_digest) == digests
    assert source.digest != described("type: csv, header: true, line_breaks: true, columns: [id, time, ad]").digest


def shuffle_tracker(spark):
    """What Spark knows of the files that its stages hand to each other."""
    environment = spark._jvm.org.apache.spark.util.Utils.classForName("org.apache.spark.SparkEnv", True, False)
    field = environment.getDeclaredField("mapOutputTracker")
    field.setAccessible(True)
    return field.get(spark._jsc.sc().env())


def test_counts_are_of_what_was_written_also_when_spark_has_to_read_the_file_again(
    spark, blackboard, described, sent, tmp_path, monkeypatch
):
    # Spark 4.3 counts the last attempt of a task, wherever it is observed. Other versions count every attempt.
    monkeypatch.setitem(LANDING_SETTINGS, "spark.sql.legacy.observeMetricsAggregateAllAttempts", "true")
    hours = [f"2019-11-{day:02}T{hour:02}:00" for day in range(1, 25) for hour in range(24)]
    lines = [f"{number},{hour},{'mine' if number % 2 else 'other'}" for number, hour in enumerate(hours)]
    file = sent("log.csv", "\n".join(["id,time,ad", *lines, "0,never,mine"]))
    source = described(more="filter: ad = 'mine'")
    stop = tmp_path / "stop"
    tracker, as_java = shuffle_tracker(spark), spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava
    shuffles, lost = as_java(tracker.shuffleStatuses()), []
    known = set(shuffles.keySet())

    def hold_one_core():
        spark.sparkContext.parallelize([0], 1).foreach(
            lambda _: [time.sleep(0.02) for _ in range(1000) if not stop.exists()]
        )

    def lose_what_was_shuffled():
        while not lost:
            for number in set(shuffles.keySet()) - known:
                if shuffles.get(number).numAvailableMapOutputs() == 1:
                    tracker.unregisterAllMapAndMergeOutput(number)
                    lost.append(number)
            time.sleep(0.001)
        stop.touch()

    spark.sparkContext.setJobGroup("read again", "a landing whose file is read twice")
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(hold_one_core), pool.submit(lose_what_was_shuffled)]
        landing = land(spark, blackboard, source, file, now=NOW)
        for task in tasks:
            task.result()

    status = spark.sparkContext.statusTracker()
    jobs = [status.getJobInfo(job) for job in status.getJobIdsForGroup("read again")]
    attempts = [status.getStageInfo(stage).currentAttemptId for job in jobs for stage in job.stageIds]
    assert max(attempts) > 0
    assert (landing.read, landing.landed, landing.filtered) == (577, 288, 288)
    assert landing.quarantined == {NO_TIME: 1}


def test_directories_and_files_may_have_any_name(spark, described, sent, tmp_path):
    source = described()
    blackboard = LocalBlackboard(tmp_path / "a b%20[1]{x,y}*?")
    file = sent("lög [1] {a}.csv", "id,time,ad\n1,2019-11-24 05:00:00,a\n2,never,a\n")

    landing = land(spark, blackboard, source, file, now=NOW)

    assert [row["_file"] for _, row in records(spark, blackboard, source)] == ["lög [1] {a}.csv"]
    assert [record["line"] for record in quarantined(blackboard, landing)] == [3]


def test_a_raw_file_tells_its_records_so_a_tenth_that_lands_late_is_a_tenth(spark, blackboard, described, sent):
    source = described()
    lines = [f"{number},2019-11-24T{number % 3:02}:00:00Z,shoe\n" for number in range(100)]
    land(spark, blackboard, source, sent("most.csv", "id,time,ad\n" + "".join(lines[:90])), now=NOW)
    before = read_set(blackboard, source.key, DAY)
    land(spark, blackboard, source, sent("late.csv", "id,time,ad\n" + "".join(lines[90:])), now=NOW)
    now = read_set(blackboard, source.key, DAY)

    decision = decide(before, now, source.growth_threshold_percent)
    assert (decision.baseline_records, decision.current_records) == (90, 100)
    for file in now.files:
        assert raw_frame(spark, blackboard, source, replace(now, files=(file,))).count() == file.records
    landed = {key for landing in current_landings(blackboard, source.key) for key in landing.raw_keys.values()}
    assert landed == set(keys(blackboard, "raw/ads/"))


@pytest.mark.parametrize(("form", "separator"), [("csv", ","), ("tsv", "\t"), ("csv", "||")])
def test_a_line_of_more_fields_than_spark_can_split_is_malformed_and_stops_no_file(
    spark, blackboard, described, sent, form, separator
):
    source = described(f'type: {form}, columns: [id, time, ad], separator: "{separator}"'.replace("\t", "\\t"))
    good = separator.join(["1", "2019-11-24 10:00:00", "a"])
    file = sent(f"log.{form}", f"{good}\n{separator * 21_000}\n{good}{separator}{'x,' * 100_000}\n{good}\n")

    landing = land(spark, blackboard, source, file, now=NOW)

    assert landing.landed - landing.malformed == 2
    assert landing.malformed + sum(landing.quarantined.values()) == 2
