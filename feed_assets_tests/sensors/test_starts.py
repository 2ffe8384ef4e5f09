"""The sensor for flows with a trigger: what starts, once, and why something does not start yet."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from feed_assets.dependencies.errors import UnknownFlowError
from feed_assets.feed_events.triggers import trigger
from feed_assets.operations.gate_answers import explain_flow
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets_tests.harness import ADS, ALL, DAY, SHOP_ADS, SHOP_CLICKS, Installation, ads, write_sources
from feed_assets_tests.plain_flows import publish_attempts


@pytest.fixture
def gated(desk):
    """An installation whose assets have triggers."""
    return replace(desk, settings=replace(desk.settings, gate=True), _definitions=None)


def explained(installation: Installation, flow: str = "clean_ads", day: str = DAY):
    repository = installation.definitions.get_repository_def()
    sources = installation.definitions.resources["project"].sources
    flows = Flows.of(AssetFeedGraph.of(repository), sources, installation.settings.first_day)
    states = flows.states(installation.store, installation.board)
    return explain_flow(installation.board, flows, states, sources, flow, day, now=installation.now)


def test_a_project_without_a_trigger_has_no_such_sensor(desk):
    assert "starts" not in {each.name for each in desk.definitions.sensors}


def test_a_day_whose_raw_data_is_complete_starts_once_and_by_this_sensor_alone(gated):
    gated.raw_bytes(DAY, {"x": 1})
    gated.raw_bytes(DAY, {"x": 1}, "clicks/shop_clicks")

    assert gated.tick("late_growth").asked == {}
    assert gated.tick("new_manifests").asked == {}
    assert gated.tick("starts").asked == {DAY: tuple(sorted(ALL))}
    assert gated.tick("starts").asked == {}


def test_late_data_by_the_threshold_reopens_its_hour_and_the_day_runs_again(gated):
    gated.raw_bytes(DAY, {"x": 1000})
    gated.tick("starts")
    gated.process()
    gated.raw_bytes(DAY, {"late": 50}, hour="15")

    assert gated.tick("starts").asked == {DAY: ("clean_ads",)}
    (raw,) = explained(gated).case.inputs
    assert (raw.complete, raw.revision) == (True, 2)
    gated.process()
    publish_attempts(gated)
    assert gated.tick("starts").asked == {}
    assert explained(gated).sentence == "up to date"


def test_late_data_below_the_threshold_changes_no_revision(gated):
    gated.raw_bytes(DAY, {"x": 1000})
    gated.tick("starts")
    gated.process()
    gated.raw_bytes(DAY, {"late": 49}, hour="15")

    assert gated.tick("starts").asked == {}
    (raw,) = explained(gated).case.inputs
    assert raw.revision == 1


def test_two_ticks_over_one_late_file_reopen_its_hour_once(gated):
    gated.raw_bytes(DAY, {"x": 1000})
    gated.tick("starts")
    gated.process()
    gated.raw_bytes(DAY, {"late": 50}, hour="15")
    gated.tick("starts")
    gated.tick("starts")

    (raw,) = explained(gated).case.inputs
    assert raw.revision == 2


def test_a_day_in_its_buffer_waits_for_data_and_says_until_when(gated):
    gated.raw_bytes("2019-11-30", {"x": 1})
    early = gated.at(datetime(2019, 11, 30, 23, tzinfo=UTC))

    assert early.tick("starts").asked == {}
    verdict = explained(gated.at(datetime(2019, 11, 30, 23, tzinfo=UTC)), day=DAY)
    assert verdict.held is None or verdict.held.stage == "data"


def test_a_flow_runs_when_its_inputs_were_published_and_again_when_one_is_replaced(gated):
    for kind in ("ads", "clicks"):
        gated.raw_bytes(DAY, {"x": 1}, f"{kind}/shop_{kind}")
        gated.process(kind=kind)
    gated.tick("new_manifests")

    assert gated.tick("starts").asked == {DAY: ("ad_effectiveness",)}
    gated.relate()
    assert gated.tick("starts").asked == {}
    gated.process()
    gated.tick("new_manifests")
    assert gated.tick("starts").asked == {DAY: ("ad_effectiveness",)}


def test_a_flow_waits_for_an_input_that_is_missing_and_names_it(gated):
    gated.raw_bytes(DAY, {"x": 1})
    gated.process()
    gated.tick("new_manifests")
    gated.tick("starts")

    verdict = explained(gated, "ad_effectiveness")
    assert verdict.held is not None
    assert verdict.held.stage == "data"
    assert f"clean-clicks/v1.0 - day {DAY}" in verdict.held.why


def test_what_is_no_flow_and_what_is_no_partition_is_said_with_what_there_is(gated):
    with pytest.raises(UnknownFlowError, match=r"'ad_catalog' is no asset with a trigger: those are clean_ads"):
        explained(gated, "ad_catalog")
    with pytest.raises(
        UnknownFlowError, match=r"'2019-11-31' is not a partition of clean_ads: its slots are 2019-11-20 to"
    ):
        explained(gated, day="2019-11-31")


def test_a_run_of_the_gate_records_the_revisions_that_decided_and_publishes_once(shop):
    gated = replace(shop, settings=replace(shop.settings, gate=True), _definitions=None)
    gated.land(ads(20))
    first, *_ = gated.execute(gated.tick("starts"))
    assert first.success
    assert gated.record(ADS).facts.details["revisions"] == {f"raw/ads - day {DAY}": 1}

    gated.land(ads(20, start=20), name="late")
    tick = gated.tick("starts")
    again, *_ = gated.execute(tick)
    assert again.success
    assert gated.record(ADS).facts.details["revisions"] == {f"raw/ads - day {DAY}": 2}
    published = gated.latest(ADS)
    repeated, *_ = gated.execute(tick)
    assert not repeated.success  # its attempt belongs to another run
    assert gated.latest(ADS) == published


def test_a_run_that_somebody_starts_publishes_the_same_inputs_anew(shop):
    gated = replace(shop, settings=replace(shop.settings, gate=True), _definitions=None)
    gated.land(ads(20))
    gated.execute(gated.tick("starts"))
    before = gated.latest(ADS)

    assert gated.run("clean_ads").success
    assert gated.latest(ADS) != before


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"quality": "good"}, "quality is 'good': it is one of passed, not_bad, any"),
        ({"on_rerun": "never"}, "on_rerun is 'never': it is one of rerun, ignore"),
        ({"settle": timedelta(seconds=-1)}, "settle is"),
        ({"since": "yesterday"}, "since is 'yesterday': it is a date such as 2026-11-27"),
    ],
)
def test_a_trigger_that_cannot_be_is_refused(values, message):
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=message):
        trigger(**values)


def test_a_flow_of_a_source_that_is_stopped_waits_for_its_description(gated):
    for kind in ("ads", "clicks"):
        gated.raw_bytes(DAY, {"x": 1}, f"{kind}/shop_{kind}")
    write_sources(gated.settings.sources_directory, SHOP_ADS, SHOP_CLICKS.replace("identity:", "identities:"))
    stopped = gated.at(gated.now)

    assert stopped.tick("starts").asked == {DAY: ("clean_ads",)}
    assert explained(stopped, "clean_clicks").sentence == (
        "waits for data: raw/clicks - day 2019-11-24: the description of clicks/shop_clicks cannot be used: see "
        "`feed-assets doctor`"
    )
