"""Files of the code that somebody saves while a worker loads them."""

from __future__ import annotations

import os
import sys
import sysconfig
import venv
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from feed_assets_tests.dev import ROOT
from feed_assets_tests.waiting import until
from feed_assets_tests.warm_runs.running import SUCCESS, Workers, running

pytestmark = pytest.mark.slow

SAVES = """
import multiprocessing
import time
from pathlib import Path

import theirs
in_a_worker = multiprocessing.parent_process() is not None
here = Path(__file__).parent
if in_a_worker and not (here / "saved").exists():
    (here / "saved").touch()
    (here / "theirs.py").write_text("GREETING = 'the new code'")
if in_a_worker and ALWAYS:
    (here / "generated.py").write_text(f"NUMBER = {time.time_ns()}")
    import generated
"""
SAVES_EARLY = """
import multiprocessing
import sys
from pathlib import Path

class Saving:
    def find_spec(self, name, path=None, target=None):
        here = Path(__file__).parent
        if name == "feed_assets.warm_runs.warm" and multiprocessing.parent_process() and not (here / "saved").exists():
            import theirs
            (here / "saved").touch()
            (here / "theirs.py").write_text("GREETING = 'the new code'")

sys.meta_path.insert(0, Saving())
"""
CORRECTS = """
import multiprocessing
from pathlib import Path

import theirs
if multiprocessing.parent_process() and not hasattr(theirs, "GREETING"):
    Path(theirs.__file__).write_text("GREETING = 'the corrected code'")
"""
OWN_PROJECT = """
import os
from datetime import date
from pathlib import Path
import dagster as dg
from feed_assets.project.assembly import Project
from feed_assets_tests.warm_runs.plain_project import NoSpark

@dg.asset
def deed(context) -> None:
    context.log.info(f"This is {GREETING}.")

project = Project.of(sources=Path(os.environ["FEED_ASSETS_SOURCES"]), first_day=date(2019, 11, 1))
defs = project.definitions(assets=[deed], resources={"spark": NoSpark(spark_config={})})
"""
PROJECT = f"from theirs import GREETING\n{OWN_PROJECT}"


def pool_of(code: Path, home: Path) -> AbstractContextManager[Workers]:
    """A pool for the module `changing` in this folder."""
    (code / "sources").mkdir()
    environment = {
        "FEED_ASSETS_BASE": str(home),
        "FEED_ASSETS_SOURCES": str(code / "sources"),
        "PYTHONPATH": f"{code}{os.pathsep}{ROOT}",
    }
    return running(home, "changing", environment)


@pytest.mark.parametrize("always", [False, True], ids=["once", "whenever it is loaded"])
def test_a_run_has_the_code_that_was_saved_while_its_worker_loaded_the_old_one(tmp_path, monkeypatch, always):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "theirs.py").write_text("GREETING = 'the old code'")
    (tmp_path / "changing.py").write_text(f"ALWAYS = {always}\n{SAVES}\n{PROJECT}")

    with pool_of(tmp_path, tmp_path / "home") as workers:
        run = workers.launch("deed")

        assert run.status == SUCCESS, run.messages
        assert run.worker is not None
        assert "This is the new code." in run.messages


def test_a_run_has_the_code_that_was_saved_while_its_worker_loaded_feed_assets(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "theirs.py").write_text("GREETING = 'the old code'")
    (tmp_path / "changing.py").write_text(PROJECT)
    (tmp_path / "sitecustomize.py").write_text(SAVES_EARLY)

    with pool_of(tmp_path, tmp_path / "home") as workers:
        run = workers.launch("deed")

        assert run.status == SUCCESS, run.messages
        assert (tmp_path / "saved").exists()
        assert "This is the new code." in run.messages


def test_code_that_could_not_be_loaded_is_loaded_anew_when_it_was_corrected(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "theirs.py").write_text("GREETING = 'the old code'")
    (tmp_path / "changing.py").write_text(PROJECT)

    with pool_of(tmp_path, tmp_path / "home") as workers:
        first = workers.launch("deed")
        assert first.status == SUCCESS, first.messages
        (tmp_path / "theirs.py").write_text("# the greeting is gone")
        log = workers.home / "workers.log"
        until(lambda: "changing, or their Spark, are not ready for runs" in log.read_text())
        (tmp_path / "theirs.py").write_text("GREETING = 'the corrected code'")
        corrected = workers.launch("deed")

        assert corrected.status == SUCCESS, corrected.messages
        assert "This is the corrected code." in corrected.messages


def test_code_that_is_corrected_while_a_worker_fails_to_load_it_is_loaded_anew(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "theirs.py").write_text("GREETING = 'the old code'")
    (tmp_path / "changing.py").write_text(f"{CORRECTS}\n{PROJECT}")

    with pool_of(tmp_path, tmp_path / "home") as workers:
        first = workers.launch("deed")
        assert first.status == SUCCESS, first.messages
        (tmp_path / "theirs.py").write_text("# the greeting is gone")
        until(lambda: "corrected" in (tmp_path / "theirs.py").read_text())
        run = workers.launch("deed")

        assert run.status == SUCCESS, run.messages
        assert "This is the corrected code." in run.messages


def test_a_run_has_the_code_of_a_package_that_was_installed_anew(tmp_path, monkeypatch):
    venv.create(tmp_path / "venv", symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/bin/python"))
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))

    def install(version: str) -> None:
        for before in packages.glob("changing-*"):
            before.rmdir()
        (packages / "changing").mkdir(exist_ok=True)
        (packages / "changing/__init__.py").write_text(f"GREETING = {version!r}\n{OWN_PROJECT}")
        (packages / f"changing-{version}.dist-info").mkdir()

    install("1.0")
    with pool_of(tmp_path, tmp_path / "home") as workers:
        first = workers.launch("deed")
        assert first.status == SUCCESS, first.messages
        assert "This is 1.0." in first.messages
        install("1.1.1")
        second = workers.launch("deed")

        assert second.status == SUCCESS, second.messages
        assert second.worker is not None
        assert "This is 1.1.1." in second.messages
