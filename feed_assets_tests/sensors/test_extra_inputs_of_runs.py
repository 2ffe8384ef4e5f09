"""Inputs that only triggers name, with real runs and raw data: what runs again publishes again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame

import feed_assets as fa
from feed_assets.ads.assets.clean import clean_ads
from feed_assets.ads.assets.rules import Rules
from feed_assets.ads.expectations import for_clean
from feed_assets.ads.schemas import KINDS
from feed_assets.dependencies.service import Dependencies
from feed_assets.file_feed.record import FeedInput
from feed_assets.operations.gate_answers import explain_flow
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets_tests.harness import ADS, DAY, Installation, ads
from feed_assets_tests.plain_flows import SCHEMA, asset, given, publish_attempts

OTHER, AFTER = "other/v1.0", "after/v1.0"


@pytest.fixture
def gated(desk: Installation) -> Installation:
    """Raw ads are cleaned when `other` is there."""
    return _installation(desk, fa.trigger(also=[fa.needs(OTHER)], settle=timedelta(0)))


def _installation(
    desk: Installation, gate: Mapping[str, Any], *reading: Mapping[str, Any], more: Sequence[Any] = ()
) -> Installation:
    """Raw ads are cleaned by a gate; feeds `after` with these triggers read the clean ads."""
    sources = fa.load_sources(desk.settings.sources_directory, KINDS)
    project = fa.Project(desk.settings, sources)
    clean = clean_ads(sources, project.days, None, gate)
    declaration = fa.declared_feed(clean.metadata_by_key[clean.key])
    assert declaration is not None
    after = [asset("after", project.days, each, clean_ads=ADS) for each in reading]
    definitions = project.definitions(
        assets=[given("other", project.days), clean, *after, *more],
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


def known(installation: Installation) -> tuple[Flows, Dependencies]:
    sources = installation.definitions.resources["project"].sources
    feeds = AssetFeedGraph.of(installation.definitions.get_repository_def())
    flows = Flows.of(feeds, sources, installation.settings.first_day)
    return flows, flows.states(installation.store, installation.board)


def reopen(installation: Installation, dataset: str, slot: str = DAY) -> None:
    _, states = known(installation)
    reopened = states.dataset(dataset).slot(slot)
    states.reopen([reopened], reason="the line was wrong", now=installation.now)


def sentence(installation: Installation, flow: str) -> str:
    flows, states = known(installation)
    sources = installation.definitions.resources["project"].sources
    return explain_flow(installation.board, flows, states, sources, flow, DAY, now=installation.now).sentence


def test_d39_an_input_that_a_person_reopens_is_computed_from_and_published_again_once(desk, spark):
    del spark  # it is found and used
    now = fa.trigger(settle=timedelta(0))

    @dg.asset(
        partitions_def=fa.Project(desk.settings, ()).days,
        ins={"clean_ads": dg.AssetIn(input_manager_key="file_feed")},
        io_manager_key="file_feed",
        metadata={**fa.feed_metadata("again/v1.0", SCHEMA), **now},
    )
    def again(clean_ads: DataFrame) -> DataFrame:
        return clean_ads.selectExpr("ad_id AS id")

    gated = _installation(desk, now, more=[again])
    gated.land(ads(20))
    everything = gated.tick("starts")
    assert everything.asked == {DAY: ("again", "clean_ads")}
    assert [each.success for each in gated.execute(everything)] == [True]
    gated.tick("new_manifests")
    assert gated.tick("starts").asked == {}

    for dataset, slot, flow in ((ADS, DAY, "again"), ("raw/ads", f"{DAY}T15", "clean_ads")):
        feed = ADS if flow == "clean_ads" else "again/v1.0"
        before = gated.latest(feed)
        reopen(gated, dataset, slot)
        reopened = known(gated)[1].dataset(dataset).slot(DAY)
        assert sentence(gated, flow).startswith(f"may start: {reopened} was reopened, and has revision ")
        tick = gated.tick("starts")
        assert tick.asked == {DAY: (flow,)}
        assert gated.tick("starts").asked == {}
        assert [each.success for each in gated.execute(tick)] == [True]
        assert gated.latest(feed) != before
        gated.tick("new_manifests")
        assert sentence(gated, flow) == "up to date"
        for more in gated.tick("starts").requests:
            assert flow not in {key.to_user_string() for key in more.asset_selection or ()}


def test_raw_data_of_any_age_that_a_person_reopens_runs_again_what_was_made_of_it(desk):
    gated = _installation(desk, fa.trigger(settle=timedelta(0)))
    gated.raw_bytes(DAY, {"x": 1000})
    gated.tick("starts")
    gated.process(details={"revisions": {f"raw/ads - day {DAY}": 1}})
    publish_attempts(gated)
    gated.tick("new_manifests")
    gated.tick("starts")
    later = _installation(gated.at(datetime(2020, 3, 1, tzinfo=UTC)), fa.trigger(settle=timedelta(0)))
    assert later.tick("starts").asked == {}
    reopen(later, "raw/ads", f"{DAY}T15")
    assert later.tick("starts").asked == {DAY: ("clean_ads",)}
    assert later.tick("starts").asked == {}


def test_raw_data_that_a_person_reopens_runs_again_what_a_run_of_somebody_else_made_of_it(desk):
    gated = _installation(desk, fa.trigger(settle=timedelta(0)))
    gated.raw_bytes(DAY, {"x": 1000})
    gated.tick("starts")
    gated.process()
    publish_attempts(gated)
    gated.tick("new_manifests")
    assert gated.tick("starts").asked == {}
    later = _installation(gated.at(gated.now + timedelta(minutes=1)), fa.trigger(settle=timedelta(0)))
    reopen(later, "raw/ads", f"{DAY}T15")
    assert later.tick("starts").asked == {DAY: ("clean_ads",)}
    later.process()
    publish_attempts(later)
    later.tick("new_manifests")
    assert later.tick("starts").asked == {}


def test_raw_data_that_late_data_reopened_before_its_run_began_is_not_computed_twice(desk):
    gated = _installation(desk, fa.trigger(settle=timedelta(0)))
    gated.raw_bytes(DAY, {"x": 1000})
    gated.tick("starts")
    gated.process(details={"revisions": {f"raw/ads - day {DAY}": 1}})
    publish_attempts(gated)
    gated.tick("new_manifests")
    gated.raw_bytes(DAY, {"late": 500}, hour="15")
    assert gated.tick("starts").asked == {DAY: ("clean_ads",)}
    gated.raw_bytes(DAY, {"later": 500}, hour="16")
    gated.tick("starts")
    began = _installation(gated.at(gated.now + timedelta(minutes=1)), fa.trigger(settle=timedelta(0)))
    began.process(details={"revisions": {f"raw/ads - day {DAY}": 2}})
    publish_attempts(began)
    began.tick("new_manifests")
    assert began.tick("starts").asked == {}
    assert sentence(began, "clean_ads") == "up to date"


def test_a_run_that_the_facts_do_not_have_yet_is_not_started_once_more(desk):
    gated = _installation(desk, fa.trigger(settle=timedelta(0)))
    gated.raw_bytes(DAY, {"x": 1000})
    gated.tick("starts")
    gated.process(details={"revisions": {f"raw/ads - day {DAY}": 1}})
    publish_attempts(gated)
    gated.tick("new_manifests")
    gated.raw_bytes(DAY, {"late": 500}, hour="15")
    assert gated.tick("starts").asked == {DAY: ("clean_ads",)}
    gated.process(details={"revisions": {f"raw/ads - day {DAY}": 2}})
    publish_attempts(gated)
    assert gated.tick("starts").asked == {}  # before the sensor of manifests has seen the update
    assert sentence(gated, "clean_ads") == "up to date"
    gated.tick("new_manifests")
    assert gated.tick("starts").asked == {}


def test_raw_data_that_nobody_looks_at_is_refused(desk):
    gate = fa.trigger(also=[fa.needs("raw/clicks")])
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="clean_ads needs raw/clicks, which nobody looks at"):
        _installation(desk, gate)
