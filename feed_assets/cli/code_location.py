"""Whose pipelines a command is about: the module of a Dagster code location, and the project behind its definitions.

Here: choosing the module, loading it, and what is wrong with it. Not here: what commands do with it, and the project
itself (`feed_assets.project`).
"""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import tomllib
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from feed_assets.cli.errors import exit_code

if TYPE_CHECKING:
    import dagster as dg

    from feed_assets.project import Project

EXAMPLE = "feed_assets.definitions"
"""The code location where no other is named: the worked example."""

MODULE = "FEED_ASSETS_MODULE"
PYPROJECT = "pyproject.toml"


def chosen_module() -> str:
    """The module of `--module` or FEED_ASSETS_MODULE; else the one that `pyproject.toml` names; else the example's."""
    ctx = click.get_current_context(silent=True)
    given = ctx.find_root().params.get("module") if ctx else os.environ.get(MODULE)
    return str(given) if given else _declared(Path(PYPROJECT)) or EXAMPLE


def load_project(module: str) -> tuple[Project, dg.Definitions]:
    """The definitions of a module, and their project. Raises ClickException where there are none.

    The current folder is searched for the module first, as `dagster dev` does.
    """
    from feed_assets.project import Project  # noqa: PLC0415 - loads Dagster and Spark's Python side

    definitions = _definitions(module)
    project = (definitions.resources or {}).get("project")
    if not isinstance(project, Project):
        message = (
            f"The definitions of {module} belong to no project of feed_assets: make them with "
            "`feed_assets.project.Project`, as the files of `feed-assets init NAME` do."
        )
        raise click.ClickException(message)
    return project, definitions


def _declared(path: Path) -> str | None:
    """The module that a `pyproject.toml` names for Dagster's own commands; None where it names none."""
    try:
        tools: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
        dagster, project = tools.get("dagster", {}), tools.get("dg", {}).get("project", {})
        several = [each["name"] for each in dagster.get("modules", ())]
        root = project.get("root_module")
    except FileNotFoundError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
        message = f"{path.absolute()} cannot be read: {error}. Correct it, or name a module with --module."
        raise click.ClickException(message) from None
    if len(several) > 1:
        message = f"{path.absolute()} names several modules: choose one of {', '.join(several)} with --module."
        raise click.ClickException(message)
    named = dagster.get("module_name") or next(iter(several), None) or project.get("code_location_target_module")
    return named or (f"{root}.definitions" if root else None)


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if name != EXAMPLE and here not in sys.path:
        sys.path.insert(0, here)
    # A program that calls several commands may have changed the environment since it called the first.
    return importlib.reload(sys.modules[name]) if name in sys.modules else importlib.import_module(name)


def _definitions(module: str) -> dg.Definitions:
    import dagster as dg  # noqa: PLC0415 - loads Dagster
    from dagster.components.definitions import LazyDefinitions  # noqa: PLC0415 - as above

    with _explained(module):
        loaded = vars(_imported(module))
        named = {name: each for name, each in loaded.items() if isinstance(each, dg.Definitions | LazyDefinitions)}
        found = list({id(each): each for each in named.values()}.values())
        made = found[0]() if len(found) == 1 and isinstance(found[0], LazyDefinitions) else found[0] if found else None
    if len(found) == 1 and isinstance(made, dg.Definitions):
        return made
    has = f"has several Definitions, {' and '.join(named)}" if found else "has no Definitions"
    message = f"{module} {has}: name the module that Dagster loads, such as my_project.definitions."
    raise click.ClickException(message)


@contextmanager
def _explained(module: str) -> Iterator[None]:
    """Say what is wrong with somebody's code, and where: the last line of it that was reached."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.startswith("feed_assets.") and exit_code(error) is not None:
            raise  # its message names the setting, or the line of the source
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent is not None and f"{module}.".startswith(f"{absent}."):
            message = (
                f"There is no module {module}, neither installed nor in {Path.cwd()}: go to the project's folder, "
                "install it (`pip install -e .`), or correct the name "
                f"(--module, {MODULE}, or module_name in {PYPROJECT})."
            )
            raise click.ClickException(message) from error
        paths = sysconfig.get_paths()
        others = {Path(paths[each]) for each in ("stdlib", "purelib", "platlib")} | {Path(__file__).parents[1]}
        frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<")]
        own = [each for each in frames if not others & set(Path(each.filename).parents)]
        where = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
        message = f"{module} cannot be loaded: {type(error).__name__}: {error}{where}"
        raise click.ClickException(message) from error
