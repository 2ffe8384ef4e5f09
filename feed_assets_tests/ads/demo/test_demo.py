"""The demo, as someone runs it who has just cloned the project, on a machine without Java."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import dagster as dg
import pytest
from click.testing import CliRunner

from feed_assets.ads.commands import demo as demo_command
from feed_assets.ads.demo.story import prepare_base
from feed_assets.cli.main import main
from feed_assets.file_feed import history, open_feed, records
from feed_assets.resources.settings import Settings, SettingsError
from feed_assets_tests import ROOT
from feed_assets_tests.open_bandit import TOTALS
from feed_assets_tests.waiting import HANGS

pytestmark = pytest.mark.slow

AS_OF = datetime(2019, 12, 1, 6, tzinfo=UTC)
FIRST_DAY, SECOND_DAY, LATE, BROKEN = "2019-11-24", "2019-11-25", "2019-11-27", "2019-11-29"
SENSORS = {
    *("arrivals", "landings", "late_growth", "late_reports", "new_manifests", "outside_lookback"),
    *("remembered_ticks", "run_history"),
}
OF_FORMER = "a cursor of the former demo"


@dataclass(frozen=True, slots=True)
class Former:
    """A demo that has been interrupted: its messages, and the runs, sensors and assets that Dagster knew then."""

    errors: str
    runs: set[str]
    sensors: Collection[str]
    assets: Collection[dg.AssetKey]


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo that has been told: what it said, and where it left its data and its Dagster state."""

    output: str
    errors: str
    base: Path
    environment: dict[str, str]

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A `feed-assets` command on what the demo left."""
        return subprocess.run(
            [sys.executable, "-m", "feed_assets.cli", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )

    def states(self, location: str, day: str) -> list[str]:
        """The states of a day's updates, newest first."""
        return [status.state for status in history(open_feed(str(self.base / location)), day, now=AS_OF)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    shutil.copy(ROOT / "dagster.yaml", home)
    return home


@pytest.fixture(scope="module")
def environment(home):
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "JAVA_HOME" and not name.startswith("FEED_ASSETS_") and not name.startswith("DAGSTER_")
    }
    return {**kept, "DAGSTER_HOME": str(home), "FEED_ASSETS_BASE": str(home / "data")}


@pytest.fixture(scope="module")
def former(home, environment):
    """What Ctrl-C leaves of a demo in the middle of its backfill: data, and what Dagster knows of its assets."""
    running = subprocess.Popen(
        [sys.executable, "-m", "feed_assets.cli", "demo"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    updates = home / "data/clean-ads/v1.0" / SECOND_DAY  # so the run of the first day has ended
    while not list(updates.glob("*/_SUCCESS")):
        assert running.poll() is None, running.communicate()
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=HANGS)
    assert running.returncode == 130, errors
    with dg.DagsterInstance.from_config(str(home)) as instance:
        states = {state.name: state for state in instance.all_instigator_state()}
        # As if it had come to its end: its sensors have seen everything.
        for state in states.values():
            instance.update_instigator_state(state.with_data(state.instigator_data._replace(cursor=OF_FORMER)))
        return Former(errors, {run.run_id for run in instance.get_runs()}, states.keys(), instance.get_asset_keys())


@pytest.fixture(scope="module")
def demo(former, home, environment, path_without_java):
    environment = {**environment, "PATH": path_without_java}
    done = subprocess.run(
        ["make", "--no-print-directory", "demo"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Demo(done.stdout, done.stderr, home / "data", environment)


def test_it_ends_with_the_known_totals_and_says_what_to_type_next(demo):
    assert "30,000 impressions, 157 clicks" in demo.output
    assert "make dev" in demo.output
    assert (demo.base / "effectiveness.png").read_bytes().startswith(b"\x89PNG")


def test_the_late_batch_is_polled_and_the_mail_about_it_is_shown_beside_its_plot(demo):
    assert "2019-12-01/late.csv -> ads/open_bandit_ads: 448 of 448 records" in demo.output
    assert f"Subject: Late data for {LATE} processed again: ads/open_bandit_ads +10.6 %" in demo.output
    assert "impressions    4,217    4,665        +10.6 %" in demo.output
    assert (demo.base / "late-data.png").read_bytes().startswith(b"\x89PNG")


def test_the_broken_batch_is_pushed_to_a_receiver(demo):
    assert "POST /v1/events/open_bandit_ads: 202, 400 accepted, 0 rejected." in demo.output
    assert "ads/open_bandit_ads: 400 records landed." in demo.output


def test_it_shows_no_stack_trace_and_no_escape_codes_through_a_pipe(demo):
    assert "Traceback" not in demo.output + demo.errors
    assert "\x1b[" not in demo.output


def test_the_late_batch_runs_its_day_again_and_no_other(demo):
    for day in TOTALS:
        again = day == LATE
        assert demo.states("clean-ads/v1.0", day).count("valid") == (2 if again else 1)
        assert demo.states("clean-clicks/v1.0", day) == ["valid"]
        assert demo.states("ad-effectiveness/v1.0", day) == (["valid"] * 2 if again else ["valid"])


def test_the_broken_batch_is_rejected_with_its_reason_and_the_update_before_serves(demo):
    assert demo.states("clean-ads/v1.0", BROKEN) == ["rejected", "valid"]
    answer = demo.command("feed", "latest", str(demo.base / "clean-ads/v1.0"), "--partition", BROKEN, "--json")
    rejected, first = records(open_feed(str(demo.base / "clean-ads/v1.0")), BROKEN)

    assert json.loads(answer.stdout)["update"] == first.update
    assert "quarantined_share" in rejected.history[-1].reason


def test_every_update_accounts_for_every_record(demo):
    for location in ("clean-ads/v1.0", "clean-clicks/v1.0"):
        for day in TOTALS:
            for record in records(open_feed(str(demo.base / location)), day):
                rows = record.facts.rows
                assert rows.read == rows.published + rows.quarantined + rows.duplicates


def test_the_report_has_the_totals_of_every_day(demo):
    rows = json.loads(demo.command("report", "--json").stdout)

    assert {row["day"]: (row["impressions"], row["clicks"]) for row in rows} == TOTALS


def test_the_report_of_a_day_is_written_as_a_page(demo, tmp_path):
    done = demo.command("report", "--date", LATE, "--output", str(tmp_path / "report.html"), "--json")

    assert sum(row["impressions"] for row in json.loads(done.stdout)) <= TOTALS[LATE][0]
    assert "<svg" in (tmp_path / "report.html").read_text()


def test_explain_names_the_rejected_update_the_growth_and_the_inputs(demo):
    done = demo.command("explain", BROKEN)

    assert done.returncode == 0, done.stderr
    for part in ("rejected", "quarantined_share", "+9.49 %", "clean-ads/v1.0 2019-11-30", "is not tried again"):
        assert part in done.stdout


def test_explain_needs_nothing_of_dagsters_database(demo):
    nowhere = {**demo.environment, "DAGSTER_HOME": str(demo.base.parent / "none")}
    before = json.loads(demo.command("explain", LATE, "--json").stdout)
    after = json.loads(Demo("", "", demo.base, nowhere).command("explain", LATE, "--json").stdout)

    assert after == before
    assert any("grown" in update["made_because"] for story in after for update in story["updates"])


def test_the_instance_shows_the_sensors_decisions_and_their_runs(demo):
    with dg.DagsterInstance.from_config(demo.environment["DAGSTER_HOME"]) as instance:
        states = {state.name: state for state in instance.all_instigator_state()}
        growth = states["late_growth"]
        ticks = instance.get_ticks(growth.instigator_origin_id, growth.selector_id)
        asked = [run for run in instance.get_runs() if run.tags.get("dagster/sensor_name") == "late_growth"]

        assert {run.tags["dagster/partition"]: run.status.value for run in asked} == {
            LATE: "SUCCESS",
            BROKEN: "FAILURE",
        }
        # There may be another turn without a run, until the report on the first run is kept.
        assert [len(tick.run_ids) for tick in reversed(ticks) if tick.run_ids] == [1, 1]
        assert states.keys() == SENSORS


def test_the_instance_knows_of_the_catalog_what_effectiveness_was_made_from(demo):
    with dg.DagsterInstance.from_config(demo.environment["DAGSTER_HOME"]) as instance:
        made = instance.get_latest_materialization_event(dg.AssetKey("ad_effectiveness"))
        (catalog,) = history(open_feed(str(demo.base / "ad-catalog/v1.0")), None, now=AS_OF)

        assert made.asset_materialization.tags["dagster/input_data_version/ad_catalog"] == catalog.name


def test_told_again_it_starts_afresh(former, demo):
    assert dg.AssetKey("clean_ads") in former.assets
    assert set(former.sensors) == SENSORS

    assert "30,000 impressions, 157 clicks" in demo.output
    assert demo.states("clean-ads/v1.0", FIRST_DAY) == ["valid"]
    assert demo.states("clean-ads/v1.0", LATE) == ["valid", "valid"]
    with dg.DagsterInstance.from_config(demo.environment["DAGSTER_HOME"]) as instance:
        states = instance.all_instigator_state()
        filters = dg.AssetRecordsFilter(asset_key=dg.AssetKey("clean_ads"), asset_partitions=[FIRST_DAY])
        made = instance.fetch_materializations(filters, limit=10).records
    assert {state.name for state in states} == set(former.sensors)
    assert [state.name for state in states if state.instigator_data.cursor == OF_FORMER] == []
    assert [each.run_id for each in made if each.run_id in former.runs] == []
    assert made


def test_ctrl_c_ends_it_without_a_stack_trace(former):
    assert "Interrupted" in former.errors
    assert "Traceback" not in former.errors


def test_it_never_touches_data_that_is_not_its_own(tmp_path):
    (tmp_path / "precious").write_text("mine")

    with pytest.raises(SettingsError, match="FEED_ASSETS_BASE"):
        prepare_base(str(tmp_path))

    assert (tmp_path / "precious").read_text() == "mine"


def test_settings_that_it_does_not_use_may_be_wrong(tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("mine")
    monkeypatch.setattr(demo_command, "start_loading", lambda *_: None)
    wrong = {f"FEED_ASSETS_{name}": "wrong" for name in ("AS_OF", "STATE", "WAREHOUSE", "CATALOG", "SMTP")}

    with mock.patch.dict(os.environ, {**wrong, "FEED_ASSETS_BASE": str(tmp_path)}):
        result = CliRunner().invoke(main, ["demo"])

    assert f"{tmp_path} holds other data" in result.stderr


def test_a_base_says_what_time_it_is_there(tmp_path):
    prepare_base(str(tmp_path / "base"))

    settings = Settings.from_environment({"FEED_ASSETS_BASE": str(tmp_path / "base")})

    assert settings.clock.now() == AS_OF
