"""A program in another language reports, waits and asks by HTTP."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from feed_assets.serving.tokens import add_token
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.waiting import HANGS
from feed_assets_tests.web.windows_service import NOW, serving

SCRIPT = Path(__file__).with_name("report_windows.sh")


def test_a_shell_script_reports_the_parts_of_an_hour_waits_until_it_is_complete_and_marks_it(tmp_path):
    assert shutil.which("curl"), "This test needs curl: apt-get install curl."
    url = sqlite_url(tmp_path / "state.db")
    grants = [f"{verb}:raw/foo" for verb in ("read", "report", "expect", "mark")]
    token = add_token(Store(url), "job", grants, now=NOW, expires=None)
    with serving(url) as client:
        done = subprocess.run(
            [SCRIPT, client.url, token], capture_output=True, text=True, timeout=HANGS, check=False, env=os.environ
        )

    assert done.returncode == 0, done.stderr
    numbers, parts, again, hour, marked, known, marks, removed, refused = map(json.loads, done.stdout.splitlines())
    assert {each["status"] for each in numbers["outcomes"]} == {"accepted"}
    assert [each["outcomes"][0]["status"] for each in (parts, again)] == ["accepted", "known"]
    assert (hour["complete"], hour["revision"], hour["accounted"], hour["expected"]) == (True, 1, 1200, 1200)
    assert [each["outcomes"][0]["status"] for each in (marked, known, removed)] == ["accepted", "known", "accepted"]
    assert [(each["id"], each["by"], each["reason"]) for each in marks["marks"]] == [("check-1", "person job", "bots")]
    assert "is no array of JSON" in refused["detail"]
