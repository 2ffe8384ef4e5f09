"""The Java side of a Spark session.

Here: the one place that reaches through pyspark's private names. Not here: what is asked of Java.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def java_session(spark: SparkSession) -> Any:
    """Java's SparkSession: it has the parser and the metrics of finished writes, which pyspark does not offer."""
    return spark._jsparkSession  # noqa: SLF001 - pyspark has no public way


def java_machine(spark: SparkSession) -> Any:
    """The virtual machine, for its classes."""
    return spark._jvm  # noqa: SLF001 - as above
