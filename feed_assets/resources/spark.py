"""One Spark session for each process, started on first use.

Here: the session as a Dagster resource, and its master. Not here: Spark's configuration and start
(`engine.session`, `engine.buckets`).
"""

from __future__ import annotations

from typing import Any

from dagster_pyspark import LazyPySparkResource
from pydantic import Field, create_model
from pyspark.sql import SparkSession

from feed_assets.engine.buckets import bucket_jars, bucket_settings, check_classes
from feed_assets.engine.class_archive import archive_options
from feed_assets.engine.java import ensure_java
from feed_assets.engine.jvm import improve_calls
from feed_assets.engine.session import (
    JAVA_OPTIONS,
    check_master,
    ensure_driver_memory,
    spark_config,
    start_session,
    use_own_python,
)
from feed_assets.environment import Section
from feed_assets.resources.storage import s3_client


class SparkSettings(Section):
    """Where Spark runs."""

    spark_master: str = Field("local[*]", validation_alias="FEED_ASSETS_SPARK_MASTER")
    """Spark's master; tuning goes into Spark's own `spark-defaults.conf`."""


class SparkResource(LazyPySparkResource):
    """The lazy session of dagster-pyspark, which also works with data in a bucket, and on a machine without Java.

    With a base in a bucket, Spark uses the endpoint and region of its client, and gets the jars for S3 at the first
    start. The properties of `spark_config` are added to the project's own, and go first.
    """

    base: str = ""
    master: str = "local[*]"

    @classmethod
    def on(cls, master: str, base: str = "", **more: str) -> SparkResource:
        """A resource for this master and for data below this base; `more` are further Spark properties."""
        # If a run configures one value of a resource, Dagster takes the class's defaults for the others.
        defaults: Any = {"base": (str, base), "master": (str, master)}
        here = create_model(cls.__name__, __base__=cls, __doc__=cls.__doc__, **defaults)
        return here(spark_config=more)

    @property
    def properties(self) -> dict[str, str]:
        """Spark's properties: the project's own for the master, replaced and completed by `spark_config`."""
        return {**spark_config(self.spark_config.get("spark.master", self.master)), **self.spark_config}

    @property
    def spark_session(self) -> Any:
        """The session of this process, started on first use. Raises JavaError, MasterError and JarsError."""
        if self._spark_session is None:
            client = s3_client() if self.base.startswith("s3://") else None
            config = self.properties
            if SparkSession.getActiveSession() is None:
                ensure_java()
                check_master(config["spark.master"])
                ensure_driver_memory(config["spark.master"])
                use_own_python(config["spark.master"])
                if client:
                    config["spark.jars"] = ",".join(map(str, bucket_jars()))
                if options := archive_options():
                    config[JAVA_OPTIONS] += f" {options}"
            session = start_session(config)
            improve_calls(session)
            if client:
                check_classes(session)
                # Not at the start: a session that runs already takes them as well, and no process list shows them.
                for name, value in bucket_settings(client).items():
                    session.conf.set(name, value)
            self._spark_session = session
        return self._spark_session
