"""The memory and the Python of Spark's driver follow the machine, and the user; a Java that cannot start says so."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession, functions

from feed_assets.engine.java import JavaError, ensure_java
from feed_assets.engine.session import ensure_driver_memory, spark_config, start_session
from feed_assets.resources.spark import SparkResource
from feed_assets_tests.waiting import HANGS


@pytest.fixture(autouse=True)
def _no_memory_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "")
    monkeypatch.delenv("SPARK_DRIVER_MEMORY")


def test_on_a_single_machine_the_driver_takes_at_least_2_gb_and_at_most_a_quarter_of_more():
    ensure_driver_memory("local[2]")

    megabytes = int(os.environ["SPARK_DRIVER_MEMORY"].removesuffix("m"))
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 2048 <= megabytes <= max(2048, physical // 4 // 2**20)


def test_the_users_own_memory_goes_first(monkeypatch):
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "3g")

    ensure_driver_memory("local[*]")

    assert os.environ["SPARK_DRIVER_MEMORY"] == "3g"


def test_on_a_cluster_the_drivers_memory_is_left_to_its_configuration():
    ensure_driver_memory("spark://127.0.0.1:7077")

    assert "SPARK_DRIVER_MEMORY" not in os.environ


def test_the_driver_of_a_single_machine_takes_no_message_without_its_secret(spark: SparkSession):
    request = struct.pack(">bqi", 3, 1, 5) + b"hello"  # an RPC of Spark's protocol: type, id, length, content

    port = int(spark.sparkContext.getConf().get("spark.driver.port", ""))
    with socket.create_connection(("127.0.0.1", port), timeout=HANGS) as stranger:
        stranger.sendall(struct.pack(">q", 8 + len(request)) + request)
        answer = stranger.recv(1024)

    assert b"Expected SaslMessage" in answer


def show_the_python_of_spark() -> None:
    """Print the Python in which Spark calls functions of Python."""
    spark = SparkResource.on("local[1]").spark_session
    own = functions.udf(lambda: sys.executable)
    print(*(row[0] for row in spark.range(1).select(own()).collect()))


@pytest.mark.slow
def test_sparks_functions_of_python_run_in_the_python_that_started_it_whatever_path_names_first(tmp_path: Path):
    (tmp_path / "python3").symlink_to("/bin/false")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment.pop("PYSPARK_PYTHON", None)
    program = f"from {__name__} import show_the_python_of_spark; show_the_python_of_spark()"

    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=HANGS
    )

    assert done.stdout.strip() == sys.executable, done.stderr


def start_without_a_session() -> None:
    """Start Spark in a process that has none, and print why it did not start."""
    ensure_java()
    try:
        start_session(spark_config("local[1]"))
    except JavaError as error:
        print(error)


def said_at_the_start(**environment: str) -> str:
    """What a process prints in which Spark does not start."""
    program = f"from {__name__} import start_without_a_session; start_without_a_session()"
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS,
    ).stdout


@pytest.mark.slow
def test_a_java_that_refuses_its_options_is_an_error_that_names_where_they_come_from():
    said = said_at_the_start(SPARK_SUBMIT_OPTS="-XX:+UseSerialGC -XX:+UseParallelGC")

    javas, _, ours = said.partition("Java ended before Spark could start.")
    assert "Multiple garbage collectors selected" in javas
    assert "SPARK_SUBMIT_OPTS" in ours


@pytest.mark.slow
def test_a_directory_for_temporary_files_that_cannot_be_written_is_an_error_that_names_the_setting(tmp_path: Path):
    (tmp_path / "file").write_text("")

    said = said_at_the_start(SPARK_LOCAL_DIRS=str(tmp_path / "file/below"))

    assert "Let SPARK_LOCAL_DIRS name a directory" in said


@pytest.mark.slow
def test_too_little_memory_for_spark_is_an_error_with_sparks_own_message():
    said = said_at_the_start(SPARK_DRIVER_MEMORY="300m")

    assert said.startswith("Spark refuses its configuration: ")
    assert "System memory" in said
