"""One warm Spark session a process, started when it is first needed.

Here: the settings that the correctness of reading and writing depends on, and the defaults of a
single machine. Not here: tuning of a cluster; that goes into Spark's own `spark-defaults.conf`.
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from feed_assets.resources.java import ensure_java
from feed_assets.transforms import SESSION_SETTINGS

QUIET_LOGS = Path(__file__).parent / "log4j2.properties"

REQUIRED = {
    **SESSION_SETTINGS,
    # An update holds its data files and nothing else: Spark writes neither an own manifest nor checksums.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # A file that vanished is an error for the run to report, never rows silently missing.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # Explicit lists of files are looked up where they are read from, without a Spark job for that.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

LEAN = {
    # Telling the JVM, at every call, the line it comes from takes a third of the calls; tracebacks tell it as well.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A day takes more generated classes than the hundred that Spark keeps, so that each run compiled them all again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # The JVM never compiles a method of more bytes, and rules over a partner's expressions are long ones: Spark then
    # takes them apart.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}

SINGLE_MACHINE = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # Nobody waits for an answer within milliseconds here: the collector that spends least of the processors' time.
    "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC -Dlog4j2.configurationFile={QUIET_LOGS.as_uri()}",
}


def spark_config(master: str) -> dict[str, str]:
    """The configuration of a session on this master (`local[*]`, `spark://host:7077`, `yarn`)."""
    single = SINGLE_MACHINE if master.startswith("local") else {}
    return {"spark.master": master, "spark.app.name": "feed_assets", **LEAN, **single, **REQUIRED}


class SparkResource(LazyPySparkResource):
    """dagster-pyspark's lazy session, on a machine that may have no Java."""

    @classmethod
    def on(cls, master: str, **more: str) -> SparkResource:
        """A resource for this master, `more` being further Spark properties."""
        return cls(spark_config={**spark_config(master), **more})

    @property
    def spark_session(self) -> Any:
        """The session of this process, started on first use."""
        if SparkSession.getActiveSession() is not None:
            return super().spark_session
        ensure_java()
        on_interrupt = signal.getsignal(signal.SIGINT)
        session = super().spark_session
        if threading.current_thread() is threading.main_thread():
            # Spark puts its own handler there, which talks to Java in the middle of Java's last answer.
            signal.signal(signal.SIGINT, on_interrupt)
        return session
