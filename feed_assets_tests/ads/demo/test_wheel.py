"""The wheel, installed somewhere else and used in an empty directory: all that commands need is in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from feed_assets_tests import ROOT

pytestmark = pytest.mark.slow

Command = Callable[..., "subprocess.CompletedProcess[str]"]

FIRST_STEP = """
from pathlib import Path
import feed_assets
from feed_assets.cli.installation import write_config
from feed_assets.ads.demo import logs
from feed_assets.ads.demo.story import prepare_base
from feed_assets.file_feed import open_feed, publish_files
from feed_assets.state.store import Store
from datetime import UTC, datetime
base = Path("demo-data")
prepare_base(str(base))
write_config(base / ".dagster")
deliveries = logs.cut(base)
now = datetime(2019, 12, 1, tzinfo=UTC)
update = publish_files(open_feed(str(base / "ad-catalog/v1.0")), None, [logs.CATALOG], now=now, owner="t")
store = Store(f"sqlite:///{base.absolute()}/.state/state.db")
with store.writing() as transaction:
    assert transaction.append("test", now, {}) == 1  # the migrations are in the wheel
print(update.name, deliveries.on_time.stat().st_size > 0, feed_assets.__file__)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content, built from a copy so that nothing is left in the project."""
    copy, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "feed_assets", copy / "feed_assets", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(copy)], check=True)
    return target


@pytest.fixture
def command(installed: Path, tmp_path: Path) -> Command:
    """Runs Python with the installed package in an empty directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FEED_ASSETS_", "DAGSTER_"))}

    def run(*arguments: str, folder: str = ".", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path / folder,
            env={**kept, "PYTHONPATH": str(installed), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_in_an_empty_directory_the_commands_and_the_demos_first_step_find_all_they_need(
    command: Command, installed: Path, tmp_path: Path
):
    script = str(installed / "bin" / "feed-assets")
    first = command("-c", FIRST_STEP)
    assert (first.returncode, first.stdout) == (
        0,
        f"20191201.000000 True {installed}/feed_assets/__init__.py\n",
    ), first.stderr

    listed = json.loads(command(script, "feeds", "demo-data", "--json").stdout)
    assert [(each["location"], each["latest"]) for each in listed] == [("ad-catalog/v1.0", "20191201.000000")]
    assert "demo" in command(script, "--help").stdout
    # The package that answered is the installed one, and what the demo left is in its own directory.
    assert [each.name for each in tmp_path.iterdir()] == ["demo-data"]
    templates = [
        "ads/partners/open_bandit_ads.yaml",
        "cli/dagster.yaml",
        "engine/jre/bin/java",
        "engine/log4j2.properties",
        "ads/report/report_page.html.jinja",
    ]
    assert [name for name in templates if not (installed / "feed_assets" / name).is_file()] == []


def test_the_example_is_written_installed_and_run_without_the_repository(
    command: Command, installed: Path, tmp_path: Path
):
    script = str(installed / "bin" / "feed-assets")
    written = command(script, "init", "shop")
    assert written.returncode == 0, written.stderr
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    added = command(*pip, "install", "--no-deps", "--upgrade", "--target", str(installed), "./shop")
    assert added.returncode == 0, added.stderr
    # A folder of its own, so that the package that is found is the one installed.
    (tmp_path / "work").mkdir()
    assert command("-m", "shop.sample", "2024-03-04", folder="work").returncode == 0

    done = command(
        str(ROOT / "feed_assets_tests/ads/demo/example_run.py"),
        folder="work",
        FEED_ASSETS_AS_OF="2024-03-05T06:00:00",
        FEED_ASSETS_SPARK_MASTER="local[2]",
    )

    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout) == {
        "package": f"{installed}/feed_assets/__init__.py",
        "knows an ad": [],
        "landed orders.csv": 48,
        "landed refunds.jsonl": 4,
        "backfill": [0, "ok"],
        "caught up": [["2024-03-04", "revenue"]],
        # Product, orders, refunds, euros, and how many have no exchange rate: those of the second hour.
        "revenue": [["Cup", 16, 0, "117.00", 8], ["Kettle", 16, 0, "84.64", 8], ["Teapot", 16, 4, "126.00", 0]],
        "late, before": [],
        "late": [["2024-03-04", "clean_orders", "revenue"]],
        "revenue with late orders": [
            ["Cup", 32, 0, "234.00", 16],
            ["Kettle", 32, 0, "169.28", 16],
            ["Teapot", 32, 4, "294.00", 0],
        ],
        # It fails, the expectation of the project's own is named, and readers keep the update before.
        "broken": [1, True, True],
        "explained": ["clean_orders", ["rejected", "valid", "valid"]],
        "feeds": ["clean-orders/v1.0", "clean-refunds/v1.0", "exchange-rates/v1.0", "products/v1.0", "revenue/v1.0"],
        "report": [2, "Error: No such command 'report'."],
    }
