"""A project without sources and without Spark, whose one asset does what its configuration says."""

import logging
import os
import time
from datetime import date
from pathlib import Path

import dagster as dg

from feed_assets.project.assembly import Project
from feed_assets.resources.spark import SparkResource


class NoSpark(SparkResource):
    """Nothing to start."""

    @property
    def spark_session(self) -> None:
        """None."""


class Doing(dg.Config):
    """What to do: wait for a file, also in a callback, whose errors Python drops; change the process; then end so."""

    waits_for: str = ""
    in_a_callback: bool = False
    goes_to: str = ""
    greets: str = ""
    hides: bool = False
    ends: str = "well"


class Waiting:
    """Waits for a file when it is let go; says so with another file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __del__(self) -> None:
        self._file.with_suffix(".awaited").touch()
        wait_for(self._file)


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.05)


def refuse(*_: object) -> None:
    raise OSError("the database does not answer")


@dg.asset(required_resource_keys={"spark"})
def deed(context: dg.AssetExecutionContext, config: Doing) -> None:
    print("The greeting is", os.environ.get("GREETING"), flush=True)
    context.log.info(f"The place is {Path.cwd()}.")
    os.umask(mask := os.umask(0))
    root = logging.getLogger()
    context.log.info(f"New files lose {mask:o}; the level is {root.level}, for {root.handlers}.")
    if config.in_a_callback:
        Waiting(Path(config.waits_for))
    if config.waits_for:
        wait_for(Path(config.waits_for))
    if config.goes_to:
        os.chdir(config.goes_to)
    if config.greets:
        os.environ["GREETING"] = config.greets
    if config.hides:
        os.umask(0o777)
        root.setLevel(logging.CRITICAL)
        root.addHandler(logging.NullHandler())
    if config.ends == "badly":
        raise ValueError(config.ends)
    if config.ends == "unheard":
        context.instance.event_log_storage.store_event = refuse
    if config.ends == "at once":
        os._exit(9)


project = Project.of(sources=Path(os.environ["FEED_ASSETS_SOURCES"]), first_day=date(2019, 11, 1))
apart = dg.define_asset_job("apart", selection=[deed], executor_def=dg.multiprocess_executor)
defs = project.definitions(assets=[deed], jobs=[apart], resources={"spark": NoSpark(spark_config={})})
