"""Docstrings as Markdown: of modules, classes and functions, and the strings below constants and fields."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path


def first_paragraph(text: str | None) -> str:
    """The first paragraph of a docstring, as one line."""
    assert text, "an export has no docstring"
    return paragraphs(text)[0]


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a docstring, each as one line."""
    return [re.sub(r"\s+", " ", each).strip() for each in inspect.cleandoc(text).split("\n\n")]


def strings_below(source: Path) -> Mapping[str, str]:
    """Name -> the string below its assignment, for the constants of a module."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    blocks = (each for each in ast.walk(tree) if isinstance(each, ast.Module | ast.If | ast.With))
    return {name: text for block in blocks for name, text in _documented(block)}


def of_fields(model: type) -> Mapping[str, str]:
    """Field -> the string below it, for a class and its bases."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each.__module__.startswith("feed_assets."):
            found |= _documented(ast.parse(inspect.getsource(each)).body[0])
    return found


def _documented(block: ast.AST) -> Iterator[tuple[str, str]]:
    for statement, below in pairwise(getattr(block, "body", [])):
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, below.value.value
