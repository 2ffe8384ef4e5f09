"""Checks of what is published already, or of what lost its records: what goes out of force, and what stays."""

from __future__ import annotations

import shutil

import dagster as dg
import pyarrow.compute as pc

from feed_assets_tests.checks.damage import (
    a_null,
    column,
    without_user,
)
from feed_assets_tests.harness import (
    ADS,
    DAY,
    EFFECTIVENESS,
    failed_checks,
    messages,
)


def test_a_check_does_not_put_back_in_force_what_was_taken_out_of_it_by_removing_the_manifest(published):
    before = published.latest(ADS)
    assert published.run("clean_ads").success
    (published.update_directory(ADS) / "_SUCCESS").unlink()

    assert published.check("clean_ads").success
    assert published.latest(ADS) == before


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
    evaluations = [each for each in of_ads.get_asset_check_evaluations() if each.check_name == "rows_accounted"]
    assert evaluations[0].metadata["row counts"].value == "not known: no record"
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


def test_there_is_nothing_to_check_of_a_day_that_was_never_made(shop):
    assert f"{ADS} has nothing staged or valid of {DAY} to check" in " ".join(messages(shop.check("clean_ads")))


def test_checks_without_a_partition_say_how_to_run_those_of_one(desk):
    result = desk.check("clean_ads", None)
    assert not result.success
    assert "select its step clean_ads_audit, and re-execute the step" in " ".join(messages(result))
