"""Steps that run as jobs: Dagster shows what it shows without jobs.

The job runs in this process, on its warm Spark; what it is told, and what it reports, goes through Pipes.
"""

import os
import time
from pathlib import Path
from unittest import mock

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dagster_pipes import PipesContext

from feed_assets.engine import buckets
from feed_assets.engine.buckets import JarsError, check_classes
from feed_assets.file_feed import publish_files
from feed_assets.pipes import entry
from feed_assets.pipes import jobs as running
from feed_assets.pipes.launched import launched
from feed_assets.pipes.launchers import Launcher, SparkSubmit
from feed_assets.pipes.messages import Messages
from feed_assets.resources.storage import BlackboardResource
from feed_assets_tests.harness import AS_OF, DAY, NEXT_DAY, Installation, between, messages, settings_below
from feed_assets_tests.pipes import project

DAYS = [DAY, NEXT_DAY]
COUNTS, AUDITED = "counts/v1.0", "audited_counts/v1.0"


class InThisProcess(Launcher):
    """Runs `entry.main` here, in a Pipes session of its own."""

    needs_bucket = False

    def launch(self, job):
        injector = dg.PipesEnvContextInjector()
        with dg.open_pipes_session(job.context, injector, job.messages, job.extras) as session:
            with mock.patch.dict(os.environ, session.get_bootstrap_env_vars()):
                try:
                    code = entry.main(job.arguments)
                finally:
                    PipesContext._instance = None
            if code:
                raise RuntimeError(code)
        return {"job": "here"}


class Dies(InThisProcess):
    """A job that is killed: it has opened its messages, and says no more."""

    def launch(self, job):
        with dg.open_pipes_session(job.context, dg.PipesEnvContextInjector(), job.messages, job.extras) as session:
            with mock.patch.dict(os.environ, session.get_bootstrap_env_vars()):
                PipesContext._instance = None
                entry.open_dagster_pipes()
                PipesContext._instance = None
            raise RuntimeError(job.arguments)


class Heard:
    """Stands for Dagster's handler of messages."""

    def __init__(self):
        self.messages, self.exceptions = [], []

    def handle_message(self, message):
        self.messages.append(message)

    def report_pipes_framework_exception(self, origin, exception):
        self.exceptions.append((origin, exception))


def show(shop, day, *users):
    """Publish a day of the feed of others."""
    path = shop.base / "shown.parquet"
    shop.base.mkdir(exist_ok=True)
    pq.write_table(pa.table({"user_id": list(users)}), path)
    publish_files(shop.feed("shown/v1.0"), day, [path], now=AS_OF, owner="others")


def installation(base, definitions):
    environment = {
        "FEED_ASSETS_BASE": str(base),
        "FEED_ASSETS_AS_OF": AS_OF.isoformat(),
        "FEED_ASSETS_SPARK_MASTER": "local[2]",
    }
    instance = dg.DagsterInstance.ephemeral()
    return Installation(settings_below(base, base), instance, _definitions=definitions(environment))


@pytest.fixture
def here(spark, tmp_path):
    """The project without jobs."""
    return installation(tmp_path / "here", project.definitions)


@pytest.fixture
def jobs(spark, tmp_path):
    """The same with jobs."""
    return installation(tmp_path / "jobs", lambda environment: project.with_jobs(environment, InThisProcess()))


def shown_by_dagster(shop, result, asset):
    """What Dagster shows of the days: the last materialization, the checks, and whether it counts as failed."""
    key = dg.AssetKey(asset)
    definition = shop.definitions.resolve_asset_graph().get(key).partitions_def
    statuses = shop.instance.get_status_by_partition(key, DAYS, definition)
    pages = []
    for day in DAYS:
        where = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[day])
        events = shop.instance.fetch_materializations(where, limit=1).records
        event = events[0].asset_materialization if events else None
        metadata = {name: value.value for name, value in event.metadata.items()} if event else {}
        tags = {name: value for name, value in event.tags.items() if "pointer" not in name} if event else {}
        # Without jobs, a feed that is not audited has one event for each day; with jobs, a second one describes it.
        description = event.description if event and asset == "audited_counts" else ""
        pages.append((statuses[day], description, {**metadata, "job": "", "path": "", "show files": ""}, tags))
    checks = [
        (each.check_name, each.partition, each.passed, each.severity, each.description, each.metadata)
        for each in result.get_asset_check_evaluations()
    ]
    return (
        pages,
        sorted(checks, key=str),
        [(entry.state, entry.checks) for entry in (shop.record(f"{asset}/v1.0", day) for day in DAYS)],
    )


@pytest.mark.parametrize("asset", ["counts", "audited_counts"])
def test_a_run_over_days_of_which_one_is_rejected_shows_what_it_shows_without_jobs(here, jobs, asset):
    pictures = []
    for shop in (here, jobs):
        show(shop, DAY, "u1", "u1", "u2")
        show(shop, NEXT_DAY, "u1", "u1", "u1")
        result = shop.run(asset, day=None, tags=between(*DAYS))
        assert result.success == (asset == "counts"), messages(result)
        pictures.append(shown_by_dagster(shop, result, asset))

    assert pictures[0] == pictures[1]


def test_a_check_alone_runs_as_a_job_too_and_takes_an_update_out_of_force(jobs):
    show(jobs, DAY, "u1", "u2")
    first = jobs.run("audited_counts", config={"ops": {"audited_counts": {"config": {"least": 1}}}})
    assert first.success, messages(first)
    assert jobs.latest(AUDITED) is not None
    jobs.rewrite(AUDITED, lambda table: pa.table({"user_id": table["user_id"], "ads": [9, 9]}))

    result = jobs.check("audited_counts", DAY, "in_range_ads")

    assert [(each.check_name, each.passed) for each in result.get_asset_check_evaluations()] == [
        ("in_range_ads", False)
    ]
    assert jobs.latest(AUDITED) is None


def test_a_job_without_results_says_why_and_names_the_command_that_helps(jobs):
    result = jobs.run("counts")

    assert "shown/v1.0 has no valid update of 2019-11-24" in messages(result)[0]


def test_a_job_that_dies_is_started_once_more_and_a_run_that_is_executed_again_goes_on(tmp_path, spark, monkeypatch):
    monkeypatch.setattr(running, "PAUSE_SECONDS", 0)
    shop = installation(tmp_path / "jobs", lambda environment: project.with_jobs(environment, Dies()))
    show(shop, DAY, "u1")

    died = shop.run("audited_counts")

    assert not died.success
    assert len([event for event in died.all_events if event.is_step_up_for_retry]) == 1
    healed = installation(tmp_path / "jobs", lambda environment: project.with_jobs(environment, InThisProcess()))
    healed.instance = shop.instance
    again = healed.reexecute(died.run_id)
    assert again.success, messages(again)
    record = healed.record(AUDITED)
    assert (record.state, record.facts.run_id, record.facts.root_run_id) == ("published", again.run_id, died.run_id)


def test_messages_that_a_job_writes_in_parts_or_right_before_its_end_are_all_heard(tmp_path):
    for _ in range(50):
        handler = Heard()
        messages = Messages(BlackboardResource(base=str(tmp_path)), "run")
        with messages.read_messages(handler) as parameters, Path(parameters["path"]).open("a") as file:
            for number in range(20):
                first, second = f'{{"number": {number}, "te', f'xt": "{"x" * 5_000}"}}\n'
                print(first, end="", file=file, flush=True)
                time.sleep(0.002 if number == 0 else 0)
                print(second, end="", file=file, flush=True)
        assert [each["number"] for each in handler.messages] == list(range(20))
        assert handler.exceptions == []


def test_a_spark_that_cannot_write_to_a_bucket_is_told_which_jars_it_lacks(spark, monkeypatch):
    check_classes(spark)
    monkeypatch.setattr(buckets, "_FILE_SYSTEM", "org.apache.hadoop.fs.s3a.Missing")
    check_classes(spark)  # Java is not asked again
    check_classes.cache_clear()

    with pytest.raises(JarsError, match=r"without the class org.apache.hadoop.fs.s3a.Missing.* --packages"):
        check_classes(spark)


def test_the_asset_graph_is_the_same_with_jobs_and_without(tmp_path):
    with_jobs, without = (
        installation(tmp_path, of).definitions.resolve_asset_graph()
        for of in (
            lambda environment: project.with_jobs(environment, SparkSubmit(master="local[2]")),
            project.definitions,
        )
    )

    assert with_jobs.asset_check_keys == without.asset_check_keys
    for key in without.get_all_asset_keys():
        with_, node = with_jobs.get(key), without.get(key)
        for attribute in (
            "metadata",
            "code_version",
            "owners",
            "kinds",
            "tags",
            "partition_mappings",
            "backfill_policy",
        ):
            assert getattr(with_, attribute) == getattr(node, attribute), (key, attribute)
    inputs = with_jobs.get(dg.AssetKey("counts")).assets_def.op.ins
    assert inputs["shown"].metadata == {"feed/context": True}


def test_only_feeds_of_the_project_are_launched(tmp_path):
    plain = project.definitions({"FEED_ASSETS_BASE": str(tmp_path)})
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"shown: no feed .* takes counts, audited_counts"):
        launched(plain, SparkSubmit(master="local[2]"), module="m", assets=["shown"])
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="definitions of a project"):
        launched(dg.Definitions(), SparkSubmit(master="local[2]"), module="m")
