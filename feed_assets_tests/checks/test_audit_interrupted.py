"""An audit whose store or files fail: an error of the run, and no verdict on the data."""

from __future__ import annotations

from feed_assets.blackboard.port import UnavailableError
from feed_assets.file_feed import history
from feed_assets_tests.harness import (
    ADS,
    DAY,
    Interposed,
    ads,
    failed_checks,
    messages,
    using_board,
)


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
    logged = " ".join(messages(shop.check("clean_ads")))
    assert f"{shop.record(ADS).update} had passed when its run {result.run_id} stopped: re-execute that run" in logged
    assert shop.latest(ADS) is None

    assert shop.run("clean_ads").success
    assert shop.latest(ADS) == shop.record(ADS).update
    assert len(shop.rows(ADS)) == 3


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
