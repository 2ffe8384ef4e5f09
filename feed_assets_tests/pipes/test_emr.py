"""Jobs that EMR is asked for, with messages in a real bucket.

The API of AWS is emulated (moto): it records a job and runs nothing. `Cluster` then does what EMR would do with what
was recorded: it starts the entry point by the real `spark-submit`, with the variables that the parameters set.
"""

import json
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread
from unittest import mock
from uuid import uuid4

import boto3
import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from moto.emr.models import ElasticMapReduceBackend
from moto.emrserverless.models import EMRServerlessBackend

from feed_assets.blackboard.listing import list_all
from feed_assets.engine.buckets import bucket_jars
from feed_assets.engine.java import ensure_java
from feed_assets.file_feed import history, publish_files
from feed_assets.pipes.launchers import EMR, ENTRY_POINT, EMRServerless
from feed_assets.pipes.messages import Messages
from feed_assets.resources.storage import BlackboardResource
from feed_assets_tests import ROOT
from feed_assets_tests.harness import AS_OF, DAY, Installation, failed_checks, messages, settings_below
from feed_assets_tests.pipes import project

pytestmark = pytest.mark.slow

AUDITED = "audited_counts/v1.0"
ROLE = "arn:aws:iam::123456789012:role/job"
SERVERLESS_VARIABLE, YARN_VARIABLE = "spark.emr-serverless.driverEnv.", "spark.yarn.appMasterEnv."


class Cluster:
    """Starts what moto has recorded, in a process with no variables but those of a cluster and of the parameters."""

    def __init__(self, variables, monkeypatch):
        self._variables = variables
        start_job_run, run_job_flow = EMRServerlessBackend.start_job_run, ElasticMapReduceBackend.run_job_flow

        def start(backend, **request):
            self.job_run = start_job_run(backend, **request)
            self.job_run.state = "SCHEDULED"
            submit = self.job_run.job_driver["sparkSubmit"]
            arguments = [
                *shlex.split(submit["sparkSubmitParameters"]),
                submit["entryPoint"],
                *submit["entryPointArguments"],
            ]
            self._run(self.job_run, arguments, SERVERLESS_VARIABLE, "SUCCESS", "FAILED")
            return self.job_run

        def flow(backend, **request):
            self.cluster = run_job_flow(backend, **request)
            self.cluster.state = "RUNNING"
            program, *arguments = self.cluster.steps[0].args
            assert program == "spark-submit"
            self._run(self.cluster, arguments, YARN_VARIABLE, "TERMINATED", "TERMINATED_WITH_ERRORS")
            return self.cluster

        monkeypatch.setattr(EMRServerlessBackend, "start_job_run", start)
        monkeypatch.setattr(ElasticMapReduceBackend, "run_job_flow", flow)

    def _run(self, job, arguments, variable, succeeded, failed):
        values = [value for option, value in pairwise(arguments) if option == "--conf"]
        for configuration in getattr(job, "configurations", ()):
            values += [f"{name}={value}" for name, value in configuration.get("Properties", {}).items()]
        given = dict(value.removeprefix(variable).split("=", 1) for value in values if value.startswith(variable))
        # One machine is no cluster: the driver runs where `spark-submit` does.
        options = [each for each in arguments if each not in {"--deploy-mode", "cluster"}]
        program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        jars = ",".join(map(str, bucket_jars()))

        def run():
            self.process = subprocess.run(
                [program, "--master", "local[2]", "--jars", jars, "--conf", "spark.ui.enabled=false", *options],
                env={**self._variables, **given},
                capture_output=True,
                text=True,
                check=False,
            )
            job.state = failed if self.process.returncode else succeeded

        Thread(target=run, daemon=True).start()


@pytest.fixture
def base(versitygw, s3_server, monkeypatch) -> Iterator[str]:
    """A base in a new bucket of a real server, with moto for EMR."""
    for name, value in versitygw.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_EMR", s3_server)
    monkeypatch.setenv("AWS_ENDPOINT_URL_EMR_SERVERLESS", s3_server)
    bucket = f"feeds-{uuid4().hex}"
    versitygw.client().create_bucket(Bucket=bucket)
    return f"s3://{bucket}/base"


@pytest.fixture
def cluster(versitygw, monkeypatch):
    ensure_java()
    names = ("PATH", "HOME", "JAVA_HOME", "FEED_ASSETS_JRE", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
    variables = {name: os.environ[name] for name in names if name in os.environ} | versitygw.environment
    return Cluster({**variables, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}, monkeypatch)


def installation(base, launcher, tmp_path, *users):
    """The project whose jobs this launcher starts, with a day of the feed of others."""
    settings = settings_below(base, tmp_path, state=f"sqlite:///{tmp_path}/state.db")
    definitions = project.with_jobs({"FEED_ASSETS_BASE": base, "FEED_ASSETS_AS_OF": AS_OF.isoformat()}, launcher)
    shop = Installation(settings, dg.DagsterInstance.ephemeral(), _definitions=definitions)
    pq.write_table(pa.table({"user_id": list(users)}), tmp_path / "shown.parquet")
    publish_files(shop.feed("shown/v1.0"), DAY, [tmp_path / "shown.parquet"], now=AS_OF, owner="others")
    return shop


def test_a_day_is_computed_and_published_by_a_job_of_emr_serverless(base, cluster, tmp_path):
    application = boto3.client("emr-serverless").create_application(
        name="feeds", releaseLabel="emr-7.10.0", type="SPARK"
    )["applicationId"]
    launcher = EMRServerless(
        application_id=application,
        execution_role_arn=ROLE,
        entry_point=str(ENTRY_POINT),
        spark_parameters="--conf spark.executor.cores=1",
        job_run={"executionTimeoutMinutes": 60},
        poll_seconds=0.2,
    )
    shop = installation(base, launcher, tmp_path, "u1", "u1", "u2")

    result = shop.run("audited_counts", config={"ops": {"audited_counts": {"config": {"least": 2}}}})

    assert result.success, (messages(result), cluster.process.stderr[-3000:])
    record = shop.record(AUDITED)
    assert (record.state, record.facts.rows.published, record.facts.run_id) == ("published", 1, result.run_id)
    assert shop.latest(AUDITED) == record.update
    key = dg.AssetKey("audited_counts")
    shown = shop.instance.get_latest_materialization_event(key).asset_materialization.metadata
    assert (shown["state"].value, shown["update"].value) == ("in force", record.update)
    assert shown["AWS EMR Serverless Job Run ID"].value == cluster.job_run.id
    assert shown["page"].value == "https://ads.test/"
    checks = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert all(check.passed for check in checks.values())
    assert checks["in_range_ads"].description
    assert any(
        "counts/v1.0 2019-11-24: update" in entry.user_message for entry in shop.instance.all_logs(result.run_id)
    )
    assert list(list_all(shop.board, ".pipes/")) == []
    request = cluster.job_run
    assert (request.application_id, request.execution_role_arn) == (application, ROLE)
    assert request.execution_timeout_minutes == 60
    assert request.tags["dagster/run-id"] == result.run_id


def test_a_day_that_a_job_of_emr_rejects_leaves_its_readers_what_they_had(base, cluster, tmp_path):
    launcher = EMR(
        entry_point=str(ENTRY_POINT),
        job_flow={"ReleaseLabel": "emr-7.10.0", "Instances": {"InstanceCount": 1}, "JobFlowRole": "job"},
        spark_parameters="--conf spark.executor.cores=1",
        poll_seconds=1,
    )
    shop = installation(base, launcher, tmp_path, "u1", "u1", "u1")
    before = shop.make(AUDITED, DAY, [])

    result = shop.run("audited_counts")

    assert not result.success
    assert failed_checks(result) == ["in_range_ads"], (messages(result), cluster.process.stderr[-3000:])
    assert shop.latest(AUDITED) == before
    assert [entry.state for entry in history(shop.feed(AUDITED), DAY, now=shop.now)] == ["rejected", "valid"]
    key = dg.AssetKey("audited_counts")
    shown = shop.instance.get_latest_materialization_event(key).asset_materialization.metadata
    assert (shown["update"].value, shown["rejected update"].value) == (before, shop.record(AUDITED).update)
    definition = shop.definitions.resolve_asset_graph().get(key).partitions_def
    status = shop.instance.get_status_by_partition(key, [DAY], definition)
    assert status[DAY].name == "FAILED"
    assert cluster.process.returncode == 0


def test_the_archive_is_the_python_of_driver_and_executors():
    arguments, python = ["--module", "shop.definitions"], "PYSPARK_PYTHON=./environment/bin/python"
    common = {"entry_point": "s3://code/entry.py", "archive": "s3://code/python.tar.gz"}

    serverless = EMRServerless(application_id="1", execution_role_arn=ROLE, **common).parameters("n", arguments)
    flow = EMR(job_flow={}, **common).parameters("n", arguments)

    submit = serverless["jobDriver"]["sparkSubmit"]
    assert (submit["entryPoint"], submit["entryPointArguments"]) == ("s3://code/entry.py", arguments)
    assert "--conf spark.archives=s3://code/python.tar.gz#environment" in submit["sparkSubmitParameters"]
    assert f"--conf {SERVERLESS_VARIABLE}{python}" in submit["sparkSubmitParameters"]
    (step,) = flow["Steps"]
    assert step["HadoopJarStep"]["Args"][-3:] == ["s3://code/entry.py", *arguments]
    assert f"{YARN_VARIABLE}{python}" in step["HadoopJarStep"]["Args"]
    assert flow["Instances"] == {"KeepJobFlowAliveWhenNoSteps": False}


def test_an_option_in_quotes_is_one_argument_of_emr():
    options = "--conf 'spark.driver.extraJavaOptions=-Da=1 -Db=2' --name shop"

    flow = EMR(entry_point="s3://code/entry.py", job_flow={}, spark_parameters=options).parameters("n", [])

    arguments = flow["Steps"][0]["HadoopJarStep"]["Args"]
    start = arguments.index("spark.driver.extraJavaOptions=-Da=1 -Db=2")
    assert arguments[start - 1 : start + 3] == ["--conf", arguments[start], "--name", "shop"]


def test_the_end_of_a_job_leaves_the_messages_of_another_step_of_the_run(base):
    resource = BlackboardResource(base=base)
    ended = mock.Mock(received_closed_message=True)
    with Messages(resource, "run").read_messages(ended) as of_other:
        with Messages(resource, "run").read_messages(ended) as own:
            for params in (of_other, own):
                resource.blackboard.create(f"{params['key_prefix'].removeprefix('base/')}/1.json", b"{}")
        left = [entry.key for entry in list_all(resource.blackboard, ".pipes/")]
        assert left == [f"{of_other['key_prefix'].removeprefix('base/')}/1.json"]
    assert list(list_all(resource.blackboard, ".pipes/")) == []


def test_the_example_loads_and_its_policies_name_what_they_allow(monkeypatch):
    for name in ("EMR_APPLICATION_ID", "EMR_JOB_ROLE_ARN"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("FEED_ASSETS_BASE", "s3://example/base")
    monkeypatch.setenv("EMR_CODE", "s3://example/code")
    monkeypatch.setenv("FEED_ASSETS_AS_OF", AS_OF.isoformat())
    monkeypatch.syspath_prepend(ROOT / "examples" / "shop")

    loaded = runpy.run_path(str(ROOT / "deploy" / "emr" / "definitions.py"))

    dg.Definitions.validate_loadable(loaded["defs"])
    assert "launcher" in loaded["defs"].resources
    for path in (ROOT / "deploy" / "emr").glob("*.json"):
        statements = json.loads(path.read_text())["Statement"]
        assert all("*" not in statement["Action"] and statement["Resource"] != "*" for statement in statements), path
