"""The processes of Python that Spark starts for its tasks: whether they serve further tasks, and their environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from feed_assets.engine.jvm import java_session

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


@contextmanager
def reuse_of_processes(spark: SparkSession, *, wanted: bool) -> Iterator[None]:
    """Spark asks its configuration for each stage, but lets only Java change it while it runs."""
    configuration, name = java_session(spark).sparkContext().conf(), "spark.python.worker.reuse"
    before = configuration.get(name, "true")
    configuration.set(name, str(wanted).lower())
    try:
        yield
    finally:
        configuration.set(name, before)


def give_environment(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
    """Give these variables to this process, and to tasks: their environment is that in which Java started."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
