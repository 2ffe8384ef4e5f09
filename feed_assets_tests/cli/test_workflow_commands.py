"""`feed-assets workflow ...`: what people type, also wrongly, on a real master."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from feed_assets_tests.cli.conftest import Run
from feed_assets_tests.workers.masters import served

PROJECT = """
from datetime import date

import feed_assets as fa

project = fa.Project.with_sources(fa.Settings.from_environment(first_day=date(2024, 1, 1)), ())
flow = fa.Workflow("parcels")


@flow.stage(version="1")
def intake(work: fa.Work) -> None:
    pass


defs = project.definitions(assets=[], workflows=[flow])
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The base of a project with a workflow, whose master runs; the project's folder has a file."""
    (tmp_path / "parcels_of_a_test.py").write_text(PROJECT)
    (tmp_path / "scans.csv").write_text("code\na1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("FEED_ASSETS_MODULE", "parcels_of_a_test")
    monkeypatch.setenv("FEED_ASSETS_BASE", str(tmp_path / "base"))
    with served(tmp_path / "base", "parcels"):
        yield tmp_path / "base"
    sys.modules.pop("parcels_of_a_test", None)


def test_a_task_that_would_be_refused_is_not_inserted_and_its_file_not_copied(run: Run, base: Path) -> None:
    def insert(*arguments: str, code: int) -> str:
        return " ".join(run("workflow", "insert", "intake", *arguments, code=code).output.split())

    assert "intake has no configuration in force: `feed-assets workflow apply` brings it" in insert("scans.csv", code=1)
    run("workflow", "apply")
    assert "a task with a key has no files" in insert("scans.csv", "--key", "k", code=1)
    assert "=5 has no name" in insert("scans.csv", "=5", code=2)
    assert "the payload has 5,008 bytes" in insert("scans.csv", f"x={'y' * 5000}", code=1)
    assert "surrogates not allowed" in insert("scans.csv", "x=\udcff", code=1)
    assert not list(base.rglob("scans.csv"))

    insert("scans.csv", "count=3", "rate=NaN", code=0)
    (task,) = json.loads(run("workflow", "ls", "--status", "waiting", "--json").stdout)
    assert task["payload"] == {"count": 3, "rate": "NaN"}
    assert len(list(base.rglob("scans.csv"))) == 1


def test_a_unit_and_a_group_that_there_cannot_be_say_so(run: Run, base: Path) -> None:
    run("workflow", "apply")
    unknown = run("workflow", "explain", "77").output

    assert "nothing of unit 77" in " ".join(unknown.split())
    assert "it has more than 200 characters" in run("workflow", "ls", "--group", "g" * 300, code=1).output
