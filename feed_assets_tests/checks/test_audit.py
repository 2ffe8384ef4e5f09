"""The audit: what is published, what is turned away and why, and what every reader sees meanwhile."""

from __future__ import annotations

import dagster as dg
import pyarrow.compute as pc
import pytest

from feed_assets import checks
from feed_assets.ads.schemas import CLEAN_ADS
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import FeedInput
from feed_assets.partitions.days import daily
from feed_assets_tests.checks.damage import (
    a_day_later,
    a_null,
    all_but_one,
    column,
    first_again,
    nothing,
    text_for_cost,
    without_user,
)
from feed_assets_tests.harness import (
    ADS,
    BOTH_CLEAN,
    CLICKS,
    DAY,
    EFFECTIVENESS,
    NEXT_DAY,
    ad,
    ads,
    failed_checks,
    messages,
)


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
def test_bad_data_is_rejected_by_the_check_that_is_for_it_and_no_reader_sees_it(
    shared_published, change, check, observed
):
    published = shared_published
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


def test_a_check_of_the_quarantined_share_names_the_most_common_reasons(related):
    bad = [ad(f"cost{number}", cost="?") for number in range(3)] + [ad(f"ad{number}", ad=None) for number in range(5)]
    related.land(bad, name="corrupt")

    result = related.run("clean_ads")

    (failed,) = [each for each in result.get_asset_check_evaluations() if not each.passed]
    assert failed.metadata["reasons"].value == "missing ad_id (5), unparsable cost (3)"
    assert "reasons missing ad_id (5)" in related.record(ADS).history[-1].reason


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
def test_effectiveness_that_does_not_add_up_is_rejected(shared_related, name, check):
    related = shared_related
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


def test_a_rejected_update_is_not_audited_again(shared_published):
    published = shared_published
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


def test_a_feed_that_is_not_audited_has_no_audit(desk):
    days = daily(desk.settings)
    asset = dg.asset(name="plain", partitions_def=days, metadata=feed_metadata("plain/v1.0", CLEAN_ADS))(lambda: None)

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="plain is not an audited feed"):
        checks.audit(asset, ())
