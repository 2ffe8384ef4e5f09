"""Starts that people force, flows that they pause, limits of a flow, and what is given up: through the sensor."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from feed_assets.feed_events.triggers import attempt_tag
from feed_assets.starts.attempt import AttemptRefusedError, State
from feed_assets.starts.attempts import Attempts
from feed_assets.starts.pauses import Pauses
from feed_assets_tests.harness import ADS, DAY, Installation, ads


def attempts_of(installation: Installation) -> Attempts:
    return Attempts(installation.store, installation.board.uri(""), lambda: installation.now)


def pauses_of(installation: Installation) -> Pauses:
    return Pauses(installation.store, installation.board.uri(""), lambda: installation.now)


@pytest.fixture
def gated(shop: Installation) -> Installation:
    return replace(shop, settings=replace(shop.settings, gate=True), _definitions=None)


def state(installation: Installation, feed: str = ADS, day: str = DAY) -> State:
    return attempts_of(installation).newest(feed, [day])[day].state


def test_d9_an_attempt_has_its_run_its_times_and_its_end_on_record(gated: Installation) -> None:
    gated.land(ads(20))
    tick = gated.tick("starts")
    assert state(gated) is State.REQUESTED
    (result,) = gated.execute(tick)

    (attempt,) = attempts_of(gated).of(ADS, DAY)
    assert (attempt.state, attempt.run) == (State.PUBLISHED, result.run_id)
    assert attempt.started is not None
    assert attempt.ended is not None
    assert gated.tick("starts").asked == {}


def test_d9_an_update_that_its_checks_reject_ends_the_attempt_as_rejected_and_is_over(gated: Installation) -> None:
    gated.land([*ads(3), *(row | {"id": f"bad-{row['id']}", "cost": "?"} for row in ads(3))])
    gated.execute(gated.tick("starts"))

    assert state(gated) is State.REJECTED
    assert gated.at(gated.now + timedelta(days=1)).tick("starts").asked == {}


def test_d44_a_forced_start_runs_at_the_next_tick_whatever_the_gate_says(gated: Installation) -> None:
    gated.land(ads(20))
    gated.execute(gated.tick("starts"))
    before = gated.latest(ADS)
    assert gated.tick("starts").asked == {}

    asked = attempts_of(gated).ask(ADS, DAY, by="ann", reason="new prices")
    with pytest.raises(AttemptRefusedError, match="is requested"):
        attempts_of(gated).ask(ADS, DAY, by="bob", reason="me too")
    tick = gated.tick("starts")
    assert tick.asked == {DAY: ("clean_ads",)}
    (result,) = gated.execute(tick)

    assert result.success
    assert gated.latest(ADS) != before
    newest = attempts_of(gated).newest(ADS, [DAY])[DAY]
    assert (newest.key, newest.state, newest.forced, newest.reason) == (
        asked.key,
        State.PUBLISHED,
        "ann",
        "new prices",
    )
    assert gated.tick("starts").asked == {}


def test_a_run_that_somebody_starts_is_refused_while_the_attempt_of_another_run_lives(gated: Installation) -> None:
    gated.land(ads(20))
    gated.tick("starts")

    refused = gated.run("clean_ads")
    assert not refused.success
    (failure,) = [event for event in refused.all_node_events if event.is_step_failure and event.step_key == "clean_ads"]
    assert "attempt 1 of clean-ads/v1.0" in failure.step_failure_data.error.message
    assert gated.latest(ADS) is None


def test_a_run_that_fails_ends_its_attempt_at_the_next_tick_and_is_tried_again_after_a_pause(
    gated: Installation,
) -> None:
    gated.raw_bytes(DAY, {"no parquet": 100})
    (result,) = gated.execute(gated.tick("starts"))
    assert not result.success
    assert state(gated) is State.RUNNING

    assert gated.tick("starts").asked == {}
    assert state(gated) is State.FAILED
    assert gated.at(gated.now + timedelta(minutes=9)).tick("starts").asked == {}
    assert gated.at(gated.now + timedelta(minutes=11)).tick("starts").asked == {DAY: ("clean_ads",)}


def test_d44_a_paused_flow_starts_nothing_and_starts_what_is_due_when_it_goes_on(gated: Installation) -> None:
    gated.land(ads(20))
    pauses_of(gated).pause(ADS, by="ann", reason="new schema")

    tick = gated.tick("starts")
    assert tick.asked == {}
    assert "paused since 2019-12-01 00:00 by ann: new schema" in tick.skipped
    assert pauses_of(gated).resume(ADS, by="ann") is not None
    assert gated.tick("starts").asked == {DAY: ("clean_ads",)}


def test_d7_the_first_tick_after_the_last_fact_requests_the_run(gated: Installation) -> None:
    assert gated.tick("starts").asked == {}
    gated.land(ads(20))
    (request,) = gated.tick("starts").requests
    recorded = attempts_of(gated).newest(ADS, [DAY])[DAY]
    assert request.tags[attempt_tag(ADS)] == recorded.key
    assert recorded.requested == gated.now
