from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from feed_assets import datasets

MODULES = sorted(each.name for each in pkgutil.iter_modules(datasets.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_hold(name: str):
    outcome = doctest.testmod(importlib.import_module(f"feed_assets.datasets.{name}"))
    assert outcome.failed == 0


def test_the_main_values_have_examples():
    modules = [importlib.import_module(f"feed_assets.datasets.{name}") for name in MODULES]
    found = [each for module in modules for each in doctest.DocTestFinder().find(module, "")]
    with_examples = {each.name.strip(".") for each in found if each.examples}
    assert {"Calendar", "Dataset", "Grain", "Slot", "parse_slot", "base_starts", "ancestors"} <= with_examples
