"""The Spark session: the settings it needs, and starting it.

Here: what the correctness of reading and writing depends on, and the defaults of a single machine. Not here: tuning of
a cluster, which goes into Spark's own `spark-defaults.conf`, and which Java runs it (`java`).
"""

from __future__ import annotations

import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, MappingProxyType, SimpleNamespace
from typing import Any, Final

import pyspark.core.context


class MasterError(Exception):
    """Spark's master cannot be used; the message names the setting and what it takes."""


SESSION_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # With ANSI on, one value that cannot be read fails the file or the day; off, it is NULL and goes to quarantine.
        "spark.sql.ansi.enabled": "false",
        # With any other policy, a date that Spark 2 read in its own way is an error instead of NULL.
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        # Wall time that a partner writes without a zone is read as UTC, then shifted from the source's zone.
        "spark.sql.session.timeZone": "UTC",
    }
)
"""What the session must be set to, so that a value which cannot be read is NULL and times are UTC."""

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
    # divides them.
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
    """Raise MasterError unless this names a master that Spark knows; one that is a server has to answer.

    Spark itself tries a server that does not answer for a minute, and then shows a stack trace of Java's.
    """
    what = f"FEED_ASSETS_SPARK_MASTER is {master!r}"
    if not _MASTER.fullmatch(master):
        message = f"{what}; it takes local[*], local[4], spark://host:7077, yarn or k8s://..."
        raise MasterError(message)
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
    raise MasterError(message)


@contextmanager
def interrupts_put_off() -> Iterator[None]:
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
