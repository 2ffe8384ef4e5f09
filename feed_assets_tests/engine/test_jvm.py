"""The calls that an expression makes to Java."""

from __future__ import annotations

import signal

import pytest
from py4j.java_gateway import GatewayClient, JavaClass, java_import
from py4j.protocol import MEMORY_COMMAND_NAME, REFLECTION_COMMAND_NAME, Py4JError
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark


@pytest.fixture
def commands(spark, monkeypatch):
    """What is asked of Java, but for the removal of its objects."""
    asked = []
    send = GatewayClient.send_command

    def noted(self, command, *more, **options):
        if not command.startswith(MEMORY_COMMAND_NAME):
            asked.append(command)
        return send(self, command, *more, **options)

    monkeypatch.setattr(GatewayClient, "send_command", noted)
    return asked


def test_a_class_and_its_method_are_looked_up_once(spark, commands):
    columns = [F.col(name) for name in ("a", "b")]
    commands.clear()

    columns += [F.col(name) for name in ("c", "d", "e")]

    assert len(commands) == 3
    assert not any(command.startswith(REFLECTION_COMMAND_NAME) for command in commands)
    rows = spark.createDataFrame([(1, 2, 3, 4, 5)], ["a", "b", "c", "d", "e"]).select(*columns)
    assert [tuple(row) for row in rows.collect()] == [(1, 2, 3, 4, 5)]


def test_a_package_is_looked_up_once(spark, commands):
    java = spark._jvm
    assert java.org.apache.hadoop.fs.Path("/a/b").getName() == "b"
    commands.clear()

    assert java.org.apache.hadoop.fs.Path("/a/c").getName() == "c"
    assert java.org.apache.hadoop.conf.Configuration(False).size() == 0
    assert sum(command.startswith(REFLECTION_COMMAND_NAME) for command in commands) == 2


def test_a_name_that_was_taken_for_a_package_is_a_class_once_it_is_imported(spark):
    assert not isinstance(spark._jvm.StringJoiner, JavaClass)

    java_import(spark._jvm, "java.util.StringJoiner")

    assert spark._jvm.StringJoiner("-").add("a").add("b").toString() == "a-b"


def test_fields_are_read_each_time_and_unknown_names_are_errors(spark, commands):
    java = spark._jvm
    values = [java.java.lang.Integer.MAX_VALUE for _ in range(2)]

    assert values == [2**31 - 1] * 2
    assert sum("MAX_VALUE" in command for command in commands) == 2
    with pytest.raises(Py4JError, match="nosuch does not exist"):
        java.java.lang.Integer.nosuch  # noqa: B018 - reading it is the call


def test_each_session_finds_the_static_methods_of_the_same_classes(spark):
    other = spark.newSession()

    assert other._jvm.java.lang.Math.abs(-3) == spark._jvm.java.lang.Math.abs(-3) == 3
    assert other._jvm.java.util.ArrayList().size() == 0


@pytest.mark.parametrize(("elements", "calls"), [(0, 1), (1, 1), (10, 1), (11, 5), (25, 7)])
def test_a_list_is_handed_over_in_few_calls(spark, commands, elements, calls):
    values = [f"value {number}" for number in range(elements)]
    joined, commands[:] = spark._jvm.java.lang.String.join, []

    assert joined(", ", values) == ", ".join(values)
    assert len(commands) == calls + 1


def test_lists_within_lists_and_lists_with_none_are_handed_over_whole(spark):
    made = spark._jvm.java.util.ArrayList

    assert made([["a", 1], ["b", None], []]).toString() == "[[a, 1], [b, null], []]"
    assert made((True, 2.5, spark.range(3)._jdf)).get(2).count() == 3


class Interrupted(BaseException):
    """As Dagster's own error: no KeyboardInterrupt."""


def test_java_answers_while_it_works_on_a_call_that_was_interrupted(spark):
    latch = spark._jvm.java.util.concurrent.CountDownLatch(1)
    awaited, counted = getattr(latch, "await"), []

    def interrupt(*_: object) -> None:
        raise Interrupted

    def wait() -> None:
        try:
            awaited()
        finally:  # as pyspark does around the call for the result of a job
            counted.append(latch.getCount())

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Interrupted):
            wait()
    finally:
        signal.signal(signal.SIGALRM, before)
        latch.countDown()
    assert (counted, latch.getCount()) == ([1], 0)
