"""One Spark session for each process, started on first use.

Here: the session as a Dagster resource. Not here: its settings and its start (`engine.session`).
"""

from __future__ import annotations

from typing import Any

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from feed_assets.engine.java import ensure_java
from feed_assets.engine.session import check_master, interrupts_put_off, spark_config


class SparkResource(LazyPySparkResource):
    """The lazy session of dagster-pyspark. Also works on a machine without Java."""

    @classmethod
    def on(cls, master: str, **more: str) -> SparkResource:
        """A resource for this master; `more` are further Spark properties."""
        return cls(spark_config={**spark_config(master), **more})

    @property
    def spark_session(self) -> Any:
        """The session of this process, started on first use."""
        if SparkSession.getActiveSession() is not None:
            return super().spark_session
        ensure_java()
        check_master(self.spark_config.get("spark.master", "local"))
        with interrupts_put_off():
            return super().spark_session
