"""What a service says of flows: running, failed, waiting and for what; runs; what is made of what."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import pytest

from feed_assets.datasets.slots import parse_slot
from feed_assets.dependencies.errors import UnknownFlowError
from feed_assets.dependencies.http.calendar import Shown
from feed_assets.operations.flow_answers import ProjectFlows
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets_tests.harness import DAY, Installation

CLEAN = parse_slot(f"clean-ads/v1.0 - day {DAY}")
RAW = parse_slot(f"raw/ads shop_ads hour {DAY}T12:00Z")


@pytest.fixture
def gated(desk: Installation) -> Installation:
    return replace(desk, settings=replace(desk.settings, gate=True), _definitions=None)


def answers(shop: Installation) -> ProjectFlows:
    sources = shop.definitions.resources["project"].sources

    def load() -> Flows:
        feeds = AssetFeedGraph.of(shop.definitions.get_repository_def())
        return Flows.of(feeds, sources, shop.settings.first_day)

    return ProjectFlows(
        load, load().states(shop.store, shop.board), shop.board, sources, lambda: shop.now, shop.instance
    )


def test_a_slot_of_a_flow_may_start_then_its_run_fails_and_then_it_runs(gated):
    gated.raw_bytes(DAY, {"x": 1})
    tick = gated.tick("starts")
    before = answers(gated).progress([CLEAN])[CLEAN].shown
    gated.fail(tick)
    failed = answers(gated)
    after, runs = failed.progress([CLEAN])[CLEAN].shown, failed.runs(CLEAN)
    gated.fail(tick, dg.DagsterRunStatus.STARTED)
    running = answers(gated).progress([CLEAN])[CLEAN].shown

    assert (before, after, running) == (Shown.DUE, Shown.FAILED, Shown.RUNNING)
    assert [each.status for each in runs] == ["failure"]


def test_a_day_without_raw_records_has_nothing_to_start(gated):
    gated.tick("starts")

    assert answers(gated).progress([CLEAN])[CLEAN].shown is Shown.INCOMPLETE


def test_slots_name_what_they_are_made_of_and_what_is_made_of_them(gated):
    gated.raw_bytes(DAY, {"x": 1})
    gated.tick("starts")
    found = answers(gated)

    assert [str(each.slot) for each in found.inputs(CLEAN)] == [f"raw/ads - day {DAY}"]
    assert found.consumers(RAW) == [CLEAN]
    assert parse_slot(f"ad-effectiveness/v1.0 - day {DAY}") in found.consumers(CLEAN)
    assert (found.partition(CLEAN), found.partition(RAW)) == (DAY, None)
    with pytest.raises(UnknownFlowError, match="'nothing' is no asset with a trigger"):
        found.dataset_of("nothing")
