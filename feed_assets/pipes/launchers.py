"""Ways to start a Spark job for a step, as Dagster resources: EMR Serverless, EMR, `spark-submit`.

Here: the parameters of each. Not here: what the job does (`entry`), and what becomes of its messages (`launched`).
"""

from __future__ import annotations

import shlex
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import boto3
import dagster as dg
import pyspark
from dagster_aws.pipes import PipesEMRClient, PipesEMRServerlessClient
from pydantic import Field

from feed_assets.engine.java import ensure_java

ENTRY_POINT = Path(__file__).with_name("entry.py")
PYTHON = "./environment/bin/python"


@dataclass(frozen=True, slots=True)
class Job:
    """A job: the step that it is for, the arguments of `entry.py`, Pipes' extras, and the reader of its messages."""

    context: dg.AssetExecutionContext
    arguments: Sequence[str]
    extras: dict[str, Any]
    messages: dg.PipesMessageReader

    @property
    def title(self) -> str:
        """The step and the run, for people."""
        return f"{self.context.assets_def.op.name} {self.context.run.run_id}"


class Launcher(dg.ConfigurableResource[None]):
    """Starts a Spark job that runs `entry.py`, and waits for its end.

    `spark_parameters` are options of `spark-submit`, separated by spaces.
    """

    needs_bucket: ClassVar[bool] = True

    spark_parameters: str = ""

    @abstractmethod
    def launch(self, job: Job) -> Mapping[str, Any]:
        """Run the job. Returns metadata that names it. Raises an error if it failed or was not started."""


class SparkSubmit(Launcher):
    """A job whose driver is a process of this machine (client mode), with this Python, on Spark's `master`.

    `program` is the `spark-submit` of a Spark; by default that of the installed pyspark.
    """

    needs_bucket: ClassVar[bool] = False

    master: str
    program: str = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")

    def launch(self, job: Job) -> Mapping[str, Any]:
        """See Launcher."""
        ensure_java()
        options = ["--master", self.master, *shlex.split(self.spark_parameters)]
        command = [self.program, *options, str(ENTRY_POINT), *job.arguments]
        python = {"PYSPARK_DRIVER_PYTHON": sys.executable}
        client = dg.PipesSubprocessClient(env=python, message_reader=job.messages)
        return client.run(context=job.context, command=command, extras=job.extras).metadata


class EMRServerless(Launcher):
    """A job run of an application of EMR Serverless, by `PipesEMRServerlessClient`.

    `entry_point` is the URI of `entry.py`. `archive` is the URI of the packed Python environment; leave it empty if the
    application's image has one. `job_run` has more parameters of StartJobRun, such as `executionTimeoutMinutes`.
    """

    application_id: str
    execution_role_arn: str
    entry_point: str
    archive: str = ""
    job_run: dict[str, Any] = Field(default_factory=dict)
    poll_seconds: float = 5

    def launch(self, job: Job) -> Mapping[str, Any]:
        """See Launcher."""
        parameters = self.parameters(job.title, job.arguments)
        client = boto3.client("emr-serverless")
        pipes = PipesEMRServerlessClient(client, message_reader=job.messages, poll_interval=self.poll_seconds)
        return pipes.run(context=job.context, start_job_run_params=parameters, extras=job.extras).metadata

    def parameters(self, name: str, arguments: Sequence[str]) -> Any:
        """The parameters of StartJobRun, without those of Pipes."""
        driver = "spark.emr-serverless.driverEnv"
        variables = (f"{driver}.PYSPARK_DRIVER_PYTHON", f"{driver}.PYSPARK_PYTHON", "spark.executorEnv.PYSPARK_PYTHON")
        options = _options(self.spark_parameters, self.archive, "spark.archives", variables)
        submit = {
            "entryPoint": self.entry_point,
            "entryPointArguments": list(arguments),
            "sparkSubmitParameters": " ".join(options),
        }
        own = {"applicationId": self.application_id, "executionRoleArn": self.execution_role_arn}
        return {"name": name, **self.job_run, **own, "jobDriver": {"sparkSubmit": submit}}


class EMR(Launcher):
    """A cluster of EMR for each job, by `PipesEMRClient`; the driver runs on the cluster.

    `entry_point` and `archive` are as for EMRServerless. `job_flow` has the parameters of RunJobFlow: ReleaseLabel,
    Instances, JobFlowRole, ServiceRole, and more. Give Spark's properties as `spark_parameters`: dagster-aws loses its
    own variables if `Configurations` has classifications that it uses.
    """

    entry_point: str
    archive: str = ""
    job_flow: dict[str, Any]
    poll_seconds: int = 30

    def launch(self, job: Job) -> Mapping[str, Any]:
        """See Launcher."""
        client: Any = boto3.client("emr")
        waiter_of = client.get_waiter

        def waiter(name: str) -> Any:
            """A waiter without a limit; boto3's gives up after half an hour."""
            found = waiter_of(name)
            found.config.delay, found.config.max_attempts = self.poll_seconds, sys.maxsize
            return found

        client.get_waiter = waiter
        parameters = self.parameters(job.title, job.arguments)
        pipes = PipesEMRClient(job.messages, client)
        return pipes.run(context=job.context, run_job_flow_params=parameters, extras=job.extras).metadata

    def parameters(self, name: str, arguments: Sequence[str]) -> Any:
        """The parameters of RunJobFlow, without those of Pipes."""
        variables = ("spark.yarn.appMasterEnv.PYSPARK_PYTHON", "spark.executorEnv.PYSPARK_PYTHON")
        options = _options(self.spark_parameters, self.archive, "spark.yarn.dist.archives", variables)
        # YARN would start a failed job once more, and its messages would overwrite the first ones.
        options = ["--deploy-mode cluster --conf spark.yarn.maxAppAttempts=1", *options]
        submit = ["spark-submit", *shlex.split(" ".join(options)), self.entry_point, *arguments]
        step = {
            "Name": name,
            "ActionOnFailure": "TERMINATE_CLUSTER",
            "HadoopJarStep": {"Jar": "command-runner.jar", "Args": submit},
        }
        instances = {**self.job_flow.get("Instances", {}), "KeepJobFlowAliveWhenNoSteps": False}
        spark = {"Applications": [{"Name": "Spark"}]}
        return {"Name": name, **spark, **self.job_flow, "Instances": instances, "Steps": [step]}


def _options(given: str, archive: str, property_: str, variables: Sequence[str]) -> list[str]:
    """The options given, and those that let driver and executors run the Python of the archive."""
    properties = {property_: f"{archive}#environment", **dict.fromkeys(variables, PYTHON)} if archive else {}
    return [*([given] if given else []), *(f"--conf {name}={value}" for name, value in properties.items())]
