"""The benchmarks themselves work: what they find is shown and written. How fast anything is, no test says."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from feed_assets_tests.benchmarks.__main__ import main

pytestmark = pytest.mark.slow


def test_quick_measurements_are_shown_and_written_with_the_machine_they_are_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    names = ("latest", "ticks", "sizes", "slots", "tasks", "cold-start", "failover")
    result = CliRunner().invoke(main, ["--quick", *(f"--only={name}" for name in names)], catch_exceptions=False)

    assert result.exit_code == 0
    written = json.loads((tmp_path / "benchmarks.json").read_text())
    assert written["quick"] is True
    assert written["machine"]["cores"] >= 1
    assert tuple(written["benchmarks"]) == names
    for name, benchmark in written["benchmarks"].items():
        assert f"{name}: {benchmark['title']}" in result.output
        assert benchmark["rows"]


def test_finding_the_latest_update_takes_as_many_requests_whatever_the_length_of_the_history(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    CliRunner().invoke(main, ["--quick", "--only", "latest"], catch_exceptions=False)

    benchmark = json.loads((tmp_path / "benchmarks.json").read_text())["benchmarks"]["latest"]
    recent = [row["values"]["requests_to_S3"] for row in benchmark["rows"] if "hour" in row["subject"]]
    assert len(set(recent)) == 1
