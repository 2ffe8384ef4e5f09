"""Choose and load the module with the pipelines that a program works on, and find its project.

Here: the choice, loading, and errors in the module. Not here: the project itself (`assembly`).
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
import tomllib
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from feed_assets.errors import FeedAssetsError, exit_code

if TYPE_CHECKING:
    import dagster as dg

    from feed_assets.project.assembly import Project

EXAMPLE = "feed_assets.definitions"
"""The worked example, loaded if no other module is named."""

MODULE = "FEED_ASSETS_MODULE"
PYPROJECT = "pyproject.toml"


class ProjectError(FeedAssetsError):
    """The module of a project cannot be chosen or loaded; the message says why, and what to do."""


def chosen_module(given: str | None = None) -> str:
    """The module that is given; else the one that `pyproject.toml` names; else the worked example.

    Raises ProjectError if only the `pyproject.toml` of a folder above names a module: its data is not here.
    """
    if named := given or _declared(Path(PYPROJECT)):
        return named
    for folder in Path.cwd().parents:
        named = None
        with suppress(OSError, ProjectError):  # it may belong to something else
            named = _declared(folder / PYPROJECT)
        if named:
            advice = "run the command there, or name a module with --module"
            raise ProjectError(f"This folder belongs to the project {named} in {folder}: {advice}.")
    return EXAMPLE


def load_project(module: str) -> tuple[Project, dg.Definitions]:
    """The project of a module, and its definitions. Raises ProjectError if it has none, or if Dagster refuses them.

    Python looks for the module in the current folder first, as with `dagster dev`.
    """
    from feed_assets.project.assembly import Project  # noqa: PLC0415 - loads Dagster and Spark's Python side

    definitions = _definitions(module)
    project = (definitions.resources or {}).get("project")
    if not isinstance(project, Project):
        raise ProjectError(
            f"The definitions of {module} belong to no project of feed_assets: create them with "
            "`feed_assets.project.Project`, as the files of `feed-assets init NAME` do."
        )
    _require_valid(module, definitions)
    return project, definitions


def _require_valid(module: str, definitions: dg.Definitions) -> None:
    """Raise ClickException if Dagster refuses the definitions as a whole, such as the partitions of an input."""
    import dagster as dg  # noqa: PLC0415 - loads Dagster

    try:
        dg.Definitions.validate_loadable(definitions)
    except dg.DagsterInvalidDefinitionError as error:
        why = str(error)
        if error.__cause__:  # of partitions that cannot be mapped
            why += f": {error.__cause__}. Correct the partitions of the asset, or the partition_mapping of its input."
        raise ProjectError(f"Dagster cannot use the definitions of {module}. {why}") from error


def _declared(path: Path) -> str | None:
    """The module that a `pyproject.toml` names for Dagster; None if it names none."""
    try:
        tools: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
        dagster, project = tools.get("dagster", {}), tools.get("dg", {}).get("project", {})
        modules = [each["name"] for each in dagster.get("modules", ())]
        root = project.get("root_module")
    except FileNotFoundError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
        raise ProjectError(
            f"{path.absolute()} cannot be read: {error}. Correct it, or name a module with --module."
        ) from None
    if len(modules) > 1:
        raise ProjectError(
            f"{path.absolute()} names several modules: choose one of {', '.join(modules)} with --module."
        )
    named = dagster.get("module_name") or next(iter(modules), None) or project.get("code_location_target_module")
    return named or (f"{root}.definitions" if root else None)


def look_here_first(module: str) -> None:
    """Let Python look for modules in the current folder first, as `dagster dev` does, unless it is the example."""
    here = str(Path.cwd())
    if module != EXAMPLE and here not in sys.path:
        sys.path.insert(0, here)


def _imported(name: str) -> ModuleType:
    look_here_first(name)
    # A program may call several commands and change the environment between them.
    return importlib.reload(sys.modules[name]) if name in sys.modules else importlib.import_module(name)


def _definitions(module: str) -> dg.Definitions:
    import dagster as dg  # noqa: PLC0415 - loads Dagster
    from dagster.components.definitions import LazyDefinitions  # noqa: PLC0415 - as above

    with _explained(module), redirect_stdout(sys.stderr), warnings.catch_warnings():  # what it prints is no result
        for category in (dg.BetaWarning, dg.PreviewWarning):  # Dagster's commands show these to the module's author
            warnings.simplefilter("ignore", category)
        loaded = vars(_imported(module))
        named = {name: each for name, each in loaded.items() if isinstance(each, dg.Definitions | LazyDefinitions)}
        found = list({id(each): each for each in named.values()}.values())
        only = found[0]() if len(found) == 1 and isinstance(found[0], LazyDefinitions) else found[0] if found else None
    if len(found) == 1 and isinstance(only, dg.Definitions):
        return only
    has = f"has several Definitions, {' and '.join(named)}" if found else "has no Definitions"
    raise ProjectError(f"{module} {has}: name the module that Dagster loads, such as my_project.definitions.")


@contextmanager
def _explained(module: str) -> Iterator[None]:
    """Turn an error in the user's module into a message with the last line of the user's code that ran."""
    try:
        yield
    except (Exception, SystemExit) as error:
        expected = isinstance(error, Exception) and exit_code(error) is not None
        if expected and type(error).__module__.startswith("feed_assets."):
            raise  # its message names the setting, or the line of the source
        if isinstance(error, TypeError) and module.startswith("."):
            raise ProjectError(f"{module} is no name of a module: give it as Python imports it.") from error
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent is not None and f"{module}.".startswith(f"{absent}."):
            raise ProjectError(
                f"There is no module {module}, neither installed nor in {Path.cwd()}: go to the project's folder, "
                f"install it (`pip install -e .`) or correct the name (--module, {MODULE}, module_name in {PYPROJECT})."
            ) from error
        paths = sysconfig.get_paths()
        others = {Path(paths[each]) for each in ("stdlib", "purelib", "platlib")} | {Path(__file__).parents[1]}
        frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith("<")]
        own = [each for each in frames if not others & set(Path(each.filename).parents)]
        where = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
        raise ProjectError(f"{module} cannot be loaded: {type(error).__name__}: {error}{where}") from error
