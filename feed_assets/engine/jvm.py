"""The Java side of a Spark session. No other module uses a name of pyspark that begins with an underscore."""

from __future__ import annotations

import os
from threading import Thread
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def java_session(spark: SparkSession) -> Any:
    """Java's SparkSession: it has the parser and the metrics of finished writes, which pyspark does not offer."""
    return spark._jsparkSession  # noqa: SLF001 - pyspark has no public way


def java_machine(spark: SparkSession) -> Any:
    """The Java virtual machine, for its classes."""
    return spark._jvm  # noqa: SLF001 - as above


def estimated_bytes(frame: DataFrame) -> int:
    """Spark's estimate of a frame's size, before it is optimized: the sizes of its files, however it filters them.

    Joins multiply the sizes of their sides. A frame of unknown size, such as one made from Python's rows, is huge.
    """
    return int(frame._jdf.queryExecution().analyzed().stats().sizeInBytes())  # noqa: SLF001 - as above


def make_default(spark: SparkSession) -> None:
    """Make this the session that `SparkSession.builder.getOrCreate()` and `getActiveSession()` return."""
    SparkSession._instantiatedSession = SparkSession._activeSession = spark  # noqa: SLF001 - pyspark sets it once
    java_class = java_machine(spark).org.apache.spark.sql.classic.SparkSession
    java_class.setDefaultSession(java_session(spark))
    java_class.setActiveSession(java_session(spark))


def is_stopped(spark: SparkSession) -> bool:
    """Whether its application has ended, as it does without its master."""
    return bool(java_session(spark).sparkContext().isStopped())


def end_with_java(spark: SparkSession) -> None:
    """End this process as soon as its Java ends: it is of no use any more, and a crash is tried again by Dagster."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - pyspark has no public way
    java = gateway.proc

    def watch() -> None:
        java.wait()
        os._exit(os.EX_UNAVAILABLE)

    Thread(target=watch, name="watch-java", daemon=True).start()
