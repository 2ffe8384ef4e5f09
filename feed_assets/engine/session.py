"""The Spark session: its settings, and starting it.

Here: settings without which data is read or written wrongly, and defaults for a single machine. Not here: tuning a
cluster (see Spark's own `spark-defaults.conf`), and the choice of Java (`java`).
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType, MappingProxyType, SimpleNamespace
from typing import Any, Final

import pyspark.core.context
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession, Window, functions

from feed_assets.engine.buckets import LOCAL_COMMITTERS, concerns_storage
from feed_assets.engine.java import JavaError, ensure_java
from feed_assets.engine.jvm import forget_shared, make_default
from feed_assets.errors import FeedAssetsError


class MasterError(FeedAssetsError):
    """Spark's master cannot be used; the message names the setting and its valid values."""


SESSION_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # With ANSI on, one unreadable value fails the file or the day; off, the value is NULL and goes to quarantine.
        "spark.sql.ansi.enabled": "false",
        # With any other policy, a date that Spark 2 read in another way is an error instead of NULL.
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        # With it on, a backslash in a text of SQL stands for itself, and rules and expressions mean something else.
        "spark.sql.parser.escapedStringLiterals": "false",
        # Wall time without a zone is read as UTC, then shifted from the source's zone.
        "spark.sql.session.timeZone": "UTC",
        # With the other type, TIMESTAMP and `to_timestamp` mean wall time, and no update has the declared types.
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
    }
)
"""The settings with which an unreadable value is NULL, texts of SQL have escapes, and times are instants, in UTC."""

ANSWERS_WITHIN = 5
"""Seconds within which a master must answer."""

_MASTER = re.compile(
    r"local(\[(\*|[1-9][0-9]*)(,\s*[0-9]+)?\])?|local-cluster\[.*\]|spark://[^,\s]+:[0-9]{1,5}(,[^,\s]+:[0-9]{1,5})*|"
    r"yarn|k8s://.+"
)

QUIET_LOGS = Path(__file__).parent / "log4j2.properties"

REQUIRED = {
    **SESSION_SETTINGS,
    # An update holds only its data files: Spark must write neither a manifest of its own nor checksums.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # A vanished file is an error of the run; its rows are never silently missing.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # Lists of files are given to Spark as such logs (see `listed_files`).
    "spark.sql.streaming.fileStreamSink.ignoreMetadata": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

UMASK: Final = "spark.hadoop.fs.permissions.umask-mode"

LEAN = {
    # Sending the line of each call to the JVM takes a third of all calls; tracebacks have the line too.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Java would look at its stack for each call, and find nothing but the library that Python calls it through.
    "spark.sql.dataFrameQueryContext.enabled": "false",
    # A day needs more generated classes than the 100 that Spark caches; each run would compile them all again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Spark keeps the text of each plan for its UI, and a plan may hold a Bloom filter as a literal.
    "spark.sql.maxPlanStringLength": "200000",
    # The JVM never compiles a longer method (in bytes); with this limit Spark divides long rules.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}

JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"

QUIET = {
    # Options in `spark-defaults.conf` override these, so that file may name another one.
    JAVA_OPTIONS: f"-Dlog4j2.configurationFile={QUIET_LOGS.as_uri()}",
    "spark.ui.showConsoleProgress": "false",
}

SINGLE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    # Spark divides files among tasks by size, and takes 4 MB for opening one. A day's hours are smaller than that: the
    # task with the largest hours would get as many files as the others, and they would wait for it.
    "spark.sql.files.openCostInBytes": "262144",
    # A value can be too long for a regular expression, whose error Spark takes for one of Java itself. The run fails;
    # Java, which other runs share, must not end.
    "spark.executor.killOnFatalError.depth": "0",
    # No request needs an answer within milliseconds, so use the collector that takes the least processor time.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}

QUICKLY: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Java compiles with its quick compiler only. Its space for compiled code would then be 48 MB, and Spark needs more:
Java would look for methods to throw away all the time, and compile them again."""

_MEMORY_LIMITS = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""A container's limit of memory, in Linux's newer and older place; there is a word instead of a number without one."""

ONE_PROCESS = {
    # Else every user of the machine could send messages to Spark's ports. Spark makes the secret itself, but not for
    # the executors of `local-cluster`, which are processes of their own.
    "spark.authenticate": "true",
}

CLUSTER = {
    # Files of about spark.sql.adaptive.advisoryPartitionSizeInBytes (64 MB), whatever the number of cores.
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
}


def file_modes() -> dict[str, str]:
    """Let what Spark writes have the modes that this process gives to its own files, by its umask.

    Hadoop knows no umask: it sets the modes 0755 and 0644 itself. Executors take the setting from the driver. `/proc`
    has the mask; asking for it by a system call would change it for a moment, also for other threads.
    """
    status = Path("/proc/self/status")
    found = re.search(r"^Umask:\s*([0-7]+)$", status.read_text(), re.MULTILINE) if status.exists() else None
    if found:
        return {UMASK: found[1][-3:]}
    os.umask(mask := os.umask(0o077))
    return {UMASK: f"{mask:03o}"}


def spark_config(master: str) -> dict[str, str]:
    """The configuration of a session on this master (`local[*]`, `spark://host:7077`, `yarn`)."""
    return {
        "spark.master": master,
        "spark.app.name": "feed_assets",
        **LEAN,
        **QUIET,
        **(SINGLE_MACHINE if master.startswith("local") else CLUSTER),
        **(ONE_PROCESS if re.fullmatch(r"local(\[.*\])?", master) else {}),
        **REQUIRED,
        **file_modes(),
        **LOCAL_COMMITTERS,
    }


def ensure_driver_memory(master: str) -> None:
    """Let the JVM of a single machine take a quarter of the memory, as Java itself would, but at least 2 GB.

    Spark's own default is 1 GB, whatever the machine has. The value is in SPARK_DRIVER_MEMORY, so that the user's
    variable and `spark.driver.memory` in `spark-defaults.conf` go first.
    """
    if master.startswith("local"):
        limits = [text for file in _MEMORY_LIMITS if file.exists() and (text := file.read_text().strip()).isdigit()]
        memory = min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *map(int, limits)])
        os.environ.setdefault("SPARK_DRIVER_MEMORY", f"{max(memory // 4, 2**31) >> 20}m")


def use_own_python(master: str) -> None:
    """Let the Python processes that Spark starts on a single machine have the packages of this one.

    Spark itself starts the first `python3` in PATH: that is another Python if this one's environment is not activated.
    The user's PYSPARK_PYTHON goes first.
    """
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def compile_quickly() -> None:
    """Let the Java that this process starts compile methods quickly instead of well.

    Compiling well pays for the loops over millions of rows. In small days Java spends most of its processor time on
    planning, whose methods it compiles well for longer than that saves. The user's options go first.
    """
    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    os.environ["SPARK_SUBMIT_OPTS"] = given if QUICKLY in given else f"{QUICKLY} {given}".rstrip()


def session_here() -> SparkSession:
    """The session of this process; without one, it is started on this machine as a project starts its own.

    Raises JavaError.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    config = spark_config("local[*]")
    ensure_java()
    ensure_driver_memory(config["spark.master"])
    use_own_python(config["spark.master"])
    return start_session(config)


def start_session(config: Mapping[str, str]) -> SparkSession:
    """The session of this process, with this configuration if it has none. Raises JavaError if Spark does not start."""
    try:
        with interrupts_put_off():
            return SparkSession.builder.config(map=dict(config)).getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise JavaError(
            "Java ended before Spark could start. Correct what its own message, above, names: its options come "
            "from SPARK_SUBMIT_OPTS, JAVA_TOOL_OPTIONS and `spark-defaults.conf`, its memory from SPARK_DRIVER_MEMORY."
        ) from None
    except Py4JJavaError as error:
        if "IllegalArgumentException" not in error.java_exception.getClass().getName():
            raise  # such as a cluster that does not answer: the step is tried again
        raise JavaError(f"Spark refuses its configuration: {error.java_exception.getMessage()}") from error
    except (Py4JError, ConnectionError) as error:
        raise JavaError(
            "Java ended while Spark started. Let SPARK_LOCAL_DIRS name a directory that can be written and has room; "
            "FEED_ASSETS_SPARK_LOG_LEVEL=error shows what Spark itself says."
        ) from error


def submitted_session() -> SparkSession:
    """The session of a process that `spark-submit` started, which has set the master, the jars and the memory."""
    return SparkSession.builder.config(map={**LEAN, **REQUIRED, **file_modes(), **LOCAL_COMMITTERS}).getOrCreate()


def new_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session of the same application and for the same storage, with these settings."""
    session = spark.newSession()
    kept = {name: value for name, value in spark.conf.getAll.items() if concerns_storage(name)}
    for name, value in {**kept, **settings}.items():
        session.conf.set(name, value)
    return session


def replace_session(spark: SparkSession) -> SparkSession:
    """A fresh session of the same application, now the one that every part of this process gets.

    It has the settings with which the application was started, no views, no functions and nothing cached.
    """
    forget_shared(spark)
    fresh = spark.newSession()
    make_default(fresh)
    return fresh


def warm_up(spark: SparkSession) -> None:
    """Let Java load the classes that nearly every job needs: Parquet, a window, a join, an aggregate."""
    with TemporaryDirectory() as folder:
        rows = spark.range(100).selectExpr("id", "cast(id % 7 AS STRING) AS name", "timestamp_seconds(id) AS time")
        place = f"{Path(folder).as_uri()}/rows"
        rows.write.parquet(place)
        read = spark.read.parquet(place)
        first = Window.partitionBy("name").orderBy("time", "id")
        ranked = read.withColumn("position", functions.row_number().over(first))
        counted = (
            ranked.where("position < 5").groupBy("name").agg(functions.count("*").alias("n"), functions.max("time"))
        )
        joined = read.join(counted, "name", "left_anti").union(read.join(counted.select("name"), "name"))
        joined.groupBy("name").agg(functions.sum("id")).write.parquet(f"{Path(folder).as_uri()}/result")


def check_master(master: str) -> None:
    """Raise MasterError unless this names a master that Spark knows; a `spark://` server must answer.

    Spark itself would try a silent server for a minute, and then show Java's stack trace.
    """
    if "@" in master:
        raise MasterError(
            "FEED_ASSETS_SPARK_MASTER has an @, as for a user and a password. No master takes them there."
        )
    what = f"FEED_ASSETS_SPARK_MASTER is {master!r}"
    if not _MASTER.fullmatch(master):
        raise MasterError(f"{what}; it takes local[*], local[4], spark://host:7077, yarn or k8s://...")
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
    refusals = "; ".join(refused)
    raise MasterError(f"{what}, and no Spark master answers there ({refusals}). Start it, or unset the variable.")


@contextmanager
def interrupts_put_off() -> Iterator[None]:
    """Delay Ctrl-C until Spark has started, then call the handler from before.

    During its start, Spark would answer Ctrl-C with Java's stack trace. The handler that pyspark installs would talk to
    Java while Java still answers, so pyspark cannot install it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    interrupts: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: interrupts.append(frame))
    module: Any = pyspark.core.context
    module.signal = SimpleNamespace(signal=lambda *_: None, SIGINT=signal.SIGINT)
    try:
        yield
    finally:
        module.signal = signal
        signal.signal(signal.SIGINT, before)
    if interrupts and callable(before):
        before(signal.SIGINT, interrupts[-1])
