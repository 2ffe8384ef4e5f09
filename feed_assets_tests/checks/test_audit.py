"""The audit: what is published, what is turned away and why, and what every reader sees meanwhile."""

from __future__ import annotations

import shutil

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import StructType

from feed_assets import checks
from feed_assets.assets.external import raw_logs
from feed_assets.blackboard import UnavailableError
from feed_assets.file_feed import FeedInput, history
from feed_assets.io_manager import FeedDeclaration, feed_metadata
from feed_assets.partitions import daily, hourly
from feed_assets.sources import load_sources
from feed_assets.transforms import CLEAN_ADS
from feed_assets_tests.harness import (
    ADS,
    BOTH_CLEAN,
    CLICKS,
    DAY,
    EFFECTIVENESS,
    NEXT_DAY,
    Interposed,
    ad,
    ads,
    between,
    failed_checks,
    messages,
    using_board,
)


def column(table: pa.Table, name: str, values: object) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)


def first_again(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 1)] * table.num_rows)


def a_null(table: pa.Table) -> pa.Table:
    return column(table, "ad_id", pa.array([None, *table["ad_id"].to_pylist()[1:]], pa.string()))


def a_day_later(table: pa.Table) -> pa.Table:
    moved = pc.add(table["event_time"], pa.scalar(86_400_000_000, pa.duration("us")))
    return column(table, "event_time", moved.cast(table.schema.field("event_time").type))


def text_for_cost(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("cost")
    return table.set_column(at, "cost", table["cost"].cast(pa.string()))


def without_user(table: pa.Table) -> pa.Table:
    return table.drop_columns(["user_id"])


def nothing(table: pa.Table) -> pa.Table:
    return table.slice(0, 0)


def all_but_one(table: pa.Table) -> pa.Table:
    return table.slice(1)


@pytest.fixture
def published(shop):
    """A day of ads that was published, and has grown since."""
    shop.land(ads(10))
    result = shop.run("clean_ads")
    assert result.success, messages(result)
    shop.land(ads(10, start=10), name="late")
    return shop


@pytest.fixture
def related(published, tmp_path):
    """The same day with its clicks, and its effectiveness published."""
    published.publish(CLICKS, DAY, {}, tmp_path / "no clicks")
    result = published.run("ad_effectiveness")
    assert result.success, messages(result)
    return published


def test_all_checks_hold_so_the_manifest_is_written_and_the_record_has_their_outcomes(shop):
    shop.land(ads(3))

    result = shop.run("clean_ads")

    assert result.success
    record = shop.record(ADS)
    assert record.state == "published"
    assert len(record.checks) == 8
    assert all(check.passed for check in record.checks)
    evaluations = result.get_asset_check_evaluations()
    assert {each.check_name for each in evaluations} == {check.name for check in record.checks}
    assert {each.partition for each in evaluations} == {DAY}
    assert {each.metadata["update"].value for each in evaluations} == {record.update}


@pytest.mark.parametrize(
    ("change", "check", "observed"),
    [
        (text_for_cost, "schema_as_declared", "cost: declared decimal(18,6), found string"),
        (without_user, "schema_as_declared", "user_id: declared string, found nothing"),
        (nothing, "rows_accounted", "rows in the files 0"),
        (first_again, "identity_unique", "rows with an identity seen before 19"),
        (a_null, "required_not_null", "NULL in ad_id 1"),
        (a_day_later, "times_inside_day", f"first {NEXT_DAY} 12:00:00"),
        (all_but_one, "rows_accounted", "rows in the files 19"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_bad_data_is_rejected_by_the_check_that_is_for_it_and_no_reader_sees_it(published, change, check, observed):
    before = published.latest(ADS)
    assert published.run("clean_ads", checks=False).success
    published.rewrite(ADS, change)

    result = published.check("clean_ads")

    assert not result.success
    assert check in failed_checks(result)
    record = published.record(ADS)
    assert record.update > before
    assert record.state == "rejected"
    assert f"{check}: " in record.history[-1].reason
    assert observed in record.history[-1].reason
    assert published.latest(ADS) == before
    assert len(published.rows(ADS)) == 10


def test_a_run_launched_by_hand_reads_what_was_in_force_before_the_rejected_update(related):
    before = related.latest(ADS)
    related.run("clean_ads", checks=False)
    related.rewrite(ADS, a_null)
    related.check("clean_ads")

    assert related.run("ad_effectiveness").success

    read = [each.update for each in related.record(EFFECTIVENESS).facts.inputs if each.partition == DAY]
    assert before in read
    assert sum(row["impressions"] for row in related.rows(EFFECTIVENESS)) == 10


def test_too_much_in_quarantine_rejects_the_day_and_stops_what_is_downstream_in_the_run(related):
    before = related.latest(ADS), related.latest(EFFECTIVENESS)
    related.land([ad(f"bad{number}", cost="?") for number in range(5)], name="corrupt")

    result = related.run("clean_ads", "ad_effectiveness")

    assert failed_checks(result) == ["quarantined_share"]
    assert "quarantined 5, read 25, share 0.2, limit 0.05" in related.record(ADS).history[-1].reason
    assert (related.latest(ADS), related.latest(EFFECTIVENESS)) == before
    assert not result.asset_materializations_for_node("ad_effectiveness")


def test_a_run_may_accept_more_in_quarantine_in_its_configuration(shop):
    shop.land([*ads(3), ad("bad", cost="?")])

    assert shop.run("clean_ads", config={"resources": {"limits": {"config": {"quarantined_share": 0.25}}}}).success
    assert shop.record(ADS).facts.rows.quarantined == 1


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("impressions", "totals_reconcile"),
        ("orphan_clicks", "totals_reconcile"),
        ("clicks", "clicks_within_impressions"),
    ],
)
def test_effectiveness_that_does_not_add_up_is_rejected(related, name, check):
    before = related.latest(EFFECTIVENESS)
    related.run("ad_effectiveness", checks=False)
    related.rewrite(EFFECTIVENESS, lambda table: column(table, name, pc.add(table[name], 11)))

    result = related.check("ad_effectiveness")

    assert check in failed_checks(result), messages(result)
    assert related.latest(EFFECTIVENESS) == before


def test_a_null_that_an_asset_makes_of_a_key_is_rejected_and_not_published_as_something_else(related):
    before = related.latest(EFFECTIVENESS)
    related.rewrite(ADS, a_null)

    result = related.run("ad_effectiveness")

    assert {"required_not_null", "identity_unique"} <= set(failed_checks(result)), messages(result)
    record = related.record(EFFECTIVENESS)
    assert record.state == "rejected"
    assert "required_not_null: NULL in ad_id 1," in record.history[-1].reason
    assert related.latest(EFFECTIVENESS) == before


def test_a_warning_is_told_and_publishes(shop):
    for day in ("2019-11-21", "2019-11-22", "2019-11-23"):
        shop.land(ads(4, day))
        assert shop.run("clean_ads", day=day).success
    shop.land(ads(9))

    result = shop.run("clean_ads")

    assert result.success
    assert failed_checks(result) == ["row_count_as_usual"]
    (warning,) = [each for each in result.get_asset_check_evaluations() if not each.passed]
    assert warning.severity == dg.AssetCheckSeverity.WARN
    assert (warning.metadata["rows"].value, warning.metadata["median of recent days"].value) == (9, 4)
    assert shop.latest(ADS) == shop.record(ADS).update


def test_exactly_twice_the_usual_rows_is_as_usual(shop):
    shop.land(ads(4, "2019-11-23"))
    shop.run("clean_ads", day="2019-11-23")
    shop.land(ads(8))

    assert failed_checks(shop.run("clean_ads")) == []


def test_a_store_that_fails_is_an_error_of_the_run_and_the_next_run_publishes(shop):
    shop.land(ads(3))

    def fail(operation, key):
        if operation == "create" and key.startswith(ADS) and key.endswith("/_SUCCESS"):
            message = "the store is out of reach"
            raise UnavailableError(message)

    result = using_board(shop, Interposed(shop.board, fail)).run("clean_ads")

    assert not result.success
    assert not result.get_asset_check_evaluations()
    assert "the store is out of reach" in " ".join(messages(result))
    assert shop.latest(ADS) is None

    # Checks of another run let it be, and say what to do.
    told = " ".join(messages(shop.check("clean_ads")))
    assert f"{shop.record(ADS).update} had passed when its run {result.run_id} stopped: re-execute that run" in told
    assert shop.latest(ADS) is None

    assert shop.run("clean_ads").success
    assert shop.latest(ADS) == shop.record(ADS).update
    assert len(shop.rows(ADS)) == 3


def test_a_check_does_not_put_back_in_force_what_was_taken_out_of_it_by_removing_the_manifest(published):
    before = published.latest(ADS)
    assert published.run("clean_ads").success
    (published.update_directory(ADS) / "_SUCCESS").unlink()

    assert published.check("clean_ads").success
    assert published.latest(ADS) == before


def test_a_store_that_fails_before_anything_is_decided_leaves_the_update_staged(shop):
    shop.land(ads(3))

    def fail(operation, key):
        if operation == "replace" and key.startswith(ADS):
            message = "the store is out of reach"
            raise UnavailableError(message)

    result = using_board(shop, Interposed(shop.board, fail)).run("clean_ads")

    assert not result.success
    assert not failed_checks(result)
    assert [status.state for status in history(shop.feed(ADS), DAY, now=shop.now)] == ["staged"]
    assert shop.check("clean_ads").success


def test_a_file_that_is_gone_is_an_error_of_the_run_and_not_a_failed_check(shop):
    shop.land(ads(3))
    shop.run("clean_ads", checks=False)
    next(shop.update_directory(ADS).glob("part-*")).unlink()

    result = shop.check("clean_ads")

    assert not result.success
    assert not result.get_asset_check_evaluations()
    assert shop.record(ADS).state == "staged"
    assert shop.latest(ADS) is None


def test_a_check_that_fails_on_a_published_update_invalidates_it_and_the_one_before_is_in_force(published):
    before = published.latest(ADS)
    assert published.run("clean_ads").success
    assert published.latest(ADS) > before
    published.rewrite(ADS, a_null)

    result = published.check("clean_ads")

    assert failed_checks(result) == ["required_not_null"]
    record = published.record(ADS)
    assert record.state == "invalidated"
    assert "NULL in ad_id 1" in record.history[-1].reason
    assert result.run_id in record.history[-1].author
    assert published.latest(ADS) == before
    assert len(published.rows(ADS)) == 10


def test_checks_that_still_hold_change_nothing(published):
    before = published.record(ADS)

    assert published.check("clean_ads").success
    assert published.record(ADS) == before


def lose_records(shop, *locations):
    for location in locations:
        shutil.rmtree(shop.base / location / ".feed")


def lose_update(shop, location, name):
    """What retention leaves of an update: nothing."""
    shutil.rmtree(shop.base / location / DAY / name)
    for path in (shop.base / location / ".feed").rglob(f"{name}*"):
        path.unlink()


def warned(result):
    """The checks that did not pass, none of which may block."""
    failed = [each for each in result.get_asset_check_evaluations() if not each.passed]
    assert {each.severity for each in failed} <= {dg.AssetCheckSeverity.WARN}
    return sorted(each.check_name for each in failed)


def test_checks_that_cannot_tell_because_the_control_area_is_lost_warn_and_leave_the_update_in_force(related):
    before = related.latest(ADS), related.latest(EFFECTIVENESS)
    lose_records(related, ADS, EFFECTIVENESS)

    of_ads, of_effectiveness = related.check("clean_ads"), related.check("ad_effectiveness")

    assert of_ads.success
    assert of_effectiveness.success
    assert warned(of_ads) == ["quarantined_share", "rows_accounted"]
    assert warned(of_effectiveness) == ["totals_reconcile"]
    told = [each for each in of_ads.get_asset_check_evaluations() if each.check_name == "rows_accounted"]
    assert told[0].metadata["row counts"].value == "not known: no record tells"
    assert (related.latest(ADS), related.latest(EFFECTIVENESS)) == before


def test_totals_of_an_upstream_that_retention_removed_cannot_be_told_and_the_update_stays_in_force(related):
    read, made = related.latest(ADS), related.latest(EFFECTIVENESS)
    assert related.run("clean_ads").success
    lose_update(related, ADS, read)

    result = related.check("ad_effectiveness")

    assert result.success
    assert warned(result) == ["totals_reconcile"]
    assert related.latest(EFFECTIVENESS) == made


def test_a_total_that_is_wrong_takes_the_update_out_of_force_even_if_the_other_cannot_be_told(related):
    read = related.latest(ADS)
    assert related.run("clean_ads").success
    lose_update(related, ADS, read)
    related.rewrite(EFFECTIVENESS, lambda table: column(table, "orphan_clicks", pc.add(table["orphan_clicks"], 1)))

    result = related.check("ad_effectiveness")

    assert failed_checks(result) == ["totals_reconcile"]
    assert related.latest(EFFECTIVENESS) is None


def test_what_can_be_told_without_a_record_still_takes_an_update_out_of_force(published):
    published.rewrite(ADS, a_null)
    lose_records(published, ADS)

    result = published.check("clean_ads")

    assert not result.success
    assert "required_not_null" in failed_checks(result)
    assert published.latest(ADS) is None


def test_a_column_that_may_have_been_declared_since_is_no_fault_of_an_update_without_a_record(published):
    before = published.latest(ADS)
    published.rewrite(ADS, without_user)
    lose_records(published, ADS)

    assert published.check("clean_ads").success
    assert published.latest(ADS) == before


def test_what_cannot_be_told_of_a_staged_update_keeps_it_from_being_published(related):
    before = related.latest(EFFECTIVENESS)
    read = related.latest(ADS)
    assert related.run("ad_effectiveness", checks=False).success
    lose_update(related, ADS, read)

    result = related.check("ad_effectiveness")

    assert not result.success
    assert failed_checks(result) == ["totals_reconcile"]
    assert related.record(EFFECTIVENESS).state == "rejected"
    assert related.latest(EFFECTIVENESS) == before


def test_one_check_alone_publishes_nothing_that_another_would_reject(shop):
    shop.land(ads(3))
    shop.run("clean_ads", checks=False)
    shop.rewrite(ADS, a_null)

    result = shop.check("clean_ads", DAY, "not_empty")

    assert [each.check_name for each in result.get_asset_check_evaluations()] == ["not_empty"]
    assert shop.record(ADS).state == "rejected"
    assert not result.success
    assert "Checks that are not selected failed" in " ".join(messages(result))
    assert "rejected (required_not_null: " in " ".join(messages(result))
    assert "NULL in ad_id 1" in " ".join(messages(result))


def test_there_is_nothing_to_check_of_a_day_that_was_never_made(shop):
    assert f"{ADS} has nothing staged or valid of {DAY} to check" in " ".join(messages(shop.check("clean_ads")))


def test_a_rejected_update_is_not_audited_again(published):
    before = published.latest(ADS)
    published.run("clean_ads", checks=False)
    published.rewrite(ADS, a_null)
    published.check("clean_ads")

    assert published.check("clean_ads").success
    assert published.latest(ADS) == before


def test_the_rows_of_an_upstream_that_others_published_are_counted(shop, tmp_path):
    shop.land(ads(2))
    assert shop.run(*BOTH_CLEAN[:1]).success
    csv = f"click_id,event_time,impression_id,ad_id,user_id,source\nk1,{DAY}T12:00:09Z,i0,a1,u0,others\n"
    shop.publish(CLICKS, DAY, {"clicks.csv": csv}, tmp_path / "clicks")

    result = shop.run("ad_effectiveness")

    assert result.success, messages(result)
    assert [row["clicks"] for row in shop.rows(EFFECTIVENESS)] == [1]
    assert any(isinstance(each, FeedInput) and each.feed == CLICKS for each in shop.record(EFFECTIVENESS).facts.inputs)


def audited_copies(shop, schema=CLEAN_ADS):
    """An audited asset that takes and gives several days in one run, with the columns of this schema."""
    source = next(source for source in load_sources(shop.settings.sources_directory) if source.kind == "ads")
    raw, days = raw_logs(source, hourly(shop.settings)), daily(shop.settings)

    def copy(records: DataFrame) -> DataFrame:
        text = {"impression_id": "id", "ad_id": "ad", "campaign_id": "campaign", "user_id": "user"}
        return records.select(
            *(functions.col(sent).alias(name) for name, sent in text.items()),
            functions.to_timestamp("time").alias("event_time"),
            functions.col("place").alias("placement_id"),
            functions.col("cost").cast("decimal(18,6)").alias("cost"),
            functions.lit("shop").alias("source"),
        )

    @dg.asset(
        ins={"records": dg.AssetIn(raw.key, input_manager_key="file_feed")},
        partitions_def=days,
        io_manager_key="file_feed",
        metadata=feed_metadata("copies/v1.0", schema, identity=["impression_id"], audited=True),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def copies(records: dict[str, DataFrame]) -> dict[str, DataFrame]:
        return {day: copy(frame) for day, frame in records.items()}

    expectations = checks.for_clean(FeedDeclaration.of(copies.metadata_by_key[copies.key]))
    return shop.with_assets(raw, copies, checks=[checks.audit(copies, expectations)])


def joint_evaluation(result, check):
    """What a run over several days came to for this check, beside the outcome of each day."""
    (joint,) = [
        each for each in result.get_asset_check_evaluations() if each.check_name == check and each.partition is None
    ]
    return joint


def test_a_run_over_several_days_publishes_the_good_ones_and_rejects_the_bad_one(shop):
    days = ["2019-11-23", DAY, NEXT_DAY]
    for day in days:
        shop.land(ads(2, day))
    shop.land([ad("twice", "2019-11-24 01:00:00"), ad("twice", "2019-11-24 02:00:00")], name="more")

    result = audited_copies(shop).run("copies", day=None, tags=between(days[0], days[-1]))

    assert not result.success
    assert [shop.record("copies/v1.0", day).state for day in days] == ["published", "rejected", "published"]
    assert [shop.latest("copies/v1.0", day) is None for day in days] == [False, True, False]
    assert joint_evaluation(result, "identity_unique").metadata["failed partitions"].value == DAY


def test_each_day_of_a_run_over_several_has_its_own_outcome_in_dagster(shop):
    for day in (DAY, NEXT_DAY):
        shop.land(ads(2, day))
    shop.land([ad("twice", "2019-11-24 01:00:00"), ad("twice", "2019-11-24 02:00:00")], name="more")

    audited_copies(shop).run("copies", day=None, tags=between(DAY, NEXT_DAY))

    key = dg.AssetCheckKey(dg.AssetKey("copies"), "identity_unique")
    evaluations = {
        record.event.dagster_event.event_specific_data.partition: record.event.dagster_event.event_specific_data
        for record in shop.instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
        if record.event and record.status != AssetCheckExecutionRecordStatus.PLANNED
    }
    assert {partition: evaluations[partition].passed for partition in (DAY, NEXT_DAY)} == {DAY: False, NEXT_DAY: True}
    assert evaluations[NEXT_DAY].target_materialization_data is not None


def test_a_run_over_several_days_can_be_repeated(shop):
    for day in (DAY, NEXT_DAY):
        shop.land(ads(2, day))
    copies = audited_copies(shop)
    first = copies.run("copies", day=None, tags=between(DAY, NEXT_DAY))
    made = shop.latest("copies/v1.0")

    second = copies.run("copies", day=None, tags=between(DAY, NEXT_DAY))

    assert (messages(first), messages(second)) == ([], [])
    assert shop.latest("copies/v1.0") > made


def test_a_check_over_several_days_blocks_for_the_one_that_is_bad_beside_one_that_cannot_be_told(shop):
    for day in (DAY, NEXT_DAY):
        shop.land(ads(2, day))
    copies = audited_copies(shop)
    copies.run("copies", day=None, tags=between(DAY, NEXT_DAY))
    shop.rewrite("copies/v1.0", all_but_one, NEXT_DAY)
    shutil.rmtree(shop.base / "copies/v1.0/.feed/records" / DAY)

    job = copies.definitions.resolve_implicit_global_asset_job_def()
    keys = copies.definitions.resolve_asset_graph().asset_check_keys
    result = job.get_subset(asset_selection=set(), asset_check_selection=keys).execute_in_process(
        instance=shop.instance, tags=between(DAY, NEXT_DAY), raise_on_error=False
    )

    assert joint_evaluation(result, "rows_accounted").severity == dg.AssetCheckSeverity.ERROR
    assert [shop.latest("copies/v1.0", day) is None for day in (DAY, NEXT_DAY)] == [False, True]


def test_a_column_that_was_declared_since_is_no_fault_of_what_is_published(shop):
    shop.land(ads(2))
    fewer = StructType([field for field in CLEAN_ADS if field.name != "placement_id"])
    assert audited_copies(shop, fewer).run("copies").success
    before = shop.latest("copies/v1.0")

    assert audited_copies(shop).check("copies").success
    assert shop.latest("copies/v1.0") == before


def test_a_feed_that_is_not_audited_has_no_audit(desk):
    days = daily(desk.settings)
    asset = dg.asset(name="plain", partitions_def=days, metadata=feed_metadata("plain/v1.0", CLEAN_ADS))(lambda: None)

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="plain is not an audited feed"):
        checks.audit(asset, ())
