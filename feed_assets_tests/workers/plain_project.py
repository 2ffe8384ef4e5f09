"""A project without sources and without Spark, whose one asset does what its configuration says."""

import os
import time
from datetime import date
from pathlib import Path

import dagster as dg

from feed_assets.project import Project
from feed_assets.resources import SparkResource


class NoSpark(SparkResource):
    """Nothing to start."""

    @property
    def spark_session(self) -> None:
        """None."""


class Doing(dg.Config):
    """What to do: wait for a file, then end so."""

    waits_for: str = ""
    ends: str = "well"


@dg.asset(required_resource_keys={"spark"})
def deed(context: dg.AssetExecutionContext, config: Doing) -> None:
    print("The greeting is", os.environ.get("GREETING"), flush=True)
    while config.waits_for and not Path(config.waits_for).exists():
        time.sleep(0.05)
    if config.ends == "badly":
        raise ValueError(config.ends)
    if config.ends == "at once":
        os._exit(9)


project = Project.of(sources=Path(os.environ["FEED_ASSETS_SOURCES"]), first_day=date(2019, 11, 1))
defs = project.definitions(assets=[deed], resources={"spark": NoSpark(spark_config={})})
