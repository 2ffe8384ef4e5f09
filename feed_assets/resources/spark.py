"""One warm Spark session a process, started when it is first needed.

Here: the settings that the correctness of reading and writing depends on, and the defaults of a
single machine. Not here: tuning of a cluster; that goes into Spark's own `spark-defaults.conf`.
"""

from __future__ import annotations

import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pyspark.core.context
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from feed_assets.resources.java import ensure_java
from feed_assets.resources.settings import SettingsError
from feed_assets.transforms import SESSION_SETTINGS

ANSWERS_WITHIN = 5
"""Seconds that a master has to answer in."""

_MASTER = re.compile(
    r"local(\[(\*|[1-9][0-9]*)(,\s*[0-9]+)?\])?|local-cluster\[.*\]|spark://[^,\s]+:[0-9]{1,5}(,[^,\s]+:[0-9]{1,5})*|"
    r"yarn|k8s://.+"
)

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


def check_master(master: str) -> None:
    """Raise SettingsError unless this names a master that Spark knows; one that is a server has to answer.

    Spark itself tries a server that does not answer for a minute, and then shows a stack trace of Java's.
    """
    what = f"FEED_ASSETS_SPARK_MASTER is {master!r}"
    if not _MASTER.fullmatch(master):
        message = f"{what}; it takes local[*], local[4], spark://host:7077, yarn or k8s://..."
        raise SettingsError(message)
    if not master.startswith("spark://"):
        return
    refused = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=ANSWERS_WITHIN).close()
        except OSError as error:
            refused.append(f"{address}: {error.strerror or error}")
        else:
            return
    message = f"{what}, and no Spark master answers there ({'; '.join(refused)}). Start it, or unset the variable."
    raise SettingsError(message)


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
        check_master(self.spark_config.get("spark.master", "local"))
        with _interrupts_put_off():
            return super().spark_session


@contextmanager
def _interrupts_put_off() -> Iterator[None]:
    """Let Ctrl-C wait until Spark has started, and then do what it did before.

    In the middle of its start Spark answers with Java's stack trace. And the handler that Spark installs as it starts
    would talk to Java in the middle of Java's last answer, so pyspark gets no way to install it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    put_off: list[FrameType | None] = []

    def put_off_until_started(_: int, frame: FrameType | None) -> None:
        put_off.append(frame)

    signal.signal(signal.SIGINT, put_off_until_started)
    module: Any = pyspark.core.context
    module.signal = SimpleNamespace(signal=lambda *_: None, SIGINT=signal.SIGINT)
    try:
        yield
    finally:
        module.signal = signal
        signal.signal(signal.SIGINT, before)
    if put_off and callable(before):
        before(signal.SIGINT, put_off[-1])
