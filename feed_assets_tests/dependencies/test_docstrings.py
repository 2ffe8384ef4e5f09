from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["quality.marks", "quality.overlaps", "quality.profiles", "quality.rows"])
def test_the_examples_in_docstrings_hold(name: str):
    outcome = doctest.testmod(importlib.import_module(f"feed_assets.dependencies.{name}"))
    assert outcome.attempted
    assert outcome.failed == 0
