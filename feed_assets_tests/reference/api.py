"""The page of the API: the names of `feed_assets` and of its parts `checks`, `cli` and `file_feed`."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from feed_assets_tests.reference.docstrings import first_paragraph, strings_below

FACES = ("feed_assets", "feed_assets.checks", "feed_assets.cli", "feed_assets.file_feed")
HEAD = """\
# Python

These names are the API; everything else may change with any version. Projects write `import feed_assets as fa`, then
`fa.Project`, `fa.checks.unique`, `fa.cli.print_table` or `fa.file_feed.history`. Each name is loaded when it is used. A
parameter with `=...` has a default. The docstrings say more: `help(fa.Project)`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(line for face in FACES for line in _face(importlib.import_module(face)))])


def _face(module: ModuleType) -> Iterator[str]:
    yield f"## `{module.__name__}`\n"
    yield f"{first_paragraph(module.__doc__)}\n"
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if inspect.ismodule(value):
            continue  # has a section of its own
        yield from _name(module, name, value)
    yield ""


def _name(module: ModuleType, name: str, value: Any) -> Iterator[str]:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        yield f"- `{name}`: {first_paragraph(_text_below(module, name))}"
        return
    yield f"- `{name}{_parameters(value)}`: {first_paragraph(inspect.getdoc(value))}"
    if inspect.isclass(value) and not issubclass(value, Exception):
        for member, found in vars(value).items():
            function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
            inherited = any(hasattr(base, member) for base in value.__bases__)  # described by the library of the base
            if member.startswith(("_", "model_")) or inherited or not found.__doc__:
                continue
            if isinstance(found, property):
                yield f"    - `.{member}`: {first_paragraph(found.__doc__)}"
            elif inspect.isfunction(function):
                yield f"    - `.{member}{_parameters(function)}`: {first_paragraph(function.__doc__)}"


def _parameters(value: Any) -> str:
    """The names of the parameters. Nothing for errors and bases of Dagster's."""
    if inspect.isclass(value) and (issubclass(value, Exception) or not hasattr(value, "__dataclass_fields__")):
        return ""
    found = [each for each in inspect.signature(value).parameters.values() if each.name not in {"self", "cls"}]
    texts = []
    for each in found:
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        texts.append(f"{star}{each.name}" + ("=..." if each.default is not each.empty else ""))
    return f"({', '.join(texts)})"


def _text_below(module: ModuleType, name: str) -> str:
    """The string below the assignment of a constant, in the module from which the face imports it."""
    source = Path(str(module.__file__))
    if found := strings_below(source).get(name):
        return found
    imports = (node for node in ast.walk(ast.parse(source.read_text("utf-8"))) if isinstance(node, ast.ImportFrom))
    origins = [node.module for node in imports if name in {each.name for each in node.names}]
    assert origins, f"{module.__name__}.{name} has no string below it"
    (origin,) = origins
    return _text_below(importlib.import_module(str(origin)), name)
