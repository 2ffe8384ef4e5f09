"""A wrong description stops its own source: the project loads, the others go on, and people are told."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from feed_assets.ads.definitions import build_definitions
from feed_assets.ads.schemas import KINDS
from feed_assets.assets.external import raw_key
from feed_assets.project.assembly import PROJECT
from feed_assets.sources.loading import load_sources, usable_sources
from feed_assets.sources.spec import SpecError
from feed_assets_tests.harness import SHOP_ADS, SHOP_CLICKS, settings_below, write_sources

WRONG = SHOP_CLICKS.replace("identity:", "identities:")
BROKEN = SHOP_CLICKS.replace("identity: [", "identity: [[")


@pytest.fixture(params=[WRONG, BROKEN], ids=["a wrong field", "no YAML"])
def sources(request, tmp_path):
    return write_sources(tmp_path / "sources", SHOP_ADS, request.param)


@pytest.fixture
def base(tmp_path, monkeypatch):
    write_sources(tmp_path / "sources", SHOP_ADS, WRONG)
    monkeypatch.setenv("FEED_ASSETS_BASE", str(tmp_path / "base"))
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(tmp_path / "sources"))
    (tmp_path / "base").mkdir()


def test_of_a_wrong_file_the_source_has_its_place_and_fails_with_the_lines_of_its_problems(sources):
    ads, clicks = usable_sources(sources, KINDS)

    assert (ads.key, ads.problems, clicks.key) == ("ads/shop_ads", "", "clicks/shop_clicks")
    ads.require_usable()
    with pytest.raises(SpecError, match=r"1\.yaml:\d+: ") as stopped:
        clicks.require_usable()
    with pytest.raises(SpecError) as refused:
        load_sources(sources, KINDS)
    assert str(refused.value) == str(stopped.value) == clicks.problems


def test_a_file_that_does_not_even_tell_its_source_stops_the_project(tmp_path):
    directory = write_sources(tmp_path / "sources", SHOP_ADS, "- nothing\n")
    with pytest.raises(SpecError, match=r"1\.yaml:1: "):
        usable_sources(directory, KINDS)


def test_a_source_that_two_files_describe_is_stopped_as_nobody_knows_which_is_meant(tmp_path):
    (source,) = usable_sources(write_sources(tmp_path / "sources", SHOP_ADS, SHOP_ADS), KINDS)
    assert "0.yaml describes ads/shop_ads too; give one of them another name" in source.problems


def test_the_project_loads_shows_the_problem_and_asks_for_no_day_that_would_lack_the_source(sources, tmp_path):
    made = build_definitions(settings_below(tmp_path / "base", sources))
    dg.Definitions.validate_loadable(made)
    clicks = made.resources[PROJECT].sources[1]

    graph = made.resolve_asset_graph()
    assert "Stopped: the description of shop_clicks cannot be used." in graph.get(raw_key(clicks)).description
    watched = made.resolve_sensor_def("late_growth").asset_selection.resolve(graph)
    assert dg.AssetKey(["clean_ads"]) in watched
    assert dg.AssetKey(["clean_clicks"]) not in watched


def test_a_command_that_names_the_source_fails_and_others_leave_it_out(run, base, caplog):
    listed = run("sources")
    named = run("land", "shop_clicks", __file__, code=None)

    assert "ads/shop_ads" in listed.stdout
    assert "clicks/shop_clicks" not in listed.stdout
    assert caplog.text.count("clicks/shop_clicks is stopped, and days of clicks wait: ") == 2
    assert "1.yaml:" in caplog.text
    assert (named.exit_code, named.stderr) == (1, "Error: clicks/shop_clicks is stopped: correct its description.\n")


def test_doctor_says_what_is_wrong(run, base):
    result = run("doctor", "--json", code=1)

    found = {each["check"]: each for each in json.loads(result.stdout)}
    assert found["project"]["state"] == "ok"
    assert "1 valid source" in found["project"]["found"]
    assert found["clicks/shop_clicks"]["state"] == "fails"
    assert "1.yaml:" in found["clicks/shop_clicks"]["found"]
    assert "no day of clicks is computed" in found["clicks/shop_clicks"]["advice"]
