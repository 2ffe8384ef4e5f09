"""What is tried again: a store that did not answer; and what is not."""

from __future__ import annotations

from feed_assets.blackboard.port import UnavailableError
from feed_assets_tests.harness import ADS, Interposed, ads, messages, using_board


def test_a_run_survives_a_store_that_fails_once_at_each_step(shop):
    shop.land(ads(3))
    failing = {
        ("page", "raw/ads/shop_ads/"): "an input is listed",
        ("create", f"{ADS}/.feed/records/"): "the update is staged",
        ("replace", f"{ADS}/.feed/records/"): "the audit publishes",
    }

    def fail(operation, key):
        for place in list(failing):
            if operation == place[0] and key.startswith(place[1]):
                raise UnavailableError(f"503: {failing.pop(place)}")

    result = using_board(shop, Interposed(shop.board, fail)).run("clean_ads")

    assert result.success, messages(result)
    assert not failing
    retried = [event.step_key for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
    assert retried == ["clean_ads", "clean_ads", "clean_ads_audit"]
    assert shop.latest(ADS) == shop.record(ADS).update


def test_a_store_that_never_answers_is_given_up_after_three_more_attempts(shop):
    shop.land(ads(1))

    def fail(operation, key):
        if operation == "create" and key.startswith(ADS):
            raise UnavailableError("503")

    result = using_board(shop, Interposed(shop.board, fail)).run("clean_ads")

    assert not result.success
    assert [event.event_type_value for event in result.all_events].count("STEP_RESTARTED") == 3


def test_a_full_disk_is_not_tried_again(shop):
    shop.land(ads(1))

    def fail(operation, key):
        if operation == "create" and key.startswith(ADS):
            raise UnavailableError("Could not create it: no space left on device", transient=False)

    result = using_board(shop, Interposed(shop.board, fail)).run("clean_ads")

    assert not result.success
    assert "STEP_UP_FOR_RETRY" not in [event.event_type_value for event in result.all_events]
