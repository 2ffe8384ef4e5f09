"""Inputs that only triggers name, with real runs and raw data: what runs again publishes again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest

import feed_assets as fa
from feed_assets.ads.assets.clean import clean_ads
from feed_assets.ads.assets.rules import Rules
from feed_assets.ads.expectations import for_clean
from feed_assets.ads.schemas import KINDS
from feed_assets.file_feed.record import FeedInput
from feed_assets.operations.gate_answers import explain_flow
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets_tests.harness import ADS, DAY, Installation, ads
from feed_assets_tests.plain_flows import asset, given

OTHER, AFTER = "other/v1.0", "after/v1.0"


@pytest.fixture
def gated(desk: Installation) -> Installation:
    """Raw ads are cleaned when `other` is there."""
    return _installation(desk, fa.trigger(also=[fa.needs(OTHER)], settle=timedelta(0)))


def _installation(desk: Installation, gate: Mapping[str, Any], *reading: Mapping[str, Any]) -> Installation:
    """Raw ads are cleaned by a gate; feeds `after` with these triggers read the clean ads."""
    sources = fa.load_sources(desk.settings.sources_directory, KINDS)
    project = fa.Project(desk.settings, sources)
    clean = clean_ads(sources, project.days, None, gate)
    declaration = fa.declared_feed(clean.metadata_by_key[clean.key])
    assert declaration is not None
    after = [asset("after", project.days, each, clean_ads=ADS) for each in reading]
    definitions = project.definitions(
        assets=[given("other", project.days), clean, *after],
        asset_checks=[fa.checks.audit(clean, for_clean(declaration))],
        resources={"rules": Rules()},
    )
    return replace(desk, _definitions=definitions)


def publish(installation: Installation, location: str) -> None:
    installation.make(location, DAY, [])
    installation.tick("new_manifests")


def test_d39_a_flow_of_raw_data_publishes_again_when_an_extra_input_was_reopened(gated, spark):
    del spark  # it is found and used
    gated.land(ads(20))
    assert gated.tick("starts").asked == {}
    publish(gated, OTHER)
    tick = gated.tick("starts")
    assert tick.asked == {DAY: ("clean_ads",)}
    (first,) = gated.execute(tick)
    assert first.success
    assert gated.record(ADS).facts.details["revisions"] == {f"raw/ads - day {DAY}": 1, f"{OTHER} - day {DAY}": 1}
    gated.tick("new_manifests")
    before = gated.latest(ADS)

    publish(gated, OTHER)
    tick = gated.tick("starts")
    assert tick.asked == {DAY: ("clean_ads",)}
    (again,) = gated.execute(tick)
    assert again.success
    published = gated.latest(ADS)
    assert published != before
    (repeated,) = gated.execute(tick)
    assert not repeated.success  # its attempt belongs to another run
    assert gated.record(ADS).facts.details["revisions"][f"{OTHER} - day {DAY}"] == 2
    assert [published] == [gated.latest(ADS)]
    gated.tick("new_manifests")
    assert "clean_ads" not in gated.tick("starts").asked.get(DAY, ())


def test_a_flow_waits_for_raw_data_that_another_flow_reads_and_runs_again_when_it_is_reopened(desk):
    none = fa.trigger(settle=timedelta(0))
    gated = _installation(desk, none, fa.trigger(also=[fa.needs("raw/ads")], settle=timedelta(0)))
    gated.raw_bytes(DAY, {"x": 1000})
    tick = gated.tick("starts")
    assert tick.asked == {DAY: ("after", "clean_ads")}
    clean = gated.process()
    gated.make(AFTER, DAY, [FeedInput(ADS, DAY, clean)], details={"revisions": {f"raw/ads - day {DAY}": 1}})
    gated.tick("new_manifests")
    assert gated.tick("starts").asked == {}

    gated.raw_bytes(DAY, {"late": 500}, hour="15")
    gated.tick("starts")
    feeds = AssetFeedGraph.of(gated.definitions.get_repository_def())
    sources = gated.definitions.resources["project"].sources
    flows = Flows.of(feeds, sources, gated.settings.first_day)
    states = flows.states(gated.store, gated.board)
    verdict = explain_flow(gated.board, flows, states, sources, "after", DAY, now=gated.now)
    assert verdict.case.behind == f"raw/ads - day {DAY} has revision 2 now, was 1"


def test_raw_data_that_nobody_looks_at_is_refused(desk):
    gate = fa.trigger(also=[fa.needs("raw/clicks")])
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="clean_ads needs raw/clicks, which nobody looks at"):
        _installation(desk, gate)
