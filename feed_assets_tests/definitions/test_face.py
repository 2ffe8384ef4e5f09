"""What users import is one face; inside, an import names the module that has the thing."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import feed_assets as fa

PACKAGE = Path(fa.__file__).parent
FACES = {"feed_assets", "feed_assets.checks", "feed_assets.cli", "feed_assets.delivery", "feed_assets.file_feed"}
LAZY = ["feed_assets", "feed_assets.cli", "feed_assets.delivery"]
TRANSFORMS = ["cleaning", "effectiveness", "schemas"]
PURE = {"engine", "quality", "sources"}
"""The rooms whose names transforms may use: they know neither Dagster nor storage."""


def modules() -> dict[str, ast.Module]:
    """Each module of the package, without the template, by its dotted name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if "template" not in parts:
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def names_for_checkers(face: str) -> dict[str, str]:
    """Name -> the module from which type checkers see it imported."""
    typed = {}
    for node in ast.walk(modules()[face]):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "typing":
            typed |= {each.name: node.module for each in node.names}
    del typed["loaded_when_used"]
    return typed


@pytest.mark.parametrize("face", LAZY)
def test_every_name_of_a_face_is_there_and_checkers_see_what_is_loaded(face: str) -> None:
    typed, loaded = names_for_checkers(face), importlib.import_module(face)

    assert set(typed) == set(loaded.__all__)
    for name, module in typed.items():
        value = getattr(loaded, name)
        assert value is (
            sys.modules[f"{module}.{name}"] if module == "feed_assets" else getattr(sys.modules[module], name)
        )


def test_the_face_loads_nothing_before_it_is_used() -> None:
    code = "import sys, feed_assets as fa; print(len([each for each in sys.modules if each.startswith('feed_assets')]))"
    protocol = f"{code}; fa.open_feed, fa.file_feed; print({{'dagster', 'pyspark'}} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", protocol], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["2", "set()"]


def test_rooms_export_nothing_but_the_faces() -> None:
    exporting = {
        name
        for name, tree in modules().items()
        if (PACKAGE.parent / Path(*name.split(".")) / "__init__.py").exists()
        and any(isinstance(node, ast.ImportFrom | ast.Import) for node in tree.body)
    }

    assert exporting - {"feed_assets.ads.partners"} == FACES


def test_inside_the_package_no_import_goes_by_a_room() -> None:
    known = modules()
    rooms = {name for name in known if (PACKAGE.parent / Path(*name.split(".")) / "__init__.py").exists()}
    by_room = [
        f"{module}: from {node.module} import {each.name}"
        for module, tree in known.items()
        if module not in FACES
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in rooms
        for each in node.names
        if f"{node.module}.{each.name}" not in known
    ]

    assert [each for each in by_room if "feed_assets.ads.partners" not in each] == []


@pytest.mark.parametrize("module", TRANSFORMS)
def test_transforms_of_the_example_use_only_names_without_dagster_and_storage(module: str) -> None:
    typed = names_for_checkers("feed_assets")
    used = {
        node.attr
        for node in ast.walk(modules()[f"feed_assets.ads.{module}"])
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fa"
    }

    assert used
    assert {name: typed[name] for name in used if typed[name].split(".")[1] not in PURE} == {}
