"""The Java side of a Spark session. No other module uses a name of pyspark that begins with an underscore."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Final

from py4j.clientserver import JavaClient
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.classic.column import Column as JavaColumn

BLOOM_VALUES, BLOOM_BITS = 100_000, 2**20


def java_session(spark: SparkSession) -> Any:
    """Java's SparkSession: it has the parser and the metrics of finished writes, which pyspark does not offer."""
    return spark._jsparkSession  # noqa: SLF001 - pyspark has no public way


def java_machine(spark: SparkSession) -> Any:
    """The Java virtual machine, for its classes."""
    return spark._jvm  # noqa: SLF001 - as above


def wait_for_events(spark: SparkSession, milliseconds: int | None = None) -> None:
    """Return when Spark's status has taken in all events up to now. Raises Py4JError if it takes longer than that."""
    bus = java_session(spark).sparkContext().listenerBus()
    _ = bus.waitUntilEmpty() if milliseconds is None else bus.waitUntilEmpty(milliseconds)


def job_status(spark: SparkSession) -> Any:
    """Java's store of what is known of jobs and stages: their tasks, and what these have read and written."""
    return java_session(spark).sparkContext().statusStore()


def query_status(spark: SparkSession) -> Any:
    """Java's store of what is known of queries and writes: their plans, and the metrics of these."""
    return java_session(spark).sharedState().statusStore()


def estimated_bytes(frame: DataFrame) -> int:
    """Spark's estimate of a frame's size, before it is optimized: the sizes of its files, however it filters them.

    Joins multiply the sizes of their sides. A frame of unknown size, such as one made from Python's rows, is huge.
    """
    return int(frame._jdf.queryExecution().analyzed().stats().sizeInBytes())  # noqa: SLF001 - as above


def analyzed_expressions(frame: DataFrame) -> Any:
    """The expressions of a frame's last step as a sequence of Java's, with types, functions and implicit casts."""
    return frame._jdf.queryExecution().analyzed().expressions()  # noqa: SLF001 - as above


def bloom_filter(spark: SparkSession, values: Column) -> Column:
    """An aggregate, for `DataFrame.observe`: a Bloom filter of these BIGINTs without NULLs, of 128 KB.

    False positives: 0.1 % at 100,000 values, 67 % at a million.
    """
    sizes = (functions.lit(size).cast("bigint") for size in (BLOOM_VALUES, BLOOM_BITS))
    aggregates = java_machine(spark).org.apache.spark.sql.catalyst.expressions.aggregate
    made = aggregates.BloomFilterAggregate(*(_expression(spark, each) for each in (values, *sizes)))
    return _column(spark, made.toAggregateExpression())


def might_contain(spark: SparkSession, filter_: bytes, value: Column) -> Column:
    """Whether a BIGINT may be one of the values of a Bloom filter; true for each of its values."""
    expressions = java_machine(spark).org.apache.spark.sql.catalyst.expressions
    made = expressions.BloomFilterMightContain(*(_expression(spark, each) for each in (functions.lit(filter_), value)))
    return _column(spark, made)


def unless_raised(spark: SparkSession, column: Column) -> Column:
    """The value of a column, or NULL for a row for which evaluating it raises an error.

    Spark moves expressions that several columns share out of the columns, where nothing catches their errors, unless
    they are in a branch.
    """
    tried = java_machine(spark).org.apache.spark.sql.catalyst.expressions.TryEval(_expression(spark, column))
    return _column(spark, tried)


def _expression(spark: SparkSession, column: Column) -> Any:
    return java_machine(spark).org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)  # noqa: SLF001 - as above


def _column(spark: SparkSession, expression: Any) -> Column:
    return JavaColumn(java_machine(spark).org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def make_default(spark: SparkSession) -> None:
    """Make this the session that `SparkSession.builder.getOrCreate()` and `getActiveSession()` return."""
    SparkSession._instantiatedSession = SparkSession._activeSession = spark  # noqa: SLF001 - pyspark sets it once
    java_class = java_machine(spark).org.apache.spark.sql.classic.SparkSession
    java_class.setDefaultSession(java_session(spark))
    java_class.setActiveSession(java_session(spark))


def make_active(spark: SparkSession) -> None:
    """Make this the session of this thread. There only does Spark look for data sources in Python."""
    java_machine(spark).org.apache.spark.sql.classic.SparkSession.setActiveSession(java_session(spark))


def forget_shared(spark: SparkSession) -> None:
    """Let the application forget what all its sessions share: cached frames and RDDs, and global views.

    So, too, the properties that this thread gave its jobs, such as their group and their pool of the scheduler.
    """
    spark.catalog.clearCache()
    session = java_session(spark)
    context = session.sparkContext()
    kept = context.getPersistentRDDs().valuesIterator()
    while kept.hasNext():
        kept.next().unpersist(False)  # noqa: FBT003 - of Java: without waiting
    session.sharedState().globalTempViewManager().clear()
    context.setLocalProperties(java_machine(spark).java.util.Properties())


class _Names:
    """A view or a package that asks Java for each of its names once, if the meaning of the name cannot change."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)  # type: ignore[misc] # of the class of py4j beside this one
        if isinstance(found, JavaClass):
            found.__class__ = _Class
        elif isinstance(found, JavaPackage) and name.islower():  # `java_import` can make a class of another name
            found.__class__ = _Package
        else:
            return found
        self.__dict__[name] = found
        return found


class _View(_Names, JVMView):  # type: ignore[misc] # py4j has no types
    """A view of a Java virtual machine that asks for each class once."""


class _Package(_Names, JavaPackage):  # type: ignore[misc] # as above
    """A package of Java that asks for each class once."""


class _Class(JavaClass):  # type: ignore[misc] # as above
    """A class of Java that is asked for each static method once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found


class _Lists:
    """Makes a Java list of a Python list that is an argument, with a call for ten elements; py4j makes one for each.

    More than ten elements become an ArrayList, as with py4j. A list of at most ten is one that Java cannot change.
    """

    AT_ONCE: Final = 10  # `List.of` has a method for each number of elements up to this

    def __init__(self, java: Any) -> None:
        self._of, self._array_list = java.java.util.List.of, java.java.util.ArrayList

    def can_convert(self, value: object) -> bool:
        return isinstance(value, list | tuple) and all(each is not None for each in value)

    def convert(self, value: Sequence[object], _: object) -> Any:
        starts = range(0, max(1, len(value)), self.AT_ONCE)
        parts = [self._of(*value[start : start + self.AT_ONCE]) for start in starts]
        if len(parts) == 1:
            return parts[0]
        whole = self._array_list()
        for part in parts:
            whole.addAll(part)
        return whole


class _Client(JavaClient):  # type: ignore[misc] # as above
    """Closes a connection if its call was interrupted: the answer is to come yet, and calls after it would wait for it.

    py4j does so for KeyboardInterrupt only. Dagster interrupts runs with an error of its own.
    """

    def send_command(self, *command: Any, **options: Any) -> Any:
        try:
            return super().send_command(*command, **options)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException:
            if (connection := self.get_thread_connection()) is not None:
                connection.close()
            raise


def improve_calls(spark: SparkSession) -> None:
    """Let this process call Java less, and also while Java still works on a call that was interrupted.

    Each class of Java and each static method is looked up once, and a list is handed over in few calls. Each column of
    an expression is a call of a static method, and look-ups take two fifths of its time: to know whether a short name
    is a package, Java looks through all jars.
    """
    java, client = java_machine(spark), spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr] # noqa: SLF001 - as above
    java.__class__ = _View
    if not isinstance(client.converters[0], _Lists):
        client.converters = [_Lists(java), *client.converters]
    if type(client) is JavaClient:
        client.__class__ = _Client


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where a Java with a running Spark takes calls from other processes of this machine, and what they must know."""

    port: int
    secret: str = field(repr=False)

    @classmethod
    def of(cls, spark: SparkSession) -> Gateway:
        """The gateway of this session's Java."""
        parameters: Any = spark.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr] # noqa: SLF001 - pyspark has no public way
        return cls(parameters.port, parameters.auth_token)


def attach(gateway: Gateway) -> SparkSession:
    """Let this process use the Spark of another process. It gets a session of its own, which is its default."""
    known = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.secret}
    os.environ.update(known)
    try:
        connection = launch_gateway()  # type: ignore[no-untyped-call] # launches nothing, as there is one
    finally:
        for name in known:
            del os.environ[name]
    java = connection.jvm
    context = java.JavaSparkContext.fromSparkContext(java.org.apache.spark.SparkContext.getOrCreate())
    shared = SparkContext(gateway=connection, jsc=context, conf=SparkConf(_jconf=context.getConf()))
    session = SparkSession(shared).newSession()
    improve_calls(session)
    make_default(session)
    return session


def is_stopped(spark: SparkSession) -> bool:
    """Whether the session's application has ended, as it does when it loses its master."""
    return bool(java_session(spark).sparkContext().isStopped())


def executors(spark: SparkSession) -> int:
    """How many executors of a cluster its application has now."""
    return int(java_session(spark).sparkContext().getExecutorMemoryStatus().size()) - 1  # the driver counts, too


def end_with_java(spark: SparkSession) -> None:
    """End this process as soon as its Java ends: without Java it is useless, and Dagster tries a crashed run again."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - pyspark has no public way
    java = gateway.proc

    def watch() -> None:
        java.wait()
        os._exit(os.EX_UNAVAILABLE)

    Thread(target=watch, name="watch-java", daemon=True).start()
