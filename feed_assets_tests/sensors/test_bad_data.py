"""Bad data and flows with a trigger: what a mark makes bad, what waits, and what computing again repairs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from feed_assets.dependencies.gate.decision import Verdict, decide
from feed_assets.dependencies.gate.trigger import OnRerun, Trigger
from feed_assets.dependencies.quality.marks import Accepts, Author, QualityState
from feed_assets.dependencies.service import Dependencies
from feed_assets.feed_events.triggers import REVISIONS_TAG
from feed_assets.file_feed.withdrawal import invalidate
from feed_assets.operations.gate_answers import explain_flow
from feed_assets.sensors import new_manifests
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets_tests.harness import ADS, ALL, CLICKS, DAY, EFFECTIVENESS, Installation, Tick, ads
from feed_assets_tests.plain_flows import publish_attempts

BAD, BACKFILLED, PASSED, UNCHECKED = QualityState
ANN = Author.person("ann")


@pytest.fixture
def gated(desk: Installation) -> Installation:
    """An installation whose assets have triggers, with a day that ran."""
    installation = replace(desk, settings=replace(desk.settings, gate=True), _definitions=None)
    installation.raw_bytes(DAY, {"x": 1000}, hour="15")
    installation.raw_bytes(DAY, {"x": 1000}, "clicks/shop_clicks")
    tick = installation.tick("starts")
    assert tick.asked == {DAY: tuple(sorted(ALL))}
    for kind in ("ads", "clicks"):
        run(installation, tick, kind)
    installation.relate()
    publish_attempts(installation)
    installation.tick("new_manifests")
    return installation


def run(installation: Installation, tick: Tick, kind: str = "ads") -> None:
    """What a run that a tick asked for publishes, as far as its record goes."""
    revisions = json.loads(tick.requests[0].tags[REVISIONS_TAG])
    installation.process(kind=kind, details={"revisions": revisions})


def flows_of(installation: Installation) -> Flows:
    sources = installation.definitions.resources["project"].sources
    feeds = AssetFeedGraph.of(installation.definitions.get_repository_def())
    return Flows.of(feeds, sources, installation.settings.first_day)


def states_of(installation: Installation) -> Dependencies:
    return flows_of(installation).states(installation.store, installation.board)


def explained(installation: Installation, flow: str, day: str = DAY) -> Verdict:
    sources = installation.definitions.resources["project"].sources
    flows, states = flows_of(installation), states_of(installation)
    return explain_flow(installation.board, flows, states, sources, flow, day, now=installation.now)


def mark(
    installation: Installation, dataset: str = "raw/ads", slot: str = f"{DAY}T15", member: str = "shop_ads"
) -> None:
    states = states_of(installation)
    states.quality.mark(
        states.dataset(dataset).slot(slot, member), reason="bots", author=ANN, now=installation.now, mark_id="m1"
    )


def found(installation: Installation, *feeds: str) -> list[QualityState]:
    states = states_of(installation)
    return [states.quality.answer(states.dataset(each).slot(DAY)).state for each in feeds]


def test_d34_a_marked_hour_makes_the_day_and_all_that_was_computed_from_it_bad_and_nothing_else(gated):
    assert found(gated, "raw/ads", ADS, CLICKS, EFFECTIVENESS) == [UNCHECKED, PASSED, PASSED, PASSED]
    mark(gated)
    assert found(gated, "raw/ads", ADS, CLICKS, EFFECTIVENESS) == [BAD, BAD, PASSED, BAD]
    states = states_of(gated)
    (path,) = states.quality.why_bad(states.dataset(EFFECTIVENESS).slot(DAY))
    assert str(path) == (
        f"bots (person ann, mark m1), on raw/ads shop_ads hour {DAY}T15:00Z, revision 1, by way of "
        f"{EFFECTIVENESS} - day {DAY}, revision 1 < {ADS} - day {DAY}, revision 1 < raw/ads - day {DAY}, revision 1"
    )
    assert gated.latest(ADS) is not None  # a mark takes no update out of force


def test_d5_and_d35_a_flow_whose_input_is_bad_is_held_back_and_says_why(gated):
    mark(gated)
    gated.process(kind="clicks")
    gated.tick("new_manifests")

    tick = gated.tick("starts")
    assert tick.asked == {}
    reason = f"held by quality: {ADS} - day {DAY} is bad: bots (person ann, mark m1)"
    assert reason in tick.skipped
    assert explained(gated, "ad_effectiveness").sentence == reason
    assert "held by quality: raw/ads" in explained(gated, "clean_ads").sentence


def test_d36_a_flow_that_takes_any_quality_goes_on(gated):
    mark(gated)
    gated.process(kind="clicks")
    gated.tick("new_manifests")
    case = explained(gated, "ad_effectiveness").case
    for accepted, starts in ((Accepts.PASSED, False), (Accepts.NOT_BAD, False), (Accepts.ANY, True)):
        trigger = Trigger(quality=accepted, settle=timedelta(0))
        verdict = decide(case, trigger, now=gated.now, lookback=timedelta(days=30))
        assert (verdict.held is None) == starts, accepted


def test_d35_a_flow_joins_the_run_of_one_input_only_if_the_others_are_good(gated):
    mark(gated, "clean-clicks/v1.0", DAY, "-")
    gated.raw_bytes(DAY, {"late": 50}, hour="15")
    assert gated.tick("starts").asked == {DAY: ("clean_ads",)}


def test_the_ticks_after_marks_on_a_month_with_days_to_come_and_on_gaps_go_on(gated):
    gated.tick("starts")
    mark(gated, ADS, "2019-12", "-")
    states = states_of(gated)
    for day in ("2019-11-22", DAY):
        states.quality.checked(states.dataset(ADS).slot(day), "rows", passed=True, now=gated.now)
    assert gated.tick("starts").asked == {}
    mark_of_month = states.quality.marks()[0]
    states.quality.unmark(mark_of_month.id, reason="no bots", author=ANN, now=gated.now)
    assert gated.tick("starts").asked == {}


def test_a_mark_that_is_taken_back_lets_what_it_held_start(gated):
    mark(gated)
    gated.process(kind="clicks")
    gated.tick("new_manifests")
    assert gated.tick("starts").asked == {}

    states_of(gated).quality.unmark("m1", reason="no bots", author=ANN, now=gated.now)
    assert gated.tick("starts").asked == {DAY: ("ad_effectiveness",)}


def test_d38_and_d39_a_late_file_reopens_the_hour_and_what_runs_again_from_it_is_not_bad(gated):
    mark(gated)
    gated.raw_bytes(DAY, {"late": 50}, hour="15")
    tick = gated.tick("starts")
    assert "clean_ads" in tick.asked[DAY]
    assert found(gated, "raw/ads", ADS, EFFECTIVENESS) == [BACKFILLED, BAD, BAD]
    (path,) = [path for each in explained(gated, "ad_effectiveness").case.inputs for path in each.marks]
    assert str(path).endswith(f"raw/ads shop_ads hour {DAY}T15:00Z has a newer revision: compute again from that")

    run(gated, tick)
    gated.tick("new_manifests")
    assert found(gated, "raw/ads", ADS, EFFECTIVENESS) == [BACKFILLED, PASSED, BAD]
    gated.relate()
    gated.tick("new_manifests")
    assert found(gated, "raw/ads", ADS, EFFECTIVENESS) == [BACKFILLED, PASSED, PASSED]
    states = states_of(gated)
    assert [(each.id, each.on.revision) for each in states.quality.marks()] == [("m1", 1)]
    assert states.answer(states.dataset(EFFECTIVENESS).slot(DAY)).revision == 2


def test_a_result_that_is_not_computed_again_stays_bad(gated):
    mark(gated)
    gated.raw_bytes(DAY, {"late": 50}, hour="15")
    for _ in range(2):
        gated.tick("starts")
        gated.tick("new_manifests")
    assert found(gated, ADS, EFFECTIVENESS) == [BAD, BAD]


def test_an_update_of_before_that_is_in_force_again_is_bad_again(gated):
    mark(gated)
    gated.raw_bytes(DAY, {"late": 50}, hour="15")
    run(gated, gated.tick("starts"))
    gated.tick("new_manifests")
    assert found(gated, ADS) == [PASSED]

    invalidate(gated.feed(ADS), DAY, gated.latest(ADS), now=gated.now, reason="a bug", author="ann")
    gated.tick("new_manifests")
    assert found(gated, ADS) == [BAD]


def test_d34_runs_that_nobody_asked_the_gate_for_are_as_bad_as_what_they_read(gated):
    mark(gated)
    gated.process()
    gated.relate()
    gated.tick("new_manifests")
    assert found(gated, ADS, EFFECTIVENESS) == [BAD, BAD]
    assert states_of(gated).answer(states_of(gated).dataset(ADS).slot(DAY)).revision == 2


def test_d39_a_flow_that_ignores_new_revisions_keeps_its_result_which_stays_bad(gated):
    mark(gated)
    gated.raw_bytes(DAY, {"late": 50}, hour="15")
    run(gated, gated.tick("starts"))
    publish_attempts(gated)
    gated.tick("new_manifests")
    case = explained(gated, "ad_effectiveness").case
    ignoring = Trigger(on_rerun=OnRerun.IGNORE)
    verdict = decide(case, ignoring, now=gated.now, lookback=timedelta(days=30))
    assert "stays, as the trigger ignores changes of inputs" in verdict.sentence
    assert found(gated, EFFECTIVENESS) == [BAD]


def test_an_input_that_was_published_while_the_tick_ran_is_known_by_what_read_it(gated, monkeypatch):
    mark(gated)
    read = new_manifests.log_page

    def late(feed, *position, **now):  # the log of the input ends where the tick read it
        page = read(feed, *position, **now)
        return replace(page, keys=(), new=()) if feed.location == ADS else page

    monkeypatch.setattr(new_manifests, "log_page", late)
    monkeypatch.setattr(new_manifests, "continue_scan", lambda *_, **__: iter(()))
    gated.process()
    gated.relate()
    gated.tick("new_manifests")
    assert found(gated, ADS, EFFECTIVENESS) == [BAD, BAD]
    states = states_of(gated)
    assert [states.answer(states.dataset(each).slot(DAY)).revision for each in (ADS, EFFECTIVENESS)] == [2, 2]


def test_a_tick_without_news_reads_no_record(gated, monkeypatch):
    read = []
    monkeypatch.setattr("feed_assets.sensors.new_manifests.read_record", lambda *place: read.append(place))
    gated.tick("new_manifests")
    assert read == []
    gated.process(kind="clicks")
    gated.tick("new_manifests")
    assert [each[1] for each in read] == [DAY]


def test_real_runs_of_the_gate_know_what_they_were_computed_from(shop):
    installation = replace(shop, settings=replace(shop.settings, gate=True), _definitions=None)
    installation.land(ads(20))
    installation.execute(installation.tick("starts"))
    installation.tick("new_manifests")
    mark(installation, slot=f"{DAY}T12")
    assert found(installation, "raw/ads", ADS) == [BAD, BAD]

    installation.land(ads(20, start=20), name="late")
    installation.execute(installation.tick("starts"))
    installation.tick("new_manifests")
    assert found(installation, "raw/ads", ADS) == [BACKFILLED, PASSED]
