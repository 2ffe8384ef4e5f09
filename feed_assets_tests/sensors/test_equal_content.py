"""An input that ran again with an equal result: no new revision, and nothing below runs again."""

from __future__ import annotations

from dataclasses import replace

from feed_assets.dependencies.quality.marks import QualityState
from feed_assets_tests.harness import ADS, DAY, EFFECTIVENESS, Installation, ads
from feed_assets_tests.sensors.test_bad_data import explained, gated, mark, states_of

__all__ = ["gated"]  # a fixture


def clean(installation: Installation, digest: str) -> None:
    """Clean ads again, with rows of this digest, and let the sensors know."""
    installation.process(details={"digest": digest})
    installation.tick("new_manifests")


def revision(installation: Installation, feed: str) -> int:
    states = states_of(installation)
    return states.answer(states.dataset(feed).slot(DAY)).revision


def related(installation: Installation) -> None:
    installation.relate()
    installation.tick("new_manifests")


def test_an_equal_rerun_raises_no_revision_and_reruns_nothing_downstream(gated):
    clean(gated, "d1")
    related(gated)
    before = revision(gated, ADS)
    clean(gated, "d1")
    states = states_of(gated)
    answer = states.answer(states.dataset(ADS).slot(DAY))
    assert (answer.complete, answer.revision, revision(gated, EFFECTIVENESS)) == (True, before, 2)
    assert gated.tick("starts").asked == {}
    assert explained(gated, "ad_effectiveness").sentence == "up to date"


def test_a_rerun_with_other_rows_runs_what_reads_it_again(gated):
    clean(gated, "d1")
    related(gated)
    before = revision(gated, ADS)
    clean(gated, "d2")
    assert revision(gated, ADS) == before + 1
    assert gated.tick("starts").asked == {DAY: ("ad_effectiveness",)}


def test_a_rerun_of_unknown_content_runs_what_reads_it_again(gated):
    clean(gated, "d1")
    related(gated)
    gated.process()
    gated.tick("new_manifests")
    assert gated.tick("starts").asked == {DAY: ("ad_effectiveness",)}


def test_an_equal_rerun_of_bad_data_stays_bad(gated):
    clean(gated, "d1")
    mark(gated, ADS, DAY, "-")
    clean(gated, "d1")
    states = states_of(gated)
    assert states.quality.answer(states.dataset(ADS).slot(DAY)).state is QualityState.BAD


def test_an_input_that_was_missing_runs_what_could_not_read_it(gated):
    clean(gated, "d1")
    related(gated)
    clean(gated, "d1")
    gated.process("2019-11-25", "clicks")
    gated.tick("new_manifests")
    assert "ad_effectiveness" in gated.tick("starts").asked.get(DAY, ())


def test_d11_real_runs_of_flows_record_the_digest_of_their_rows_and_others_none(shop):
    shop.land(ads(20))
    shop.run("clean_ads")
    assert "digest" not in shop.record(ADS).facts.details
    flows = replace(shop, settings=replace(shop.settings, gate=True), _definitions=None)
    flows.run("clean_ads")
    first = flows.record(ADS).facts.details["digest"]
    flows.run("clean_ads")
    assert flows.record(ADS).facts.details["digest"] == first
    flows.land(ads(1, start=20), name="late")
    flows.run("clean_ads")
    assert flows.record(ADS).facts.details["digest"] != first
