"""The tables of Glue (emulated) have the updates in force and the raw hours; drift is repaired in both directions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from botocore.exceptions import EndpointConnectionError

from feed_assets.ads.schemas import KINDS
from feed_assets.data_catalog.glue import CatalogError, GlueCatalog, Partition, check_catalog
from feed_assets.data_catalog.reconciling import Drift, reconcile, unknown_tables
from feed_assets.data_catalog.tables import Wanted, feed_table, source_table
from feed_assets.file_feed import Column, publish_files
from feed_assets.partitions.time_windows import partition_keys
from feed_assets.sources.loading import load_sources
from feed_assets.sources.spec import Source as PartnerSource
from feed_assets_tests.harness import SHOP_ADS, write_sources
from feed_assets_tests.warehouse.feeds import DAY, NEXT_DAY, Source, numbered, packed

if TYPE_CHECKING:
    from pathlib import Path

    from types_boto3_glue import GlueClient

FIRST, LAST = date(2019, 11, 1), date(2019, 11, 30)
DAILY = ("date",)


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def shop(tmp_path: Path) -> PartnerSource:
    (found,) = load_sources(write_sources(tmp_path / "sources", SHOP_ADS), KINDS)
    return found


def wanted(source: Source, keys: Sequence[str] = DAILY, **more: Any) -> Wanted:
    return feed_table(source.feed, source.declaration, keys, now=source.now(), **more)


def repair(catalog: GlueCatalog, found: Wanted | None, **more: Any) -> list[Drift]:
    assert found is not None
    return list(reconcile(catalog, found, catalog.tables(), **more).drift)


def locations(glue: GlueClient, catalog: GlueCatalog, table: str = "effect_v1_0") -> dict[tuple[str, ...], str]:
    found = glue.get_partitions(DatabaseName=catalog.database, TableName=table)["Partitions"]
    return {tuple(each["Values"]): each["StorageDescriptor"]["Location"] for each in found}


def test_a_feed_is_a_table_whose_partitions_are_the_updates_in_force(glue, catalog, source) -> None:
    first = source.publish(1)
    second = source.publish(2, NEXT_DAY)

    assert repair(catalog, wanted(source)) == [
        Drift("effect_v1_0", None, "missing"),
        Drift("effect_v1_0", DAY, "missing"),
        Drift("effect_v1_0", NEXT_DAY, "missing"),
    ]
    table = glue.get_table(DatabaseName=catalog.database, Name="effect_v1_0")["Table"]
    assert table["StorageDescriptor"]["Columns"] == [
        {"Name": "ad", "Type": "string"},
        {"Name": "shown", "Type": "bigint"},
    ]
    assert [key["Name"] for key in table["PartitionKeys"]] == ["date"]
    assert "ParquetHiveSerDe" in table["StorageDescriptor"]["SerdeInfo"]["SerializationLibrary"]
    uri = source.feed.uri
    assert locations(glue, catalog) == {
        (DAY,): f"{uri}/{DAY}/{first}/",
        (NEXT_DAY,): f"{uri}/{NEXT_DAY}/{second}/",
    }

    third = source.publish(3)
    assert repair(catalog, wanted(source)) == [Drift("effect_v1_0", DAY, "different")]
    assert locations(glue, catalog)[(DAY,)].endswith(f"/{third}/")
    source.invalidate(third)
    source.invalidate(second, NEXT_DAY)
    assert repair(catalog, wanted(source)) == [
        Drift("effect_v1_0", DAY, "different"),
        Drift("effect_v1_0", NEXT_DAY, "not wanted"),
    ]
    assert locations(glue, catalog) == {(DAY,): f"{uri}/{DAY}/{first}/"}


def test_raw_hours_are_partitions_by_date_and_hour_and_equal_the_prefixes(glue, catalog, shop, source) -> None:
    prefix = f"raw/{shop.key}"
    for path in (f"{DAY}/05/a", f"{DAY}/05/b", f"{DAY}/23/a", f"{NEXT_DAY}/00/a"):
        source.board.create(f"{prefix}/{path}.parquet", packed(numbered(1)))

    repair(catalog, source_table(source.board, shop, FIRST, LAST))

    table = glue.get_table(DatabaseName=catalog.database, Name="raw_ads_shop_ads")["Table"]
    assert [each["Name"] for each in table["StorageDescriptor"]["Columns"]] == [
        *("id", "time", "ad", "campaign", "user", "place", "cost"),
        *("_file", "_line", "_malformed"),
    ]
    uri = source.board.uri(prefix)
    assert locations(glue, catalog, "raw_ads_shop_ads") == {
        (DAY, "05"): f"{uri}/{DAY}/05/",
        (DAY, "23"): f"{uri}/{DAY}/23/",
        (NEXT_DAY, "00"): f"{uri}/{NEXT_DAY}/00/",
    }
    source.board.delete(f"{prefix}/{DAY}/23/a.parquet")
    assert repair(catalog, source_table(source.board, shop, FIRST, LAST)) == [
        Drift("raw_ads_shop_ads", f"{DAY}-23:00", "not wanted")
    ]


def test_a_source_whose_files_name_the_columns_has_those_of_its_newest_file(glue, catalog, tmp_path, source) -> None:
    text = SHOP_ADS.replace(", columns: [id, time, ad, campaign, user, place, cost]", "")
    (shop,) = load_sources(write_sources(tmp_path / "own", text), KINDS)
    assert source_table(source.board, shop, FIRST, LAST) is None
    for day, names in {"2019-11-02": ["old"], DAY: ["ad", "Odd name", "hour"]}.items():
        table = numbered(1).select(["ad"]).rename_columns(["old"])
        for name in names:
            table = table.append_column(name, [["x"]]) if name != "old" else table
        source.board.create(f"raw/{shop.key}/{day}/05/a.parquet", packed(table))

    repair(catalog, source_table(source.board, shop, FIRST, LAST))

    found = glue.get_table(DatabaseName=catalog.database, Name="raw_ads_shop_ads")["Table"]
    columns = [each["Name"] for each in found["StorageDescriptor"]["Columns"]]
    assert columns == ["old", "ad", "Odd name", "hour", "_file", "_line", "_malformed"]
    assert [key["Name"] for key in found["PartitionKeys"]] == ["date", "partition_hour"]


def test_a_feed_without_partitions_is_a_table_at_its_update(glue, catalog, source) -> None:
    repair(catalog, wanted(source, ()))
    for rows in (1, 2):
        name = source.publish(rows, None)
        assert repair(catalog, wanted(source, ())) == [Drift("effect_v1_0", None, "different")]
        table = glue.get_table(DatabaseName=catalog.database, Name="effect_v1_0")["Table"]
        assert table["StorageDescriptor"]["Location"] == f"{source.feed.uri}/{name}/"
    assert repair(catalog, wanted(source, ())) == []


@pytest.mark.parametrize("name", ["2019-11-24-05:00", "2019-11-24-05:15", "shop a|2019"])
def test_any_partition_has_a_value_for_each_key(glue, catalog, source, name) -> None:
    source.publish(1, name)
    keys = ("date", "hour") if name.endswith(":00") else ("partition",)
    repair(catalog, wanted(source, keys))
    assert list(locations(glue, catalog)) == [("2019-11-24", "05") if name.endswith(":00") else (name,)]
    assert repair(catalog, wanted(source, keys)) == []


@pytest.mark.parametrize(
    "hours",
    [
        dg.HourlyPartitionsDefinition("2024-10-27-00:00", timezone="Europe/Berlin", end_date="2024-10-27-05:00"),
        dg.HourlyPartitionsDefinition("2024-04-07-00:00", timezone="Australia/Lord_Howe", end_date="2024-04-07-05:00"),
        dg.HourlyPartitionsDefinition("2024102700", fmt="%Y%m%d%H", end_date="2024102705"),
    ],
    ids=["an hour that comes twice", "half an hour that does", "names of your own"],
)
def test_each_hour_of_any_definition_has_values_of_its_own_for_each_key(glue, catalog, source, hours) -> None:
    keys, names = partition_keys(hours), hours.get_partition_keys()
    for name in names:
        source.publish(1, name)
    repair(catalog, wanted(source, keys))
    assert {len(values) for values in locations(glue, catalog)} == {len(keys)}
    assert len(locations(glue, catalog)) == len(names)
    assert repair(catalog, wanted(source, keys)) == []


def test_describing_twice_writes_nothing_and_hundreds_go_in_batches(catalog, requests, source) -> None:
    source.publish(1)
    found = wanted(source)
    days = [f"{year}-{month:02}-01" for year in range(2000, 2021) for month in range(1, 13)]
    many = {day: Partition((day,), f"s3://b/{day}", "parquet", {"partition": day, "update": "u"}) for day in days}
    found = replace(found, partitions=many)

    repair(catalog, found)
    assert requests["BatchCreatePartition"] == 3
    assert requests["CreateTable"] == requests["CreateDatabase"] == 1

    requests.clear()
    assert repair(catalog, found) == []
    assert requests == Counter({"GetTables": 1, "GetPartitions": 1})

    few = replace(found, partitions={day: many[day] for day in days[:2]})
    assert len(repair(catalog, few)) == len(days) - 2
    assert requests["BatchDeletePartition"] == 10


def test_drift_is_found_both_ways_and_repaired(glue, catalog, source) -> None:
    days = [DAY, NEXT_DAY, "2019-11-26"]
    for day in days:
        source.publish(1, day)
    repair(catalog, wanted(source))
    before = locations(glue, catalog)
    named = {"DatabaseName": catalog.database, "TableName": "effect_v1_0"}
    storage = {"Columns": [], "Location": "s3://elsewhere/"}
    glue.delete_partition(**named, PartitionValues=[DAY])
    moved = {"Values": [NEXT_DAY], "StorageDescriptor": storage}
    glue.update_partition(**named, PartitionValueList=[NEXT_DAY], PartitionInput=moved)
    glue.create_partition(**named, PartitionInput={"Values": ["by hand"], "StorageDescriptor": storage})

    found = reconcile(catalog, wanted(source), catalog.tables(), repair=False)
    assert found.drift == (
        Drift("effect_v1_0", DAY, "missing"),
        Drift("effect_v1_0", NEXT_DAY, "different"),
        Drift("effect_v1_0", "by hand", "not wanted"),
    )
    assert not found.repaired
    assert locations(glue, catalog) != before  # nothing was touched

    assert len(repair(catalog, wanted(source))) == 3
    assert locations(glue, catalog) == before
    assert repair(catalog, wanted(source)) == []


def test_a_new_column_reaches_the_table_and_each_partition(glue, catalog, source) -> None:
    for day in (DAY, NEXT_DAY):
        source.publish(1, day)
    repair(catalog, wanted(source))
    source.columns = (*source.columns, Column("more", "decimal(18,6)"))

    # A repair that ends early leaves the table as it was, so that the next one looks at all partitions again.
    assert not reconcile(catalog, wanted(source), catalog.tables(), most=1).repaired
    assert repair(catalog, wanted(source)) == [
        Drift("effect_v1_0", None, "different"),
        Drift("effect_v1_0", NEXT_DAY, "different"),
    ]
    for each in glue.get_partitions(DatabaseName=catalog.database, TableName="effect_v1_0")["Partitions"]:
        assert each["StorageDescriptor"]["Columns"][-1] == {"Name": "more", "Type": "decimal(18,6)"}
    assert repair(catalog, wanted(source)) == []


def test_two_that_describe_at_once_leave_what_each_of_them_wanted(glue, catalog, source) -> None:
    source.publish(1)
    repair(catalog, wanted(source))
    source.publish(1, NEXT_DAY)
    found = wanted(source)
    # The other process is faster: between the comparison and the writing.
    catalog.put_partitions(found.table, [found.partitions[NEXT_DAY]], [])
    catalog.put_partitions(found.table, [found.partitions[NEXT_DAY]], [])
    catalog.delete_partitions(found.table.name, [(DAY,), (DAY,)])
    catalog.delete_partitions(found.table.name, [(DAY,)])
    catalog.put_partitions(found.table, [], [found.partitions[DAY]])

    assert repair(catalog, found) == [Drift("effect_v1_0", DAY, "missing")]
    assert len(locations(glue, catalog)) == 2


def test_only_the_named_partitions_are_compared(glue, catalog, source) -> None:
    source.publish(1)
    repair(catalog, wanted(source))
    source.publish(1)
    source.publish(1, NEXT_DAY)

    assert repair(catalog, wanted(source, only={NEXT_DAY}), only={NEXT_DAY}) == [
        Drift("effect_v1_0", NEXT_DAY, "missing")
    ]
    assert len(locations(glue, catalog)) == 2


def test_files_of_other_formats_keep_them(glue, catalog, source, tmp_path) -> None:
    names = {DAY: "ads.csv", NEXT_DAY: "ads.jsonl.gz", "2019-11-26": "ads.tsv"}
    for day, name in names.items():
        (tmp_path / name).write_text("ad,shown\n")
        publish_files(source.feed, day, [tmp_path / name], now=source.now(), owner="others")
    repair(catalog, wanted(source))

    found = glue.get_partitions(DatabaseName=catalog.database, TableName="effect_v1_0")["Partitions"]
    described = {each["Values"][0]: each["StorageDescriptor"]["SerdeInfo"] for each in found}
    kinds = {
        names[day]: (each["SerializationLibrary"].rpartition(".")[2], each["Parameters"].get("separatorChar"))
        for day, each in described.items()
    }
    assert kinds == {
        "ads.csv": ("OpenCSVSerde", ","),
        "ads.jsonl.gz": ("JsonSerDe", None),
        "ads.tsv": ("OpenCSVSerde", "\t"),
    }


def test_files_that_glue_cannot_be_told_to_read_are_named(source, tmp_path) -> None:
    (tmp_path / "ads.orc").write_text("ORC")
    publish_files(source.feed, DAY, [tmp_path / "ads.orc"], now=source.now(), owner="others")

    with pytest.raises(CatalogError, match=r"/ads\.orc has a format that Glue is not told about: parquet, csv, tsv"):
        wanted(source)


def test_a_table_of_somebody_else_is_not_touched(glue, catalog, source) -> None:
    source.publish(1)
    glue.create_database(DatabaseInput={"Name": catalog.database})
    glue.create_table(DatabaseName=catalog.database, TableInput={"Name": "effect_v1_0"})

    with pytest.raises(CatalogError, match=r"effect_v1_0 in glue://.* belongs to somebody else.*Name another database"):
        repair(catalog, wanted(source))
    glue.delete_table(DatabaseName=catalog.database, Name="effect_v1_0")
    repair(catalog, wanted(source, ("partition",)))
    with pytest.raises(
        CatalogError, match=r"has partitions by partition, and should have them by date.*delete the table"
    ):
        repair(catalog, wanted(source))
    assert unknown_tables(catalog.tables(), (), source.board.uri("x")[:-2]) == ["effect_v1_0"]
    assert unknown_tables(catalog.tables(), ("effect_v1_0",), source.board.uri("x")[:-2]) == []


def test_a_column_that_glue_cannot_have_is_named(source) -> None:
    source.columns = (Column("since", "interval day to second"),)
    with pytest.raises(CatalogError, match="The column since is interval day to second, which Glue does not know"):
        wanted(source)
    source.columns = (
        Column("a", "LONG"),
        Column("b", "timestamp_ntz"),
        Column("date", "array<struct<x:timestamp_ntz>>"),
    )
    table = wanted(source).table
    assert table.columns == (("a", "bigint"), ("b", "timestamp"), ("date", "array<struct<x:timestamp>>"))
    assert table.keys == ("partition_date",)


@pytest.mark.parametrize(
    ("url", "base", "says"),
    [
        ("glue://Ads", "s3://b", "takes glue://database, of lower case letters, digits and _"),
        ("ads", "s3://b", "takes glue://database"),
        ("glue://ads", "/data", "the data is in /data: Glue describes data in S3"),
    ],
)
def test_a_setting_that_cannot_be_used_says_what_it_takes(url, base, says) -> None:
    with pytest.raises(CatalogError, match=says):
        check_catalog(url, base)


@pytest.mark.parametrize(
    ("code", "says", "transient"),
    [
        ("AccessDeniedException", "Allow this user glue:GetTables", False),
        ("ThrottlingException", "ThrottlingException", True),
        (None, "cannot be reached .EndpointConnectionError.. Check the network", True),
    ],
)
def test_errors_of_glue_say_what_to_do(glue, catalog, code, says, transient) -> None:
    def fail(**_: Any) -> None:
        if code is None:
            raise EndpointConnectionError(endpoint_url="http://user:secret@nowhere")
        raise glue.exceptions.ClientError({"Error": {"Code": code}}, "GetTables")

    glue.meta.events.register("before-call.glue", fail)
    with pytest.raises(CatalogError, match=says) as error:
        catalog.tables()
    assert error.value.transient is transient
    assert "secret" not in str(error.value)
