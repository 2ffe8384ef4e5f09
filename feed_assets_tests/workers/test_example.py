"""The example of a workflow, `examples/countries`: its stages, run in memory with a real Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from feed_assets.workflow.errors import StageError
from feed_assets_tests.waiting import HANGS

EXAMPLE = Path(__file__).parents[2] / "examples/countries"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield import_module("countries.definitions")
    for each in [name for name in sys.modules if name.partition(".")[0] == "countries"]:
        del sys.modules[each]


def test_w5_orders_are_split_converted_and_added_up_for_the_day(spark: SparkSession, example: ModuleType) -> None:
    ran = example.flow.run(example.split, [EXAMPLE / "orders.csv"], {"day": "2024-05-20"})

    stages = [stage for stage, _, outcome in ran.done if outcome == "done"]
    assert stages == ["split", "convert", "convert", "convert", "total", "publish"]
    assert (ran.left, ran.failed) == ([], [])
    found = {row.product: round(row.euros, 2) for row in ran.made["2024-05-20"].collect()}
    assert found == {"mug": 23.12, "tea": 14.36, "pot": 36.58}


def test_a_stage_that_fails_says_which_value_it_did_not_know(
    spark: SparkSession, example: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "orders.csv").write_text("product,amount\nmug,1.5\n")

    ran = example.flow.run(example.split, [tmp_path / "orders.csv"], {"day": "2024-05-20"})

    assert [stage for stage, _, outcome in ran.done if outcome == "failed"] == ["split"]
    (failed,) = ran.failed
    assert "country" in failed.reasons[0]
    with pytest.raises(StageError, match=rf"nothing for '2024-05-20'. split of unit {failed.unit} failed: .*country"):
        ran.made["2024-05-20"]


@pytest.mark.slow
@pytest.mark.parametrize("session", ["", "SparkSession.builder.master('local[1]').getOrCreate()"], ids=["none", "own"])
def test_a_users_test_needs_no_session_of_spark_and_may_have_one_of_its_own(session: str) -> None:
    program = f"""
from pyspark.sql import SparkSession
from countries.definitions import flow, split
{session}
ran = flow.run(split, ["orders.csv"], {{"day": "2024-05-20"}})
print(ran.made["2024-05-20"].count())
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, cwd=EXAMPLE, capture_output=True, text=True, timeout=HANGS)

    assert done.stdout.split()[-1:] == ["3"], done.stderr[-2000:]
