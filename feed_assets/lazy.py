"""Names of a package that are loaded when they are used: a command that needs one of them waits for no other.

Here: PEP 562 for the rooms whose names load Dagster or Spark. Not here: the names, which each `__init__` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def loaded_when_used(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `places` maps each of its names to the module that has it, or that it is.

    Static checkers read the imports below `TYPE_CHECKING`, which say the same; a test compares them.
    """

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(places[name])
        return module if places[name] == f"{package}.{name}" else getattr(module, name)

    return load
