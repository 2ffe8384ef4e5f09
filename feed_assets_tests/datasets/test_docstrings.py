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
    with_examples = {
        name
        for name in datasets.__all__
        if (found := doctest.DocTestFinder(recurse=False).find(getattr(datasets, name), name)) and found[0].examples
    }
    assert {"Calendar", "Dataset", "Grain", "Slot", "parse_slot", "base_starts", "ancestors"} <= with_examples
