"""Installations whose sources send ads only, clicks only, or nothing: what there is works, what is missing is named."""

from __future__ import annotations

import dagster as dg
import pytest
from click.testing import CliRunner

from feed_assets.cli.main import main
from feed_assets_tests.harness import (
    ADS,
    CLICKS,
    DAY,
    SHOP_ADS,
    SHOP_CLICKS,
    Installation,
    ads,
    click,
    messages,
    settings_below,
    write_sources,
)

INSTALLATIONS = {
    "both": ((SHOP_ADS, SHOP_CLICKS), {"ad_catalog", "clean_ads", "clean_clicks", "ad_effectiveness"}),
    "ads only": ((SHOP_ADS,), {"ad_catalog", "clean_ads"}),
    "clicks only": ((SHOP_CLICKS,), {"ad_catalog", "clean_clicks"}),
    "no source": ((), {"ad_catalog"}),
}
ANY = pytest.mark.parametrize("kinds", INSTALLATIONS)


@pytest.fixture
def installation(tmp_path, kinds, dagster_instance, monkeypatch):
    sources = write_sources(tmp_path / "sources", *INSTALLATIONS[kinds][0])
    for name, value in {
        "FEED_ASSETS_BASE": tmp_path / "base",
        "FEED_ASSETS_SOURCES": sources,
        "FEED_ASSETS_FIRST_DAY": "2019-11-20",
        "FEED_ASSETS_AS_OF": "2019-12-01T00:00:00",
        "DAGSTER_HOME": tmp_path,
    }.items():
        monkeypatch.setenv(name, str(value))
    return Installation(settings_below(tmp_path / "base", sources), dagster_instance)


@ANY
def test_an_asset_exists_where_a_source_feeds_it(installation, kinds):
    dg.Definitions.validate_loadable(installation.definitions)

    specs = {spec.key.to_user_string(): spec for spec in installation.definitions.resolve_all_asset_specs()}
    feeds = {name for name in specs if not name.startswith("raw/")}
    assert ("late_data_reports" in feeds) == (kinds != "no source")
    assert feeds - {"late_data_reports"} == INSTALLATIONS[kinds][1]
    jobs = {job.name for job in installation.definitions.jobs}
    assert jobs == (
        ({"process_day"} if kinds != "no source" else set()) | ({"effectiveness"} if kinds == "both" else set())
    )
    for name in feeds & {"clean_ads", "clean_clicks"}:
        assert ("there is no" in specs[name].description) == (kinds != "both")


@ANY
def test_the_sensors_look_at_what_there_is(installation, kinds):
    installation.land(ads(3))
    installation.land_clicks([click("k1")])

    asked = installation.tick("late_growth").asked.get(DAY, ())

    assert set(asked) == INSTALLATIONS[kinds][1] - {"ad_catalog"}
    assert installation.tick("new_manifests").asked == {}


@ANY
def test_explain_and_report_name_what_the_installation_cannot_have(installation, kinds):
    explained = CliRunner().invoke(main, ["explain", DAY])
    reported = CliRunner().invoke(main, ["report"])
    of_a_day = CliRunner().invoke(main, ["report", "--date", DAY])

    assert (explained.exit_code, reported.exit_code, of_a_day.exit_code) == (0, 3, 3), (explained, reported, of_a_day)
    for result in (explained, reported, of_a_day):
        assert ("no ad_effectiveness" in " ".join(result.output.split())) == (kinds != "both"), result.output
    assert "backfill" not in reported.output or kinds == "both"


@pytest.mark.parametrize("kinds", ["no source"])
def test_a_backfill_of_nothing_says_what_is_missing(installation):
    result = CliRunner().invoke(main, ["backfill", "--from", DAY, "--to", DAY])

    assert result.exit_code == 1
    assert "no source is described" in result.output


@pytest.mark.parametrize(("kinds", "location"), [("ads only", ADS), ("clicks only", CLICKS)])
def test_a_day_of_one_kind_is_published(installation, location, spark):
    installation.land(ads(3))
    installation.land_clicks([click("k1")])

    (request,) = installation.tick("late_growth").requests
    result = installation.run(*(key.to_user_string() for key in request.asset_selection))

    assert result.success, messages(result)
    assert len(installation.rows(location)) == {ADS: 3, CLICKS: 1}[location]
