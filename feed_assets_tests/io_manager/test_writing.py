"""What becomes of an asset's result: the files of an update, its record, and what Dagster is told."""

import csv
import shutil
from dataclasses import replace
from types import SimpleNamespace

import dagster as dg
import pytest
from pyspark.sql import DataFrame, Observation, functions

from feed_assets.ads.cleaning import judge_ads
from feed_assets.ads.schemas import CLEAN_ADS, KINDS
from feed_assets.assets.external import raw_logs
from feed_assets.feed_events.declarations import BOUNDARY, feed_metadata
from feed_assets.file_feed import RawInput, records
from feed_assets.file_feed.names import parse_time
from feed_assets.io_manager.observed import Observed
from feed_assets.partitions.days import daily, hourly
from feed_assets.sources.canonical import VERSION, canonical
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import (
    ADS,
    CLICKS,
    DAY,
    NEXT_DAY,
    SHOP_ADS,
    SHOP_CLICKS,
    Installation,
    ads,
    between,
    click,
    messages,
    settings_below,
    write_sources,
)

COPIES = "copies/v1.0"


def copies(shop, compute, **more):
    """An unaudited daily asset of this project's raw ads, computed by `compute`."""
    source = next(source for source in load_sources(shop.settings.sources_directory, KINDS) if source.kind == "ads")
    raw = raw_logs(source, hourly(shop.settings))
    asset = dg.asset(
        name="copies",
        ins={"records": dg.AssetIn(raw.key, input_manager_key="file_feed")},
        partitions_def=daily(shop.settings),
        io_manager_key="file_feed",
        metadata=feed_metadata(COPIES, CLEAN_ADS, identity=["impression_id"]),
        code_version="7",
        **more,
    )(compute)
    return shop.with_assets(raw, asset)


def test_an_update_holds_its_data_files_and_the_manifest_that_counts_them_and_nothing_else(shop):
    shop.land(ads(5))

    assert shop.run("clean_ads").success

    update = shop.update_directory(ADS)
    files = [path.name for path in update.rglob("*") if path.name != "_SUCCESS"]
    assert len(files) == 1
    assert files[0].startswith("part-")
    assert files[0].endswith(".parquet")
    assert (update / "_SUCCESS").read_text() == "1"


def test_a_run_configured_for_another_base_and_another_time_reads_audits_and_publishes_there(shop, tmp_path):
    other, later = tmp_path / "other", "2019-12-05T00:00:00"
    shop.land(ads(5))
    shutil.copytree(shop.base, other)
    shop.land(ads(3, start=5))
    configured = {"blackboard": {"base": str(other)}, "clock": {"as_of": later}}

    result = shop.run("clean_ads", config={"resources": {name: {"config": each} for name, each in configured.items()}})

    assert result.success
    assert shop.latest(ADS) is None
    there = replace(shop, settings=replace(shop.settings, base=str(other))).at(parse_time(later))
    assert there.latest(ADS) == "20191205.000000"
    assert len(there.rows(ADS)) == 5


@pytest.mark.parametrize("day", ["yesterday", "2019-13-01"])
def test_a_run_configured_with_a_time_that_is_none_fails_before_it_starts_and_names_the_setting(shop, day):
    shop.land(ads(5))

    with pytest.raises(dg.DagsterError) as failed:
        shop.run("clean_ads", config={"resources": {"clock": {"config": {"as_of": day}}}}, raise_on_error=True)

    assert f"as_of is '{day}'; it takes a UTC time such as" in str(failed.value.__cause__)
    assert shop.latest(ADS) is None


@pytest.mark.parametrize(
    ("result", "named"),
    [(lambda _: None, "None"), (lambda records: SimpleNamespace(of=records), "types.SimpleNamespace")],
    ids=["nothing", "no frame of Spark"],
)
def test_a_result_that_is_no_frame_of_spark_is_named_with_its_module(shop, result, named):
    def compute(records: DataFrame):
        return result(records)

    shop.land(ads(1))

    failed = copies(shop, compute).run("copies")

    expected = f"copies returned {named} for the partitions ['{DAY}']: return one DataFrame of Spark in a run over one"
    assert expected in "".join(messages(failed))


def test_nothing_of_sparks_is_left_anywhere_below_the_base(shop):
    shop.land([*ads(3), ads(1)[0] | {"cost": "?"}])

    shop.run("clean_ads")

    names = [path.name for path in shop.base.rglob("*")]
    assert not [name for name in names if name.endswith(".crc") or name.startswith("_temporary")]


def test_the_record_says_what_was_read_and_by_what_it_was_made(shop):
    shop.land(ads(5))

    result = shop.run("clean_ads")

    record = shop.record(ADS)
    assert record.state == "published"
    assert (record.facts.rows.read, record.facts.rows.published) == (5, 5)
    assert [column.name for column in record.facts.schema] == CLEAN_ADS.names
    assert record.facts.run_id == record.owner == result.run_id
    assert record.facts.code_version == VERSION
    (read,) = record.facts.inputs
    path = shop.base / "raw/ads/shop_ads" / DAY / "12/x.parquet"
    assert (read.source, read.partition) == ("ads/shop_ads", DAY)
    assert [(file.path, file.size) for file in read.files] == [("12/x.parquet", path.stat().st_size)]


def test_the_config_digest_changes_with_rules_and_sources_and_not_with_where_it_runs(shop, tmp_path):
    shop.land_clicks([click("k1")])
    described = write_sources(tmp_path / "corrected", SHOP_ADS, SHOP_CLICKS.replace("ad_id: ad", "ad_id: upper(ad)"))
    digests = []
    for installation, config in [
        (shop, None),
        (shop.using(clock=shop.settings.clock), None),
        (shop, {"resources": {"limits": {"config": {"recent_days": 3}}}}),
        (shop, {"resources": {"rules": {"config": {"repeated_click_seconds": 5.0}}}}),
        (replace(shop, settings=replace(shop.settings, sources_directory=described), _definitions=None), None),
    ]:
        assert installation.run("clean_clicks", config=config).success
        digests.append(shop.record(CLICKS).facts.config_digest)
    shop.run("clean_clicks", checks=False)
    digests.append(records(shop.feed(CLICKS), DAY)[0].facts.config_digest)

    assert [digests.count(each) for each in digests] == [4, 4, 4, 1, 1, 4]


def latest_materialization(shop):
    """What Dagster shows of the day."""
    where = dg.AssetRecordsFilter(asset_key=dg.AssetKey("clean_ads"), asset_partitions=[DAY])
    return shop.instance.fetch_materializations(where, limit=1).records[0].asset_materialization


def test_dagster_is_told_the_update_as_data_version_and_its_numbers(shop):
    shop.land(ads(5))
    shop.run("clean_ads")
    shop.land(ads(5, start=5), name="late")

    (staged,) = shop.run("clean_ads").asset_materializations_for_node("clean_ads")
    materialization = latest_materialization(shop)

    assert staged.metadata["state"].value.startswith("staged")
    assert not {"path", "dagster/row_count", "read set"} & set(staged.metadata)
    record, shown = shop.record(ADS), {name: value.value for name, value in materialization.metadata.items()}
    assert materialization.tags["dagster/data_version"] == record.update == shown["update"]
    assert (shown["dagster/row_count"], shown["rows read"], shown["files"]) == (10, 10, 1)
    assert shown["bytes"] == sum(file.size for file in record.files)
    assert shown["path"].endswith(f"{ADS}/{DAY}/{record.update}")
    assert shown["update in force before"] < record.update
    assert shown["show files"].endswith(f"{ADS} --partition {DAY} --update {record.update}")
    assert "dagster/uri" not in shown
    assert [row.data["files"] for row in materialization.metadata["read set"].records] == [2]
    first, late = (
        path.stat().st_size for path in sorted((shop.base / "raw/ads/shop_ads" / DAY / "12").iterdir())[::-1]
    )
    (growth,) = materialization.metadata["growth"].records
    assert growth.data == {
        "source": "ads/shop_ads",
        "bytes before": first,
        "bytes": first + late,
        "growth": f"{late:+,} bytes ({late / first:+.1%})",
    }
    # Numbers, so that Dagster plots them over the days.
    assert (shown["raw bytes"], shown["raw files"]) == (first + late, 2)
    assert shown["raw growth, %"] == round(100 * late / first, 2)
    assert shown["quarantined, %"] == 0


def test_growth_is_told_in_records_where_the_names_of_landed_files_have_their_number(shop, spark, tmp_path):
    source = next(source for source in load_sources(shop.settings.sources_directory, KINDS) if source.kind == "ads")
    for name, rows in {"first": ads(20), "late": ads(5, start=20)}.items():
        path = tmp_path / f"{name}.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        land(spark, shop.board, source, path, now=shop.now)
        shop.run("clean_ads")

    shown = latest_materialization(shop).metadata
    assert shown["growth"].records[0].data["growth"] == "+5 records (+25.0%)"
    assert (shown["raw records"].value, shown["raw growth, %"].value) == (25, 25.0)


def test_a_first_update_has_grown_from_nothing(shop):
    shop.land(ads(5))

    shop.run("clean_ads")
    materialization = latest_materialization(shop)

    (growth,) = materialization.metadata["growth"].records
    assert (growth.data["bytes before"], growth.data["growth"]) == (0, "first read")
    assert "change in bytes" not in materialization.metadata


def test_a_day_without_raw_files_is_an_empty_result_that_is_not_published(shop):
    result = shop.run("clean_ads")

    assert not result.success
    assert shop.record(ADS).state == "rejected"
    assert shop.record(ADS).facts.rows.read == 0
    assert "not_empty: rows 0" in shop.record(ADS).history[-1].reason


def test_raw_files_without_records_are_counted_as_none(shop):
    shop.land(ads(2), name="some")
    shop.land(ads(1), name="none")
    path = shop.base / "raw/ads/shop_ads" / DAY / "12/none.parquet"
    import pyarrow.parquet as pq  # noqa: PLC0415 - the one place that empties a file

    table = pq.read_table(path).slice(0, 0)
    path.unlink()
    pq.write_table(table, path)

    assert shop.run("clean_ads").success
    assert shop.record(ADS).facts.rows.read == 2


def test_a_partner_that_sent_nothing_that_day_adds_nothing_to_what_others_sent(tmp_path, shop):
    sources = write_sources(tmp_path / "two", SHOP_ADS, SHOP_ADS.replace("shop_ads", "mall_ads"), SHOP_CLICKS)
    two = Installation(settings_below(shop.base, sources), shop.instance)
    two.land(ads(3))

    result = two.run("clean_ads")

    assert result.success, messages(result)
    record = two.record(ADS)
    assert record.facts.rows.read == 3
    assert {each.source: len(each.files) for each in record.facts.inputs} == {"ads/shop_ads": 1, "ads/mall_ads": 0}


def test_what_an_attempt_that_failed_had_read_is_not_counted_with_the_next(shop):
    shop.land(ads(4))
    (source,) = [source for source in load_sources(shop.settings.sources_directory, KINDS) if source.kind == "ads"]
    attempts = []

    def compute(context: dg.AssetExecutionContext, records: DataFrame) -> DataFrame:
        attempts.append(context.retry_number)
        if not context.retry_number:
            message = "try again"
            raise RuntimeError(message)
        from datetime import date  # noqa: PLC0415 - of this function only

        return judge_ads(canonical(records, source), day=date.fromisoformat(context.partition_key))

    custom = copies(shop, compute, retry_policy=dg.RetryPolicy(max_retries=1))

    assert custom.run("copies").success
    assert attempts == [0, 1]
    record = custom.record(COPIES)
    assert len(record.facts.inputs) == 1
    assert record.facts.rows.read == 4


def straight(records):
    return records.select(
        functions.col("id").alias("impression_id"),
        functions.to_timestamp("time").alias("event_time"),
        functions.col("ad").alias("ad_id"),
        functions.col("campaign").alias("campaign_id"),
        functions.col("user").alias("user_id"),
        functions.col("place").alias("placement_id"),
        functions.col("cost").cast("decimal(18,6)").alias("cost"),
        functions.lit("shop").alias("source"),
    )


def test_an_asset_that_is_not_audited_is_published_at_once(shop):
    shop.land(ads(2))

    def compute(records: DataFrame) -> DataFrame:
        return straight(records)

    (materialization,) = copies(shop, compute).run("copies").asset_materializations_for_node("copies")

    assert len(shop.rows(COPIES)) == 2
    assert shop.record(COPIES).facts.code_version == "7"
    assert "update in force before" not in materialization.metadata


@pytest.mark.parametrize("known_to_be_empty", [False, True])
def test_figures_that_spark_computes_while_it_writes_are_told_and_the_boundary_is_recorded(shop, known_to_be_empty):
    shop.land(ads(3))

    def compute(records: DataFrame) -> Observed:
        figures = Observation()
        rows = straight(records).where(functions.lit(not known_to_be_empty))
        observed = rows.observe(figures, functions.count("*").alias("ads"))
        return Observed(observed, lambda: {"ads": figures.get.get("ads", 0), BOUNDARY: {"before": "a", "after": "b"}})

    (materialization,) = copies(shop, compute).run("copies").asset_materializations_for_node("copies")
    assert materialization.metadata["ads"].value == len(shop.rows(COPIES)) == (0 if known_to_be_empty else 3)
    assert shop.record(COPIES).facts.details["boundary"] == {"before": "a", "after": "b"}
    assert BOUNDARY not in materialization.metadata


def test_a_run_over_several_days_takes_and_gives_a_frame_a_day(shop):
    days = [DAY, NEXT_DAY, "2019-11-26"]
    for number, day in enumerate(days[:2]):
        shop.land(ads(number + 1, day))

    def compute(records: dict[str, DataFrame]) -> dict[str, DataFrame]:
        return {day: straight(frame) for day, frame in records.items()}

    result = copies(shop, compute, backfill_policy=dg.BackfillPolicy.single_run()).run(
        "copies", day=None, tags=between(days[0], days[-1])
    )

    assert result.success, messages(result)
    assert [len(shop.rows(COPIES, day)) for day in days] == [1, 2, 0]
    materializations = {each.partition: each for each in result.asset_materializations_for_node("copies")}
    assert {day: each.metadata["dagster/row_count"].value for day, each in materializations.items()} == dict(
        zip(days, [1, 2, 0], strict=True)
    )
    assert {day: each.tags["dagster/data_version"] for day, each in materializations.items()} == {
        day: shop.record(COPIES, day).update for day in days
    }


def test_one_frame_for_several_days_is_refused_with_the_way_out(shop):
    shop.land(ads(1))

    def compute(records: DataFrame) -> DataFrame:
        return straight(records)

    result = copies(shop, compute, backfill_policy=dg.BackfillPolicy.single_run()).run(
        "copies", day=None, tags=between(DAY, NEXT_DAY)
    )

    assert "a dict with a DataFrame for each key in a run over several" in " ".join(messages(result))
    assert shop.latest(COPIES) is None


def test_a_frame_without_a_declared_column_is_refused_by_its_name(shop):
    shop.land(ads(1))

    def compute(records: DataFrame) -> DataFrame:
        return straight(records).drop("cost")

    assert "lacks the declared columns cost" in " ".join(messages(copies(shop, compute).run("copies")))


@pytest.mark.parametrize("dagster_instance", ["sqlite"], indirect=True)
def test_runs_on_an_instance_on_disk_do_the_same(shop):
    shop.land(ads(2))

    assert shop.run("clean_ads").success
    event = shop.instance.get_latest_materialization_event(dg.AssetKey("clean_ads"))
    assert event.asset_materialization.tags["dagster/data_version"] == shop.latest(ADS)
    assert all(isinstance(each, RawInput) for each in shop.record(ADS).facts.inputs)
