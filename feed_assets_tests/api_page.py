"""Writes `.readme/api.md`: what the rooms of the package export, from their docstrings.

Run `python -m feed_assets_tests.api_page` after a change of an export or of its docstring; a test says when.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1] / "feed_assets"
PAGE = PACKAGE.parent / ".readme" / "api.md"
NOT_FOR_PROJECTS = {"feed_assets.ads", "feed_assets.ads.assets", "feed_assets.cli"}
"""Rooms whose exports are no part of the API: the worked example, and the command line."""
FIRST = ["project", "assets", "checks", "io_manager", "quality", "sources", "resources", "sensors"]
"""What a project needs comes first."""
HEAD = """\
# What to import

These names are the API: the exports of the package's rooms. Everything else may change with any version.
`feed-assets init NAME` writes a project that uses them. `python -m feed_assets_tests.api_page` makes this page from the
first paragraphs of the docstrings, which say more.
"""


def exporting_rooms() -> list[str]:
    """The packages below `feed_assets` that export something to projects, those that a project needs first."""
    rooms = [
        ".".join(path.parent.relative_to(PACKAGE.parent).parts)
        for path in PACKAGE.rglob("__init__.py")
        if "__all__" in path.read_text(encoding="utf-8")
    ]
    order = {f"feed_assets.{name}": place for place, name in enumerate(FIRST)}
    return sorted(set(rooms) - NOT_FOR_PROJECTS, key=lambda room: (order.get(room, len(order)), room))


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(line for room in exporting_rooms() for line in _room(room))])


def _room(name: str) -> Iterator[str]:
    room = importlib.import_module(name)
    yield f"## `{name}`\n"
    yield f"{_first_paragraph(room.__doc__)}\n"
    for each in sorted(room.__all__, key=str.lower):
        yield from _name(room, each)
    yield ""


def _name(room: Any, name: str) -> Iterator[str]:
    value = getattr(room, name)
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        yield f"- `{name}`: {_first_paragraph(_text_below(room, name))}"
        return
    yield f"- `{name}{_parameters(value)}`: {_first_paragraph(inspect.getdoc(value))}"
    if inspect.isclass(value) and not issubclass(value, Exception):
        for member, found in vars(value).items():
            function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
            if member.startswith(("_", "model_")) or not found.__doc__:
                continue
            if isinstance(found, property):
                yield f"  - `.{member}`: {_first_paragraph(found.__doc__)}"
            elif inspect.isfunction(function):
                yield f"  - `.{member}{_parameters(function)}`: {_first_paragraph(function.__doc__)}"


def _parameters(value: Any) -> str:
    """The names of the parameters; a value in brackets may be left out. Nothing for errors and bases of Dagster's."""
    if inspect.isclass(value) and (issubclass(value, Exception) or not hasattr(value, "__dataclass_fields__")):
        return ""
    found = [each for each in inspect.signature(value).parameters.values() if each.name not in {"self", "cls"}]
    texts = []
    for each in found:
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        texts.append(f"{star}{each.name}" + ("=..." if each.default is not each.empty else ""))
    return f"({', '.join(texts)})"


def _first_paragraph(text: str | None) -> str:
    assert text, "an export has no docstring"
    return re.sub(r"\s+", " ", inspect.cleandoc(text).partition("\n\n")[0])


def _text_below(room: Any, name: str) -> str:
    """The string below the assignment of a constant, in the module that the room imports it from."""
    tree = ast.parse(Path(room.__file__).read_text(encoding="utf-8"))
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    (origin,) = [node.module for node in imports if name in {each.name for each in node.names}]
    source = Path(importlib.import_module(str(origin)).__file__ or "")
    if source.name == "__init__.py" and source.parent != Path(room.__file__).parent:
        return _text_below(importlib.import_module(str(origin)), name)
    body = list(ast.walk(ast.parse(source.read_text(encoding="utf-8"))))
    for block in (getattr(node, "body", None) for node in body):
        for statement, below in pairwise(block) if isinstance(block, list) else ():
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            if named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return str(below.value.value)
    message = f"{origin}.{name} has no docstring below it"
    raise AssertionError(message)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
