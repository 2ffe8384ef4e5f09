"""The example of a workflow, `examples/countries`: its stages, run in memory with a real Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

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
