"""The state that a worker keeps between runs: the definitions, as they were loaded, and Spark.

Here: loading them, and knowing when they are out of date. Not here: executing runs (`worker`).
"""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from feed_assets.blackboard.port import BlackboardError
from feed_assets.engine.jvm import end_with_java, executors, is_stopped
from feed_assets.engine.session import replace_session, warm_up
from feed_assets.operations.env_file import ENV_FILE, set_variables_of_env_file
from feed_assets.operations.java_compiler import compile_for_latest_days
from feed_assets.project.assembly import Project
from feed_assets.project.loading import load_project
from feed_assets.resources.spark import SparkResource
from feed_assets.sources.source_errors import SourceError

DYNAMIC = "spark.dynamicAllocation.enabled"
"""With this, Spark itself gives back the cores of an idle application."""
LIMIT = "spark.cores.max"
"""With this, an application leaves cores to others."""

_log = logging.getLogger("feed_assets.warm_runs")

States = dict[str, tuple[int, int]]
"""Path -> time of the last change in nanoseconds, size."""


@dataclass(slots=True)
class Warm:
    """The code of a module and the descriptions of its sources, as they were loaded."""

    sources: Path
    descriptions: States
    """The files of `_files_of`."""
    modules: States
    fit: bool
    """Whether the process may execute more than one run."""
    settled: bool = True
    """Whether no file has changed while it was loaded: otherwise the code may be the old code."""
    computing: str = ""
    """The last application that had executors of a standalone cluster."""

    @classmethod
    def of(cls, module: str, started: int, *, awaited: Callable[[], bool]) -> Warm:
        """Load the module and start its Spark. If it cannot be loaded, the next run reports the reason.

        `started` is when the process began to load files, in ns. `awaited` tells whether a run waits already.
        """
        sources, loaded = Path(), False
        try:
            _set_variables(module)
            project, definitions = load_project(module)
            sources = project.settings.sources_directory
            resource: Any = (definitions.resources or {}).get("spark")
            if isinstance(resource, SparkResource):
                _choose_compiler(project)
                if (spark := resource.spark_session) is not None:
                    end_with_java(spark)
                    if not awaited():
                        warm_up(spark)
            loaded = True
        except Exception:  # noqa: BLE001 - whatever it is, Dagster reports it with the next run
            _log.warning("The definitions of %s, or their Spark, are not ready for runs", module, exc_info=True)
        descriptions, modules = _states(_files_of(sources)), _states(_modules())
        meanwhile = any(started < changed <= time.time_ns() for changed, _ in (descriptions | modules).values())
        warm = cls(sources, descriptions, modules, fit=loaded and not meanwhile, settled=not meanwhile)
        return warm if warm.renew() else replace(warm, fit=False)

    def outdated(self) -> bool:
        """Whether a file has changed since it was loaded, or Spark has lost its master.

        A module that was loaded after the last call is compared from this call on.
        """
        spark = SparkSession.getActiveSession()
        if spark is not None and (is_stopped(spark) or self._is_forgotten(spark)):
            return True
        now = _states(_modules())
        self.modules = now | self.modules
        return self.modules != now or self.descriptions != _states(_files_of(self.sources))

    def give_back(self) -> None:
        """End the application of a Spark on a cluster; the next run starts another."""
        spark = SparkSession.getActiveSession()
        if spark is not None and not (spark.sparkContext.master or "").startswith("local"):
            spark.stop()

    def make_way(self) -> None:
        """End Spark's application if it holds all cores of a standalone cluster; without a limit, each does."""
        spark = SparkSession.getActiveSession()
        if spark is not None and _keeps_executors(spark) and spark.conf.get(LIMIT, None) is None:
            spark.stop()

    def _is_forgotten(self, spark: SparkSession) -> bool:
        """Whether the application has lost its executors for good: a restarted master does not know it."""
        if not _keeps_executors(spark):
            return False
        application = str(spark.sparkContext.applicationId)
        if executors(spark):
            self.computing = application
            return False
        return self.computing == application

    def renew(self) -> bool:
        """Give the next run a Spark session of its own. False if there can be no next run in this process."""
        try:
            if (spark := SparkSession.getActiveSession()) is not None:
                replace_session(spark)
        except (Py4JError, OSError):
            return False
        return self.fit


def _keeps_executors(spark: SparkSession) -> bool:
    """Whether Spark runs on a standalone cluster, and keeps its executors while it is idle."""
    return (spark.sparkContext.master or "").startswith("spark://") and spark.conf.get(DYNAMIC, "false") != "true"


def _choose_compiler(project: Project) -> None:
    with suppress(BlackboardError, SourceError):  # the next run reports it
        compile_for_latest_days(project.settings.blackboard.blackboard, project.sources)


def _set_variables(module: str) -> None:
    """Set the variables of `.env`, as `dagster dev` does, and those that `dagster.yaml` names for this module."""
    set_variables_of_env_file()
    with dg.DagsterInstance.get() as instance:
        instance.inject_env_vars(module)


def _modules() -> set[str]:
    """The files of all modules that are loaded; for those of installed packages their directory, with its entries."""
    paths = sysconfig.get_paths()
    packages = {paths["purelib"], paths["platlib"]}  # each installation makes or removes entries there
    installed = (paths["stdlib"], paths["platstdlib"], *packages)
    files = {file for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    return packages | {file for file in files if not file.startswith(installed)}


def _files_of(sources: Path) -> set[str]:
    """The descriptions of the sources, their tables, and the variables of the environment."""
    return {*map(str, sources.glob("*.yaml")), *map(str, sources.glob("*.csv")), ENV_FILE}


def _states(files: set[str]) -> States:
    found = {}
    for file in files:
        with suppress(OSError):
            status = os.stat(file)  # noqa: PTH116 - hundreds of files each second
            found[file] = (status.st_mtime_ns, status.st_size)
    return found
