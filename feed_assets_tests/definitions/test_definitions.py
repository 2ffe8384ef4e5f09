"""The definitions as Dagster loads them: what there is, what depends on what, and that they load."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from feed_assets.ads.definitions import build_definitions
from feed_assets.ads.partners import partners_directory
from feed_assets.ads.schemas import KINDS
from feed_assets.assets.external import raw_key
from feed_assets.feed_events.declarations import declared_feed
from feed_assets.project.assembly import Project
from feed_assets.resources.settings import Settings
from feed_assets.sources.loading import load_sources
from feed_assets_tests import ROOT
from feed_assets_tests.harness import settings_below
from feed_assets_tests.waiting import HANGS

LISTING = """\
ad_catalog <-
ad_effectiveness[daily] <- ad_catalog, clean_ads, clean_clicks
clean_ads[daily] <- raw/ads/open_bandit_ads
clean_clicks[daily] <- raw/clicks/open_bandit_clicks
late_data_reports[daily] <-
raw/ads/open_bandit_ads[hourly] <-
raw/clicks/open_bandit_clicks[hourly] <-
check ad_effectiveness:clicks_within_impressions blocking
check ad_effectiveness:identity_unique blocking
check ad_effectiveness:not_empty blocking
check ad_effectiveness:required_not_null blocking
check ad_effectiveness:row_count_as_usual
check ad_effectiveness:schema_as_declared blocking
check ad_effectiveness:totals_reconcile blocking
check clean_ads:identity_unique blocking
check clean_ads:not_empty blocking
check clean_ads:quarantined_share blocking
check clean_ads:required_not_null blocking
check clean_ads:row_count_as_usual
check clean_ads:rows_accounted blocking
check clean_ads:schema_as_declared blocking
check clean_ads:times_inside_day blocking
check clean_clicks:identity_unique blocking
check clean_clicks:not_empty blocking
check clean_clicks:quarantined_share blocking
check clean_clicks:required_not_null blocking
check clean_clicks:row_count_as_usual
check clean_clicks:rows_accounted blocking
check clean_clicks:schema_as_declared blocking
check clean_clicks:times_inside_day blocking
check raw/ads/open_bandit_ads:columns_as_described
check raw/clicks/open_bandit_clicks:columns_as_described
job effectiveness
job process_day
schedule process_yesterday STOPPED
sensor arrivals RUNNING
sensor landings RUNNING
sensor late_growth RUNNING
sensor late_reports RUNNING
sensor new_manifests RUNNING
sensor outside_lookback RUNNING
sensor remembered_ticks RUNNING
sensor run_history RUNNING
"""


@pytest.fixture
def definitions(tmp_path):
    return build_definitions(settings_below(tmp_path, partners_directory()))


def listing(definitions: dg.Definitions) -> str:
    graph = definitions.resolve_asset_graph()
    grain = {dg.DailyPartitionsDefinition: "[daily]", dg.HourlyPartitionsDefinition: "[hourly]", type(None): ""}
    lines = []
    for key in sorted(graph.get_all_asset_keys()):
        node = graph.get(key)
        parents = ", ".join(parent.to_user_string() for parent in sorted(node.parent_keys))
        lines.append(f"{key.to_user_string()}{grain[type(node.partitions_def)]} <- {parents}".rstrip())
    for key in sorted(graph.asset_check_keys, key=lambda key: (key.asset_key, key.name)):
        blocking = " blocking" if graph.get(key).blocking else ""
        lines.append(f"check {key.asset_key.to_user_string()}:{key.name}{blocking}")
    lines += sorted(f"job {each.name}" for each in definitions.jobs or ())
    for kind, automations in (("schedule", definitions.schedules), ("sensor", definitions.sensors)):
        lines += sorted(f"{kind} {each.name} {each.default_status.value}" for each in automations or ())
    return "\n".join(lines) + "\n"


def test_these_are_the_assets_checks_and_sensors(definitions):
    assert listing(definitions) == LISTING


def test_each_check_has_the_partitions_of_its_asset(definitions):
    graph = definitions.resolve_asset_graph()

    assert graph.asset_check_keys
    for key in graph.asset_check_keys:
        # The checks of raw assets are about the source, and no hour of it.
        of_source = key.asset_key.path[0] == "raw"
        wanted = None if of_source else graph.get(key.asset_key).partitions_def
        assert graph.get(key).partitions_def == wanted, key


def test_every_asset_says_what_it_is_and_whose(definitions):
    for spec in definitions.resolve_all_asset_specs():
        assert spec.description, spec.key
        assert spec.owners, spec.key
        assert spec.kinds, spec.key
        assert spec.group_name, spec.key


def test_raw_data_is_described_by_the_sentence_of_its_source(definitions):
    described = {spec.key.path[-1]: spec.description for spec in definitions.resolve_all_asset_specs()}

    ads = described["open_bandit_ads"]
    assert ads.startswith("Open Bandit Dataset, ads shown by the bts policy. The records that open_bandit_ads sent ")


def test_every_feed_says_where_it_is_and_what_its_columns_mean(definitions):
    feeds = {
        spec.key.to_user_string(): declaration
        for spec in definitions.resolve_all_asset_specs()
        if (declaration := declared_feed(spec.metadata))
    }

    assert {name: declaration.location for name, declaration in feeds.items()} == {
        "ad_catalog": "ad-catalog/v1.0",
        "ad_effectiveness": "ad-effectiveness/v1.0",
        "clean_ads": "clean-ads/v1.0",
        "clean_clicks": "clean-clicks/v1.0",
        "late_data_reports": "late-data-reports/v1.0",
    }
    for declaration in feeds.values():
        assert all(column.description for column in declaration.columns)
        assert set(declaration.identity) <= {column.name for column in declaration.columns}


def test_an_asset_that_the_io_manager_writes_is_audited(definitions):
    for spec in definitions.resolve_all_asset_specs():
        if spec.key in definitions.resolve_asset_graph().materializable_asset_keys:
            assert declared_feed(spec.metadata).audited


def test_the_days_end_with_the_last_full_one_before_the_fixed_time(definitions):
    graph = definitions.resolve_asset_graph()

    assert graph.get(dg.AssetKey("clean_ads")).partitions_def.get_last_partition_key() == "2019-11-30"
    raw = graph.get(dg.AssetKey(["raw", "ads", "open_bandit_ads"])).partitions_def
    assert raw.get_last_partition_key() == "2019-11-30-23:00"


def test_every_asset_has_its_tags_and_the_code_it_comes_from(definitions):
    for spec in definitions.resolve_all_asset_specs():
        assert (spec.tags["domain"], spec.tags["storage"]) == ("ads", "local")
        references = spec.metadata.get("dagster/code_references")
        if spec.key.to_user_string() not in {"ad_catalog", "late_data_reports"}:
            assert [Path(each.file_path).is_file() for each in references.code_references] == [True], spec.key


def test_assets_are_expected_to_be_fresh_unless_the_time_is_fixed(tmp_path, definitions):
    live = build_definitions(settings_below(tmp_path, partners_directory(), as_of=None))

    assert {spec.freshness_policy for spec in definitions.resolve_all_asset_specs()} == {None}
    for spec in live.resolve_all_asset_specs():
        assert (spec.freshness_policy is not None) == (spec.partitions_def is not None), spec.key


def test_the_schedule_asks_for_yesterday_when_its_buffer_has_passed(tmp_path):
    definitions = build_definitions(settings_below(tmp_path, partners_directory(), as_of=None))
    schedule = definitions.resolve_schedule_def("process_yesterday")
    sources = load_sources(partners_directory(), KINDS)
    hour = max(source.buffer_hours for source in sources)

    when = datetime(2026, 3, 5, hour, 15, tzinfo=UTC)
    with dg.instance_for_test() as instance:
        repository = definitions.get_repository_def()
        with dg.build_schedule_context(instance, when, repository_def=repository) as context:
            requests = schedule.evaluate_tick(context).run_requests

    assert schedule.cron_schedule == f"15 {hour} * * *"
    assert [request.partition_key for request in requests] == ["2026-03-04"]


def test_alerts_are_sent_where_somebody_takes_them(tmp_path, monkeypatch):
    secret = "https://hooks.example.com/services/T0/SECRET"
    monkeypatch.setenv("FEED_ASSETS_ALERT_WEBHOOK", secret)

    definitions = build_definitions(settings_below(tmp_path, partners_directory(), alerts=True))

    assert "sensor alerts RUNNING" in listing(definitions)
    # Dagster shows the variable's name, not what it holds.
    assert "SECRET" not in repr(Settings.from_environment())
    assert "SECRET" not in repr(definitions.resources["notifier"])


def test_a_third_partner_is_one_more_description(tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    for path in partners_directory().glob("*.yaml"):
        (sources / path.name).write_text(path.read_text())
    third = (sources / "open_bandit_ads.yaml").read_text().replace("name: open_bandit_ads", "name: third")
    (sources / "third.yaml").write_text(third)

    graph = build_definitions(settings_below(tmp_path, sources)).resolve_asset_graph()

    assert dg.AssetKey(["raw", "ads", "third"]) in graph.get(dg.AssetKey("clean_ads")).parent_keys


@pytest.mark.parametrize(
    "other",
    [{"hour_offset": 6}, {"minute_offset": 30}, {"timezone": "Europe/Berlin"}, {"fmt": "%Y%m%d"}],
    ids=lambda other: next(iter(other)),
)
def test_a_daily_asset_of_raw_data_whose_days_are_not_those_of_raw_data_is_refused(tmp_path, other):
    settings = settings_below(tmp_path, partners_directory())
    source = next(iter(load_sources(partners_directory(), KINDS)))

    @dg.asset(
        deps=[raw_key(source)], partitions_def=dg.DailyPartitionsDefinition(datetime(2019, 11, 24, tzinfo=UTC), **other)
    )
    def shifted() -> None: ...

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="shifted reads raw data, and late data is compared by"):
        Project(settings, (source,)).definitions(assets=[shifted])


def test_resources_that_are_replaced_are_those_the_io_manager_uses(tmp_path):
    settings = settings_below(tmp_path, partners_directory())
    other = build_definitions(settings_below(tmp_path / "other", partners_directory())).resources["blackboard"]

    definitions = build_definitions(settings, blackboard=other)

    assert definitions.resources["blackboard"] is other
    file_feed = definitions.resources["file_feed"]
    given: dict[str, object] = {name: definitions.resources[name] for name in file_feed.required_resource_keys}
    given["attempts"] = given["live_steps"] = None  # those of a run
    assert file_feed(dg.build_init_resource_context(resources=given)).blackboard == other


def test_dagster_finds_the_definitions_valid(tmp_path):
    environment = {**os.environ, "DAGSTER_HOME": str(tmp_path), "FEED_ASSETS_BASE": str(tmp_path / "base")}

    done = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "base").exists()


def test_definitions_of_a_directory_load_without_the_libraries_of_aws(tmp_path):
    """They would take half of the time."""
    environment = {**os.environ, "FEED_ASSETS_BASE": str(tmp_path)}
    code = (
        "import sys; from feed_assets.definitions import defs; "
        "defs.resources['blackboard'].blackboard.create('a', b''); "
        "sys.exit(repr({'boto3', 'dagster_aws'} & sys.modules.keys()))"
    )

    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)

    assert done.stderr.strip() == "set()"
    assert (tmp_path / "a").exists()


def test_a_state_database_with_a_password_stays_in_the_environment(tmp_path):
    settings = settings_below(tmp_path, partners_directory(), state="postgresql://me:secret@host/db")

    resource = build_definitions(settings).resources["state"]

    assert "secret" not in repr(resource)
    assert resource.url == dg.EnvVar("FEED_ASSETS_STATE")
