"""The Java side of a Spark session. No other module uses a name of pyspark that begins with an underscore."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def java_session(spark: SparkSession) -> Any:
    """Java's SparkSession: it has the parser and the metrics of finished writes, which pyspark does not offer."""
    return spark._jsparkSession  # noqa: SLF001 - pyspark has no public way


def java_machine(spark: SparkSession) -> Any:
    """The Java virtual machine, for its classes."""
    return spark._jvm  # noqa: SLF001 - as above
