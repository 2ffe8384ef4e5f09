"""What a worker keeps between runs: the definitions, as they were loaded, and Spark.

Here: loading them, and knowing when they are out of date. Not here: executing runs (`worker`).
"""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from feed_assets.cli.code_location import load_project
from feed_assets.engine.session import replace_session, warm_up
from feed_assets.resources import SparkResource

States = dict[str, tuple[int, int]]
"""Path -> time of the last change in nanoseconds, size."""


@dataclass(slots=True)
class Warm:
    """The definitions of a module, and their Spark."""

    sources: Path
    loaded: States
    stale: bool
    spark: SparkSession | None

    @classmethod
    def of(cls, module: str) -> Warm:
        """Load the module and start its Spark. Raises what the other commands raise."""
        started = time.time_ns()
        project, definitions = load_project(module)
        sources = project.settings.sources_directory
        loaded = dict(_states(sources))
        # A file that changed while it was loaded.
        stale = any(started < changed <= time.time_ns() for changed, _ in loaded.values())
        resource: Any = (definitions.resources or {}).get("spark")
        spark = resource.spark_session if isinstance(resource, SparkResource) else None
        if spark is not None:
            warm_up(spark)
        warm = cls(sources, loaded, stale, spark)
        warm.renew()
        return warm

    def outdated(self) -> bool:
        """Whether code or sources are not what was loaded. Modules loaded later count from their first look on."""
        now = dict(_states(self.sources))
        known = {path: self.loaded.setdefault(path, state) for path, state in now.items()}
        return self.stale or known != now or len(now) != len(self.loaded)

    def renew(self) -> bool:
        """Give the next run a session of its own. False if Spark is gone."""
        try:
            self.spark = replace_session(self.spark) if self.spark else None
        except Py4JError:
            return False
        return True


def _states(sources: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    installed = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    files = {file for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    for file in {each for each in files if not each.startswith(installed)} | set(map(str, sources.glob("*.yaml"))):
        try:
            status = os.stat(file)  # noqa: PTH116 - hundreds of files each second
        except OSError:
            continue
        yield file, (status.st_mtime_ns, status.st_size)
