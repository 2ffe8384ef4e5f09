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
from pathlib import Path
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

    definitions = _definitions(_imported(module), module)
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
    if not path.is_file():
        return None
    try:
        tools: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        message = f"{path.absolute()} cannot be read: {error}. Correct it, or name a module with --module."
        raise click.ClickException(message) from None
    dagster, dg_project = (_table(tools, *names) for names in (("dagster",), ("dg", "project")))
    several = dagster.get("modules") or []
    if len(several) > 1:
        names = ", ".join(str(each.get("name")) for each in several)
        message = f"{path.absolute()} names several modules: choose one of {names} with --module."
        raise click.ClickException(message)
    named = dagster.get("module_name") or (several[0].get("name") if several else None)
    root = dg_project.get("root_module")
    return named or dg_project.get("code_location_target_module") or (f"{root}.definitions" if root else None)


def _table(tools: Any, *names: str) -> dict[str, Any]:
    for name in names:
        tools = tools.get(name, {}) if isinstance(tools, dict) else {}
    return tools if isinstance(tools, dict) else {}


def _imported(name: str) -> Any:
    here = str(Path.cwd())
    if name != EXAMPLE and here not in sys.path:
        sys.path.insert(0, here)
    try:
        if name in sys.modules:
            # A program that calls several commands may have changed the environment since.
            return importlib.reload(sys.modules[name])
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _not_loadable(name, error) from error
        message = (
            f"There is no module {name}, neither installed nor in {here}: install the project (`pip install -e .`), go "
            f"to its folder, or correct the name (--module, {MODULE}, or module_name in {PYPROJECT})."
        )
        raise click.ClickException(message) from error
    except Exception as error:
        if type(error).__module__.startswith("feed_assets.") and exit_code(error) is not None:
            raise  # its message names the setting, or the line of the source
        raise _not_loadable(name, error) from error


def _not_loadable(module: str, error: Exception) -> click.ClickException:
    """What is wrong with somebody's code, and where: the last line of it that was reached."""
    paths = sysconfig.get_paths()
    others = {Path(paths[each]) for each in ("stdlib", "purelib", "platlib")} | {Path(__file__).parents[1]}
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<")]
    own = [each for each in frames if not others & set(Path(each.filename).parents)]
    where = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return click.ClickException(f"{module} cannot be loaded: {type(error).__name__}: {error}{where}")


def _definitions(loaded: Any, module: str) -> dg.Definitions:
    import dagster as dg  # noqa: PLC0415 - loads Dagster
    from dagster.components.definitions import LazyDefinitions  # noqa: PLC0415 - as above

    found = {name: each for name, each in vars(loaded).items() if isinstance(each, dg.Definitions | LazyDefinitions)}
    if len({id(each) for each in found.values()}) != 1:
        has = f"has several Definitions, {' and '.join(found)}" if found else "has no Definitions"
        message = f"{module} {has}: name the module that Dagster loads, such as my_project.definitions."
        raise click.ClickException(message)
    (definitions,) = {id(each): each for each in found.values()}.values()
    if isinstance(definitions, dg.Definitions):
        return definitions
    try:
        made = definitions()
    except Exception as error:
        if type(error).__module__.startswith("feed_assets.") and exit_code(error) is not None:
            raise
        raise _not_loadable(module, error) from error
    if isinstance(made, dg.Definitions):
        return made
    message = f"{module} makes a repository: have it make Definitions."
    raise click.ClickException(message)
