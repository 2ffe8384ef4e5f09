"""Runs that stop between two steps of a publication, and the runs that re-execute them."""

from __future__ import annotations

import dagster as dg

from feed_assets.blackboard.port import UnavailableError
from feed_assets.file_feed import history
from feed_assets_tests.harness import ADS, DAY, Interposed, ad, ads, failed_checks, messages, using_board


def died_before_the_manifest(shop):
    """A run whose store does not answer any more once its record says that it publishes."""

    def fail(operation, key):
        if operation == "create" and key.startswith(ADS) and key.endswith("/_SUCCESS"):
            message = "the store is out of reach"
            raise UnavailableError(message)

    return using_board(shop, Interposed(shop.board, fail)).run("clean_ads")


def test_a_run_that_died_between_its_record_and_its_manifest_is_published_by_its_reexecution(shop):
    shop.land([*ads(30), ad("bad", cost="?")])
    died = died_before_the_manifest(shop)
    assert not died.success
    assert (shop.record(ADS).state, shop.latest(ADS)) == ("publishing", None)

    again = shop.reexecute(died.run_id)

    assert again.success, messages(again)
    record = shop.record(ADS)
    assert (record.state, shop.latest(ADS)) == ("published", record.update)
    assert record.facts.run_id == record.facts.root_run_id == died.run_id
    assert {each.metadata["update"].value for each in again.get_asset_check_evaluations()} == {record.update}
    assert shop.latest(f"quarantine/{ADS}") == record.update
    assert len(history(shop.feed(ADS), DAY, now=shop.now)) == 1


def test_a_reexecution_of_a_reexecution_finds_the_update_of_the_first_run_too(shop):
    shop.land(ads(3))
    died = died_before_the_manifest(shop)

    def fail(operation, key):
        if operation == "read" and key.startswith(ADS):
            message = "the store is out of reach"
            raise UnavailableError(message)

    second = using_board(shop, Interposed(shop.board, fail)).reexecute(died.run_id)
    assert not second.success

    assert shop.reexecute(second.run_id).success
    assert shop.latest(ADS) == shop.record(ADS).update


def test_the_reexecution_of_a_rejected_run_says_so_and_is_not_green_for_the_update_before(shop):
    shop.land(ads(10))
    assert shop.run("clean_ads").success
    before = shop.latest(ADS)
    shop.land([ad(f"bad{number}", cost="?") for number in range(5)], name="corrupt")
    rejected = shop.run("clean_ads")
    assert failed_checks(rejected) == ["quarantined_share"]

    again = shop.reexecute(rejected.run_id)

    assert not again.success
    assert failed_checks(again) == ["quarantined_share"]
    outcome = again.get_asset_check_evaluations()[0].metadata["outcome"].value
    assert f"This run's update {shop.record(ADS).update} was rejected (quarantined_share: quarantined 5" in outcome
    assert f"In force is {before}" in outcome
    assert shop.latest(ADS) == before


def test_an_audit_that_stopped_after_its_rejection_tells_dagster_when_it_is_tried_again(shop):
    shop.land(ads(10))
    assert shop.run("clean_ads").success
    before = shop.latest(ADS)
    shop.land([ad(f"bad{number}", cost="?") for number in range(5)], name="corrupt")
    failures = []

    def fail(operation, key):
        if shop.record(ADS).state == "rejected" and operation == "page" and not failures:
            failures.append(key)
            message = "503 Slow Down"
            raise UnavailableError(message)

    rejected = using_board(shop, Interposed(shop.board, fail)).run("clean_ads")

    assert failures
    assert failed_checks(rejected) == ["quarantined_share"]
    event = shop.instance.get_latest_materialization_event(dg.AssetKey("clean_ads")).asset_materialization
    assert event.metadata["update"].value == before
    assert event.metadata["rejected update"].value == shop.record(ADS).update


def test_a_reexecuted_audit_of_an_update_that_is_history_by_now_is_about_that_update(shop):
    shop.land(ads(3))
    died = died_before_the_manifest(shop)
    shop.land(ads(3, start=3), name="late")
    assert shop.run("clean_ads").success
    newer = shop.latest(ADS)

    again = shop.reexecute(died.run_id)

    assert again.success, messages(again)
    updates = {each.metadata["update"].value for each in again.get_asset_check_evaluations()}
    assert updates == {update.name for update in history(shop.feed(ADS), DAY, now=shop.now)} - {newer}
    assert f"as history: {newer} was begun later" in again.get_asset_check_evaluations()[0].metadata["outcome"].value
    assert shop.latest(ADS) == newer
